#pragma once
#include <utility>  // Boost 1.74's Asio uses std::exchange without it

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "fovea/serve/server.h"

// For server.cc and connection.cc alone, which know the HTTP library, as request_head.h does.
namespace fovea::serve {

class OpenExchange;

// The bytes of bodies that all connections hold now.
struct BodyRoom {
  static constexpr size_t kMost = size_t{256} << 20;
  static constexpr size_t kMostWithoutKey = kMost / 2;  // of a body that came without a key, which may be in the body
  size_t used = 0;
};

// One client's connection, in the thread of the event loop. It reads a request, hands it to the service, watches for
// the client's leaving, writes the answer, and begins again.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Tcp = boost::asio::ip::tcp;
  // `closed` is called once, when the connection has ended.
  Connection(Tcp::socket socket, const ServerOptions& options, Service& service, BodyRoom& room,
             std::function<void(const std::shared_ptr<Connection>&)> closed);

  void start();
  void refuse(int status, const std::string& message);  // answers before anything is read, and closes
  // Closes the connection after the answer to its open request, at once if there is none.
  void close_when_answered();

  // Calls of OpenExchange, in the loop's thread.
  void answer(const OpenExchange& exchange, const Response& response);
  void begin(const OpenExchange& exchange, const Response& head);
  void push(const OpenExchange& exchange, const std::string& part);
  void end(const OpenExchange& exchange);
  boost::asio::io_context& context() { return context_; }

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using Failure = boost::beast::error_code;

  void read_head();
  void take_head(Failure failure);
  void read_body();
  void read_more();
  void take_body(Failure failure);
  void fail_to_read(Failure failure);
  bool skip_line_end();
  bool take_room(size_t bytes);
  void give_room_back();
  void hand_over();
  void watch_client();
  void look_at_client();
  void watch_behind_request();
  void start_deadline();
  void pass_deadline();
  void answer_at_once(const Response& response);  // without an exchange
  std::string head_text(const Response& response, bool is_chunked) const;
  void send(const std::string& bytes);
  void write_next();
  void finish_answer();
  void give_up();  // nobody waits for the open request any more
  void linger();   // closes when the client has read the answer
  void close();
  void settle(int status);  // the open exchange is over
  bool is_open(const OpenExchange& exchange) const;
  void begin_request(Request head);
  void limit_reading(double seconds);

  boost::asio::io_context& context_;
  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_;
  boost::asio::steady_timer deadline_, look_;
  const ServerOptions& options_;
  Service& service_;
  BodyRoom& room_;
  size_t taken_room_ = 0, most_room_ = 0;
  std::function<void(const std::shared_ptr<Connection>&)> closed_;
  std::optional<Parser> parser_;
  Request request_;  // of the last head; its body is in the exchange
  std::shared_ptr<OpenExchange> exchange_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::deque<std::string> waiting_;  // bytes to write
  size_t waiting_bytes_ = 0, lingered_ = 0;
  int64_t answered_ = 0, skipped_ = 0;
  bool is_writing_ = false, is_streaming_ = false, is_chunked_ = false, has_answer_ = false, keeps_open_ = true,
       is_too_slow_ = false, is_closed_ = false;
};

}  // namespace fovea::serve
