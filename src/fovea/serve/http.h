#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Requests and responses as plain values, so that only the server and its connections know the HTTP library.
namespace fovea::serve {

using Header = std::pair<std::string, std::string>;

struct Request {
  std::string method, path, query;  // "POST", "/translate" (percent signs decoded), "q=x" (as it came)
  std::vector<Header> headers;      // as they came
  std::string body;
  std::string id;  // of the log and of the header X-Request-Id

  // The first header of that name, in lower or upper case; "" if there is none.
  std::string_view header(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string body = {};
  std::string type = "application/json";
  std::vector<Header> headers = {};  // more of them
};

std::string_view reason_of(int status);  // "Not Found"

// One request and the way to its answer. Every function may be called from any thread.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const Request& request() const = 0;
  // Sends the answer. Only the first call counts: the server itself answers when the deadline passes.
  virtual void answer(Response response) = 0;
  // Sends the answer in parts: begin(), push() for each part, end(). They do nothing once the exchange is over.
  virtual void begin(const Response& head) = 0;
  virtual void push(std::string part) = 0;
  virtual void end() = 0;
  // Whether nobody waits for the answer any more: it was sent, the client left, or the deadline passed.
  virtual bool is_over() const = 0;
};

// The program behind the server. The server calls it from the thread of the network, so every function returns at once.
class Service {
 public:
  virtual ~Service() = default;
  // The largest body that the path takes, in bytes.
  virtual size_t body_limit(const Request& head) const = 0;
  // An answer that needs no work, such as the refusal of an unknown path. Called for the head, before the body is read.
  // Its status is 0 if the request is to be read and handled.
  virtual Response quick_answer(const Request& head) = 0;
  // Whether the head has a key, or none is asked for.
  virtual bool has_key(const Request& head) const = 0;
  virtual void handle(std::shared_ptr<Exchange> exchange) = 0;
  // A refusal that the server itself makes, in the form of the path's clients.
  virtual Response refusal(const Request& request, int status, const std::string& message) const = 0;
  // Headers that every answer to the request has.
  virtual std::vector<Header> common_headers(const Request& request) const = 0;
  // Called once for each request that was answered or given up: status 0 if its client left.
  virtual void finished(const Request& request, int status, double seconds) = 0;
  virtual void reload() = 0;
  virtual std::string new_id() = 0;
};

}  // namespace fovea::serve
