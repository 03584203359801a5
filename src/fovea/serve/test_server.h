#pragma once
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/serve/routes.h"
#include "fovea/serve/server.h"
#include "fovea/serve/test_engines.h"

// A whole server in the test's process, with engines without a model, and clients on its port.
namespace fovea::serve {

// The options of a server with a translator "en-de" and a language model "lm".
inline ServeOptions test_options() {
  ServeOptions options;
  options.model = {"en-de=unused", "lm=unused"};
  options.port = 0;
  return options;
}

class ServerRig {
 public:
  explicit ServerRig(ServeOptions given = test_options(), ApiKeys known = {})
      : options_(std::move(given)),
        keys_(std::move(known)),
        routes_(options_, keys_, [this](const ModelPlace& place) { return engine_of(place); }),
        server_(network(options_), routes_),
        engines_([this] { routes_.batcher().run(); }),
        loop_([this] { server_.run(); }) {}
  ~ServerRig() { stop(); }
  ServerRig(const ServerRig&) = delete;
  ServerRig& operator=(const ServerRig&) = delete;

  // Takes no further connections, answers the open requests, and ends the threads.
  void stop() {
    if (!loop_.joinable()) return;
    server_.stop();
    loop_.join();
    routes_.batcher().stop();
    engines_.join();
    routes_.finish();
  }
  Routes& routes() { return routes_; }
  int port() const { return static_cast<int>(server_.port()); }
  std::function<void(FakeSteps& engine)> before_step = [](FakeSteps&) {};  // in the thread of the engines

 private:
  static ServerOptions network(const ServeOptions& options) {
    return {.port = 0,
            .timeout = options.timeout,
            .read_timeout = options.read_timeout,
            .max_connections = options.max_connections};
  }
  std::unique_ptr<Engine> engine_of(const ModelPlace& place) const {
    std::unique_ptr<FakeSteps> engine;
    if (place.source.empty()) {
      engine = std::make_unique<FakeCompleter>();
    } else {
      engine = std::make_unique<FakeTranslator>();
    }
    engine->before_step = before_step;
    return engine;
  }

  const ServeOptions options_;
  const ApiKeys keys_;
  Routes routes_;
  Server server_;
  std::thread engines_, loop_;
};

// A connection of a client, whose reads end after ten seconds at the latest.
class Client {
 public:
  explicit Client(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(static_cast<uint16_t>(port));
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&place), sizeof place) != 0)
      throw Error("cannot connect to the server of the test");
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // the server has closed
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  // Reads until the text has `end`, or the server closes. Returns all that came since the last call.
  std::string read_until(std::string_view end) {
    while (came_.find(end) == std::string::npos) {
      if (!read_more()) return std::exchange(came_, {});
    }
    const size_t size = came_.find(end) + end.size();
    std::string text = came_.substr(0, size);
    came_.erase(0, size);
    return text;
  }
  // One answer with a Content-Length, or all until the server closes.
  std::string answer() {
    std::string text = read_until("\r\n\r\n");
    const size_t place = text.find("Content-Length: ");
    if (place == std::string::npos) return text;
    const auto size = static_cast<size_t>(std::stoul(text.substr(place + 16)));
    while (came_.size() < size && read_more()) continue;
    text += came_.substr(0, size);
    came_.erase(0, size);
    return text;
  }

 private:
  bool read_more() {
    pollfd ready{.fd = socket_, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, 10'000) <= 0) return false;
    std::array<char, 4096> bytes{};
    const ssize_t count = ::recv(socket_, bytes.data(), bytes.size(), 0);
    if (count > 0) came_.append(bytes.data(), static_cast<size_t>(count));
    return count > 0;
  }

  int socket_;
  std::string came_;
};

inline std::string request_text(std::string_view method, std::string_view path, std::string_view body,
                                std::string_view more_headers = "", std::string_view type = "application/json") {
  return cat(method, " ", path, " HTTP/1.1\r\nHost: localhost\r\n", more_headers,
             body.empty() ? std::string() : cat("Content-Type: ", type, "\r\nContent-Length: ", body.size(), "\r\n"),
             "\r\n", body);
}

// The answer to one request on a connection of its own.
inline std::string asked(int port, std::string_view request) {
  Client client(port);
  client.send(request);
  return client.answer();
}
inline std::string posted(int port, std::string_view path, std::string_view body, std::string_view more_headers = "") {
  return asked(port, request_text("POST", path, body, more_headers));
}
inline int status_of(std::string_view answer) {
  return answer.size() < 12 ? 0 : std::stoi(std::string(answer.substr(9, 3)));
}

// A value of /metrics.
inline double metric(int port, const std::string& name) {
  const std::string page = asked(port, request_text("GET", "/metrics", ""));
  const size_t place = page.find(cat("\nfovea_", name, " "));
  return place == std::string::npos ? -1 : std::stod(page.substr(place + 8 + name.size()));
}

// Whether `holds` within ten seconds.
inline bool in_time(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

inline void wait_until_ready(const ServerRig& rig) {
  if (!in_time([&] { return status_of(asked(rig.port(), request_text("GET", "/ready", ""))) == 200; }))
    throw Error("the server of the test is not ready");
}

}  // namespace fovea::serve
