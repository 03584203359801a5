#include "fovea/serve/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/read.hpp>
#include <cerrno>
#include <limits>
#include <string>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/serve/http.h"
#include "fovea/serve/request_head.h"

namespace fovea::serve {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

namespace {

constexpr size_t kMostWaiting = size_t{4} << 20;     // bytes of a stream that its client has not read
constexpr size_t kMostBuffered = size_t{128} << 10;  // bytes that are read but not parsed: a head, a trailer, pieces
constexpr size_t kBodyPiece = size_t{16} << 10;      // bytes of a body that a read takes, at most
constexpr int64_t kMostSkipped = 4;                  // empty lines before a request
constexpr std::chrono::milliseconds kLook{50};       // between two looks for a client that has left
constexpr size_t kMostLingered = size_t{64} << 20;   // bytes that are read and dropped after a refusal

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(1000 * seconds));
}

}  // namespace

// The exchange of a connection's open request. The connection may end before it.
class OpenExchange final : public Exchange, public std::enable_shared_from_this<OpenExchange> {
 public:
  OpenExchange(Request request, const std::shared_ptr<Connection>& connection)
      : request_(std::move(request)), connection_(connection), context_(connection->context()) {}

  const Request& request() const override { return request_; }
  bool is_over() const override { return is_over_.load(std::memory_order_relaxed); }
  void answer(Response response) override {
    in_loop([response = std::move(response)](Connection& to, const OpenExchange& self) { to.answer(self, response); });
  }
  void begin(const Response& head) override {
    in_loop([head](Connection& to, const OpenExchange& self) { to.begin(self, head); });
  }
  void push(std::string part) override {
    in_loop([part = std::move(part)](Connection& to, const OpenExchange& self) { to.push(self, part); });
  }
  void end() override {
    in_loop([](Connection& to, const OpenExchange& self) { to.end(self); });
  }
  void mark_over() { is_over_ = true; }

 private:
  template <class Call>
  void in_loop(Call call) {
    asio::post(context_, [self = shared_from_this(), call = std::move(call)] {
      if (const auto connection = self->connection_.lock()) call(*connection, *self);
    });
  }

  const Request request_;
  std::weak_ptr<Connection> connection_;
  asio::io_context& context_;
  std::atomic<bool> is_over_ = false;
};

Connection::Connection(Tcp::socket socket, const ServerOptions& options, Service& service, BodyRoom& room,
                       std::function<void(const std::shared_ptr<Connection>&)> closed)
    : context_(static_cast<asio::io_context&>(socket.get_executor().context())),
      stream_(std::move(socket)),
      buffer_(kMostBuffered),
      deadline_(context_),
      look_(context_),
      options_(options),
      service_(service),
      room_(room),
      closed_(std::move(closed)) {}

void Connection::start() {
  Failure ignored;
  stream_.socket().set_option(Tcp::no_delay(true), ignored);
  read_head();
}

void Connection::refuse(int status, const std::string& message) {
  keeps_open_ = false;
  answer_at_once(service_.refusal(request_, status, message));
}

void Connection::close_when_answered() {
  keeps_open_ = false;
  if (!exchange_ && !is_writing_) close();
}

void Connection::read_head() {
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(options_.max_head));
  parser_->body_limit(std::numeric_limits<uint64_t>::max());  // the path's own limit follows with the head
  limit_reading(answered_ == 0 ? options_.read_timeout : options_.idle_timeout);
  http::async_read_header(stream_, buffer_, *parser_,
                          [self = shared_from_this()](Failure failure, size_t) { self->take_head(failure); });
}

// The stream's own limit would close the socket, and the client would not learn why.
void Connection::limit_reading(double seconds) {
  if (is_closed_) return;  // a timer would keep the connection
  is_too_slow_ = false;
  deadline_.expires_after(milliseconds(seconds));
  deadline_.async_wait([self = shared_from_this()](const Failure& failure) {
    if (failure || self->exchange_ || self->has_answer_ || self->is_closed_) return;
    self->is_too_slow_ = true;
    Failure ignored;
    self->stream_.socket().cancel(ignored);
  });
}

void Connection::begin_request(Request head) {
  request_ = std::move(head);
  request_.id = service_.new_id();
  began_ = std::chrono::steady_clock::now();
}

// Some clients send an empty line behind a body, which would begin the next request.
bool Connection::skip_line_end() {
  const auto bytes = buffer_.data();
  const std::string_view next(static_cast<const char*>(bytes.data()), bytes.size());
  if (!next.starts_with("\r\n") || ++skipped_ > kMostSkipped) return false;
  buffer_.consume(2);
  return true;
}

