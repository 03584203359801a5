#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "fovea/serve/http.h"

namespace fovea::serve {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int64_t port = 8080;             // 0: the system chooses
  double timeout = 60;             // seconds from a request's last byte to its answer
  double read_timeout = 20;        // seconds for a request's head, and again for its body
  double idle_timeout = 60;        // seconds that an open connection may wait for its next request
  int64_t max_connections = 1000;  // further ones get 503
  size_t max_head = size_t{16} << 10;
};

// A server of HTTP/1.1 in one thread: one event loop reads requests, notices clients that leave, and sends answers.
class Server {
 public:
  // Takes the port. Throws an Error of one line if it cannot.
  Server(const ServerOptions& options, Service& service);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int64_t port() const;  // the port that was taken
  std::string address() const;
  // Serves until SIGINT or SIGTERM came, or stop() was called, and every open request has its answer. A second signal
  // ends the process at once. SIGHUP calls Service::reload(). A signal that the parent process ignores stays ignored.
  void run();
  void stop();  // from any thread: takes no further connections; run() returns when the open requests are answered
  void stop_at_once();  // from any thread: run() returns now

 private:
  struct Loop;
  std::shared_ptr<Loop> loop_;
};

}  // namespace fovea::serve
