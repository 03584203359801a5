#include "fovea/serve/server.h"

#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <set>

#include "fovea/base/error.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/serve/connection.h"

namespace fovea::serve {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;
using Failure = boost::system::error_code;

struct Server::Loop : std::enable_shared_from_this<Server::Loop> {
  Loop(const ServerOptions& given, Service& behind) : options(given), service(behind) {}

  void listen();
  void accept();
  void take(Tcp::socket socket);
  void catch_signals();
  void wait_for_signal();
  void stop();

  ServerOptions options;
  Service& service;
  asio::io_context context{1};
  Tcp::acceptor acceptor{context};
  asio::steady_timer pause{context};
  asio::signal_set signals{context};
  BodyRoom room;
  std::set<std::shared_ptr<Connection>> connections;
  bool is_stopping = false;
};

void Server::Loop::listen() {
  Failure failure;
  const asio::ip::address host =
      asio::ip::make_address(options.host == "localhost" ? "127.0.0.1" : options.host, failure);
  if (failure)
    throw Error(cat("--host: got '", options.host,
                    "'; expected an address of this machine such as 127.0.0.1, or 0.0.0.0 for all"));
  const Tcp::endpoint place(host, static_cast<uint16_t>(options.port));
  acceptor.open(place.protocol(), failure);
  if (!failure) acceptor.set_option(Tcp::acceptor::reuse_address(true), failure);
  if (!failure) acceptor.bind(place, failure);
  if (!failure) acceptor.listen(asio::socket_base::max_listen_connections, failure);
  if (failure)
    throw Error(cat("--port: cannot listen on ", options.host, " port ", options.port, ": ", failure.message(),
                    "; choose another port, or 0 for a free one"));
}

void Server::Loop::accept() {
  acceptor.async_accept([this](const Failure& failure, Tcp::socket socket) {
    if (!acceptor.is_open()) return;
    if (!failure) {
      take(std::move(socket));
      return accept();
    }
    // Too many open files, for example: later there may be fewer.
    pause.expires_after(std::chrono::milliseconds(100));
    pause.async_wait([this](const Failure&) {
      if (acceptor.is_open()) accept();
    });
  });
}

void Server::Loop::take(Tcp::socket socket) {
  const bool is_full = std::ssize(connections) >= options.max_connections;
  const auto connection =
      std::make_shared<Connection>(std::move(socket), options, service, room, [this](const auto& closed) {
        connections.erase(closed);
        if (is_stopping && connections.empty()) context.stop();
      });
  connections.insert(connection);
  if (!is_full) return connection->start();
  connection->refuse(503, cat("the server has ", options.max_connections, " open connections; try again later"));
}

// A signal that the parent process ignores stays ignored, like elsewhere (base/signals.h).
void Server::Loop::catch_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before = {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) signals.add(signal);
  }
  wait_for_signal();
}

void Server::Loop::wait_for_signal() {
  signals.async_wait([this](const Failure& failure, int signal) {
    if (failure) return;
    if (signal == SIGHUP) {
      service.reload();
    } else if (is_stopping) {
      (void)std::signal(signal, SIG_DFL);
      (void)std::raise(signal);
    } else {
      log::info(cat("stopping: ", connections.size(), " open connections; a second signal ends at once"));
      stop();
    }
    wait_for_signal();
  });
}

void Server::Loop::stop() {
  if (is_stopping) return;
  is_stopping = true;
  Failure ignored;
  acceptor.close(ignored);
  const std::set<std::shared_ptr<Connection>> open = connections;
  for (const auto& connection : open) connection->close_when_answered();
  if (connections.empty()) context.stop();
}

Server::Server(const ServerOptions& options, Service& service) : loop_(std::make_shared<Loop>(options, service)) {
  loop_->listen();
}

Server::~Server() = default;

int64_t Server::port() const { return loop_->acceptor.local_endpoint().port(); }

std::string Server::address() const {
  const std::string& host = loop_->options.host;
  const bool is_v6 = host.find(':') != std::string::npos;
  return cat("http://", is_v6 ? "[" : "", host, is_v6 ? "]" : "", ":", port());
}

void Server::run() {
  loop_->catch_signals();
  if (interrupting_signal() != 0) return;  // one came before
  loop_->accept();
  loop_->context.run();
}

void Server::stop() {
  asio::post(loop_->context, [loop = loop_] { loop->stop(); });
}

void Server::stop_at_once() { loop_->context.stop(); }

}  // namespace fovea::serve