void Connection::take_head(Failure failure) {
  if (failure == http::error::bad_method && skip_line_end()) return read_head();
  if (failure) return fail_to_read(failure);
  begin_request(head_of(parser_->get()));
  skipped_ = 0;
  if (const std::string wrong = wrong_framing(parser_->get()); !wrong.empty()) return refuse(501, wrong);
  if (const std::string wrong = wrong_host(parser_->get()); !wrong.empty()) return refuse(400, wrong);
  if (const Response quick = service_.quick_answer(request_); quick.status != 0) {
    const bool has_body = parser_->chunked() || parser_->content_length().value_or(0) > 0;
    keeps_open_ = keeps_open_ && parser_->keep_alive() && !has_body;
    return answer_at_once(quick);
  }
  const size_t limit = service_.body_limit(request_);
  if (parser_->content_length().value_or(0) > limit) return fail_to_read(http::error::body_limit);
  parser_->body_limit(limit);
  most_room_ = service_.has_key(request_) ? BodyRoom::kMost : BodyRoom::kMostWithoutKey;
  if (lower(std::string(request_.header("expect"))) != "100-continue") return read_body();
  asio::async_write(stream_, asio::buffer(std::string_view("HTTP/1.1 100 Continue\r\n\r\n")),
                    [self = shared_from_this()](Failure error, size_t) {
                      if (error) return self->close();
                      self->read_body();
                    });
}

void Connection::read_body() {
  limit_reading(options_.read_timeout);
  parser_->eager(true);
  if (!parser_->is_done()) buffer_.reserve(kBodyPiece);
  read_more();
}

void Connection::read_more() {
  if (parser_->is_done()) return hand_over();
  http::async_read_some(stream_, buffer_, *parser_,
                        [self = shared_from_this()](Failure failure, size_t) { self->take_body(failure); });
}

// Room is taken as bytes come: a head that promises a body, and sends none, takes nothing from the others.
void Connection::take_body(Failure failure) {
  if (failure) return fail_to_read(failure);
  if (!take_room(parser_->get().body().size()))
    return refuse(503, "other requests fill the memory for bodies; ask again later");
  read_more();
}

// Says what was wrong with the bytes, unless the client just closed an unused connection.
void Connection::fail_to_read(Failure failure) {
  const bool has_some = parser_->got_some() || buffer_.size() > 0;
  const bool has_left = failure == asio::error::eof || failure == asio::error::connection_reset ||
                        failure == http::error::end_of_stream || failure == http::error::partial_message;
  if (!has_some || has_left || (failure == asio::error::operation_aborted && !is_too_slow_)) return close();
  if (!parser_->is_header_done()) begin_request({});
  keeps_open_ = false;
  int status = 400;
  std::string message = cat("the request is not HTTP: ", failure.message());
  if (is_too_slow_) {
    status = 408;
    message = cat("the request did not come whole within ", options_.read_timeout, " s");
  } else if (failure == http::error::buffer_overflow && parser_->is_header_done()) {
    message = "the body has too much beside its chunks; expected no extensions and trailers";
  } else if (failure == http::error::header_limit || failure == http::error::buffer_overflow) {
    status = 431;
    message = cat("the head of the request has more than ", options_.max_head, " bytes");
  } else if (failure == http::error::body_limit) {
    status = 413;
    message =
        cat("the body has more than ", service_.body_limit(request_), " bytes; send the text in several requests");
  }
  answer_at_once(service_.refusal(request_, status, message));
}

// Makes the connection's room `bytes` in all.
bool Connection::take_room(size_t bytes) {
  if (room_.used - taken_room_ + bytes > most_room_) return false;
  room_.used += bytes - taken_room_;
  taken_room_ = bytes;
  return true;
}

void Connection::give_room_back() { room_.used -= std::exchange(taken_room_, 0); }

void Connection::hand_over() {
  keeps_open_ = keeps_open_ && parser_->keep_alive();
  is_chunked_ = parser_->get().version() >= 11;
  Request whole = request_;
  whole.body = std::move(parser_->get().body());
  exchange_ = std::make_shared<OpenExchange>(std::move(whole), shared_from_this());
  has_answer_ = is_streaming_ = false;
  start_deadline();
  watch_client();
  service_.handle(exchange_);
}

// The socket becomes readable when the client closes its side, resets the connection, or sends its next request.
void Connection::watch_client() {
  stream_.socket().async_wait(Tcp::socket::wait_read,
                              [self = shared_from_this(), watched = exchange_](const Failure& failure) {
                                if (!failure && self->exchange_ == watched) self->look_at_client();
                              });
}

void Connection::look_at_client() {
  char next = 0;
  const ssize_t found = ::recv(stream_.socket().native_handle(), &next, 1, MSG_PEEK | MSG_DONTWAIT);
  if (found > 0) return watch_behind_request();
  if (found < 0 && (errno == EAGAIN || errno == EINTR)) return watch_client();
  give_up();
}

// The next request waits in the socket and hides from reads that the client has left behind it.
void Connection::watch_behind_request() {
  pollfd state{.fd = stream_.socket().native_handle(), .events = POLLRDHUP, .revents = 0};
  if (::poll(&state, 1, 0) > 0) return give_up();
  look_.expires_after(kLook);
  look_.async_wait([self = shared_from_this(), watched = exchange_](const Failure& failure) {
    if (!failure && self->exchange_ == watched && !watched->is_over()) self->watch_behind_request();
  });
}

void Connection::start_deadline() {
  deadline_.expires_after(milliseconds(options_.timeout));
  deadline_.async_wait([self = shared_from_this(), timed = exchange_](const Failure& failure) {
    if (!failure && self->exchange_ == timed) self->pass_deadline();
  });
}

