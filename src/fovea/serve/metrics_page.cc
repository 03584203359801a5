#include "fovea/serve/metrics_page.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "fovea/base/strings.h"

namespace fovea::serve {
namespace {

// One line per value, after two lines that say what it is.
class Page {
 public:
  void begin(std::string_view name, std::string_view type, std::string_view help) {
    text_ += cat("# HELP fovea_", name, " ", help, "\n# TYPE fovea_", name, " ", type, "\n");
  }
  template <class T>
  void value(std::string_view name, std::string_view labels, T value) {
    text_ += cat("fovea_", name, labels, " ", value, "\n");
  }
  template <class T>
  void add(std::string_view name, std::string_view type, std::string_view help, T number) {
    begin(name, type, help);
    value(name, "", number);
  }
  std::string text() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

void Metrics::count_request(std::string_view dialect, int status, double seconds) {
  const std::lock_guard lock(mutex_);
  if (status == 0) ++cancelled_;
  ++requests_[{std::string(dialect), status}];
  const auto* const bound = std::ranges::lower_bound(kSecondsBounds, seconds);
  ++in_seconds_[static_cast<size_t>(bound - kSecondsBounds.begin())];
  all_seconds_ += seconds;
}

std::string Metrics::page(int64_t waiting_parts, int64_t waiting_tokens, bool is_ready) const {
  Page page;
  const std::lock_guard lock(mutex_);
  page.begin("requests_total", "counter", "Requests by dialect and HTTP status; 0: the client left.");
  int64_t all = 0;
  for (const auto& [key, count] : requests_) {
    page.value("requests_total", cat("{dialect=\"", key.first, "\",code=\"", key.second, "\"}"), count);
    all += count;
  }
  page.begin("request_seconds", "histogram", "Seconds from a request's head to its answer.");
  int64_t below = 0;
  for (size_t i = 0; i < kSecondsBounds.size(); ++i)
    page.value("request_seconds_bucket", cat("{le=\"", shortest(kSecondsBounds[i]), "\"}"), below += in_seconds_[i]);
  page.value("request_seconds_bucket", "{le=\"+Inf\"}", all);
  page.value("request_seconds_sum", "", shortest(all_seconds_));
  page.value("request_seconds_count", "", all);
  page.add("cancelled_total", "counter", "Requests whose client left before the answer.", cancelled_);
  page.add("source_tokens_total", "counter", "Tokens of texts that were read.", source_tokens.load());
  page.add("unknown_tokens_total", "counter", "Tokens of texts that were read that stand for unknown text.",
           unknown_tokens.load());
  page.add("target_tokens_total", "counter", "Tokens of texts that were written.", target_tokens.load());
  page.add("sentences_total", "counter", "Sentences and texts that the models finished.", sentences.load());
  page.add("steps_total", "counter", "Steps of the models.", steps.load());
  page.add("reloads_total", "counter", "Times that the models were loaded again.", reloads.load());
  page.add("failed_reloads_total", "counter", "Times that loading the models again failed.", failed_reloads.load());
  page.add("queue_sentences", "gauge", "Sentences and texts that wait.", waiting_parts);
  page.add("queue_tokens", "gauge", "Source tokens that wait.", waiting_tokens);
  page.add("running", "gauge", "Sentences and texts that are computed now.", running.load());
  page.add("rows", "gauge", "Hypotheses of the last step.", rows.load());
  page.add("ready", "gauge", "1 if all models are loaded.", is_ready ? 1 : 0);
  page.add("resident_memory_bytes", "gauge", "Memory of the process.", resident_bytes());
  return page.text();
}

}  // namespace fovea::serve
