#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fovea/serve/batcher.h"
#include "fovea/serve/context.h"

namespace fovea::serve {

// The service behind the server: finds the route of each request, checks keys and origins, and runs the dialects. Each
// reads its requests in one of two threads, one for short bodies and one for long ones, so that a short request never
// waits for a long one to be read; results are written in the worker's thread.
class Routes final : public Service {
 public:
  Routes(const ServeOptions& options, const ApiKeys& keys, Batcher::Loader loader);

  size_t body_limit(const Request& head) const override;
  Response quick_answer(const Request& head) override;
  bool has_key(const Request& head) const override { return context_.keys.accept_headers(head); }
  void handle(std::shared_ptr<Exchange> exchange) override;
  Response refusal(const Request& request, int status, const std::string& message) const override;
  std::vector<Header> common_headers(const Request& request) const override;
  void finished(const Request& request, int status, double seconds) override;
  void reload() override { batcher_.reload(); }
  std::string new_id() override;

  Batcher& batcher() { return batcher_; }
  void finish();  // does the work that is left, while the server still lives

 private:
  const Route* route_of(const Request& request) const;
  const Dialect& dialect_of(const Request& request) const;
  bool may_use(const Request& request) const;  // by its header Origin
  bool is_own_host(std::string_view host) const;
  bool allows_origin(std::string_view origin) const;
  void log_texts(const Request& request) const;
  void answer_now(const Route& route, const std::shared_ptr<Exchange>& exchange);

  const ServeOptions& options_;
  MemoryRoom room_{kMostRequestMemory};
  Models models_;
  JobQueue queue_;
  Metrics metrics_;
  Batcher batcher_;
  Context context_;
  std::vector<Route> routes_;
  const std::string id_prefix_;
  std::atomic<int64_t> last_id_ = 0;
  Worker worker_;                      // its work uses the members above
  Worker short_reader_, long_reader_;  // end first
};

}  // namespace fovea::serve