void Connection::pass_deadline() {
  if (is_streaming_) return give_up();
  const Response late = service_.refusal(
      request_, 504, cat("no answer within ", options_.timeout, " s; send less text, or ask again later"));
  answer(*exchange_, late);
}

bool Connection::is_open(const OpenExchange& exchange) const { return exchange_.get() == &exchange && !has_answer_; }

void Connection::answer(const OpenExchange& exchange, const Response& response) {
  if (!is_open(exchange)) return;
  has_answer_ = true;
  if (is_streaming_) {  // too late for a status; the client sees that the stream has no end
    give_up();
    return;
  }
  settle(response.status);
  send(head_text(response, false) + (request_.method == "HEAD" ? "" : response.body));
}

void Connection::begin(const OpenExchange& exchange, const Response& head) {
  if (!is_open(exchange)) return;
  is_streaming_ = true;
  if (!is_chunked_) keeps_open_ = false;
  send(head_text(head, is_chunked_));
}

void Connection::push(const OpenExchange& exchange, const std::string& part) {
  if (!is_open(exchange) || !is_streaming_ || part.empty()) return;
  if (waiting_bytes_ + part.size() > kMostWaiting) return give_up();
  start_deadline();
  if (!is_chunked_) return send(part);
  std::array<char, 20> size{};
  const int digits = std::snprintf(size.data(), size.size(), "%zx\r\n", part.size());
  send(std::string(size.data(), static_cast<size_t>(digits)) + part + "\r\n");
}

void Connection::end(const OpenExchange& exchange) {
  if (!is_open(exchange) || !is_streaming_) return;
  has_answer_ = true;
  settle(200);
  is_streaming_ = false;
  if (is_chunked_) return send("0\r\n\r\n");
  if (!is_writing_) finish_answer();
}

void Connection::answer_at_once(const Response& response) {
  give_room_back();
  exchange_ = nullptr;
  has_answer_ = true;
  service_.finished(request_, response.status,
                    std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count());
  send(head_text(response, false) + (request_.method == "HEAD" ? "" : response.body));
}

std::string Connection::head_text(const Response& response, bool is_chunked) const {
  std::string text = cat("HTTP/1.1 ", response.status, " ", reason_of(response.status), "\r\n");
  const auto add = [&](std::string_view name, std::string_view value) { text += cat(name, ": ", value, "\r\n"); };
  if (response.status != 204) add("Content-Type", response.type);
  if (is_chunked) {
    add("Transfer-Encoding", "chunked");
  } else if (!is_streaming_ && response.status != 204) {
    add("Content-Length", std::to_string(response.body.size()));
  }
  for (const auto& [name, value] : response.headers) add(name, one_line(value));
  for (const auto& [name, value] : service_.common_headers(request_)) add(name, one_line(value));
  if (!keeps_open_) add("Connection", "close");
  return text + "\r\n";
}

void Connection::send(const std::string& bytes) {
  waiting_.push_back(bytes);
  waiting_bytes_ += bytes.size();
  if (!is_writing_) write_next();
}

void Connection::write_next() {
  is_writing_ = true;
  stream_.expires_after(milliseconds(options_.read_timeout));
  asio::async_write(stream_, asio::buffer(waiting_.front()), [self = shared_from_this()](Failure failure, size_t) {
    self->is_writing_ = false;
    if (failure) return self->give_up();
    self->waiting_bytes_ -= self->waiting_.front().size();
    self->waiting_.pop_front();
    if (!self->waiting_.empty()) return self->write_next();
    self->stream_.expires_never();
    if (self->has_answer_) self->finish_answer();
  });
}

void Connection::finish_answer() {
  if (is_closed_) return;  // the client has left behind its request
  exchange_ = nullptr;
  has_answer_ = false;
  ++answered_;
  if (keeps_open_) return read_head();
  linger();
}

void Connection::settle(int status) {
  give_room_back();
  deadline_.cancel();
  if (!exchange_ || exchange_->is_over()) return;
  exchange_->mark_over();
  service_.finished(request_, status, std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count());
}

void Connection::give_up() {
  settle(0);
  exchange_ = nullptr;
  close();
}

// Closing while the client still sends would reset the connection, and the client might never read its answer.
void Connection::linger() {
  if (lingered_ == 0) {
    Failure ignored;
    stream_.socket().shutdown(Tcp::socket::shutdown_send, ignored);
    stream_.expires_after(std::chrono::seconds(2));
  }
  buffer_.clear();
  stream_.async_read_some(buffer_.prepare(size_t{1} << 16), [self = shared_from_this()](Failure failure, size_t bytes) {
    self->lingered_ += bytes + 1;
    if (failure || self->lingered_ > kMostLingered) return self->close();
    self->linger();
  });
}

void Connection::close() {
  if (std::exchange(is_closed_, true)) return;
  give_room_back();
  deadline_.cancel();
  look_.cancel();
  Failure ignored;
  stream_.socket().close(ignored);
  closed_(shared_from_this());
}

}  // namespace fovea::serve
