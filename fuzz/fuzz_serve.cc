#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "fovea/base/strings.h"
#include "fovea/serve/connection.h"
#include "fovea/serve/multipart.h"
#include "fovea/serve/routes.h"
#include "fovea/serve/test_engines.h"
#include "loaders/loaders.h"

// Clients of the server, without a model. The first byte says what the rest is: 'h' all bytes of a connection, 'g' a
// glossary's entries (the second byte chooses tsv or csv), 'c' the fields of a completion, 't' those of a translation,
// 'm' a form in parts whose boundary is "b".
namespace fovea::fuzz {
namespace {

using namespace fovea::serve;
using Tcp = boost::asio::ip::tcp;

// A service that answers at once with the sizes of what it got.
class Echo final : public Service {
 public:
  size_t body_limit(const Request& /*head*/) const override { return 500; }
  Response quick_answer(const Request& head) override { return {.status = head.path.ends_with("/none") ? 404 : 0}; }
  bool has_key(const Request& head) const override { return !head.header("x-api-key").empty(); }
  void handle(std::shared_ptr<Exchange> exchange) override {
    ++handled;
    exchange->answer({.body = cat("{\"bytes\": ", exchange->request().body.size(), "}\n")});
  }
  Response refusal(const Request& /*request*/, int status, const std::string& message) const override {
    require(message.find_first_of("\r\n") == std::string::npos, "a message has more than one line");
    return {.status = status, .body = message};
  }
  std::vector<Header> common_headers(const Request& request) const override {
    return {{"X-Request-Id", request.id}, {"X-Path", request.path}};
  }
  void finished(const Request& /*request*/, int /*status*/, double seconds) override {
    require(seconds < 3600, "a request took longer than this program");
    ++finishes;
  }
  void reload() override {}
  std::string new_id() override { return cat("id-", ++ids); }
  int64_t handled = 0, finishes = 0, ids = 0;
};

std::string all_of(int socket) {
  std::string all;
  std::array<char, 4096> bytes{};
  for (ssize_t count = 0; (count = ::read(socket, bytes.data(), bytes.size())) > 0;)
    all.append(bytes.data(), static_cast<size_t>(count));
  return all;
}

void send_bytes(std::string_view bytes) {
  std::array<int, 2> ends{};
  require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0, "there is no socket");
  boost::asio::io_context context{1};
  Tcp::socket socket(context);
  socket.assign(Tcp::v4(), ends[0]);
  const ServerOptions options;
  BodyRoom room;
  Echo service;
  int closed = 0;
  std::make_shared<Connection>(std::move(socket), options, service, room, [&](const auto&) { ++closed; })->start();
  require(::write(ends[1], bytes.data(), bytes.size()) == std::ssize(bytes), "the socket is full");
  shutdown(ends[1], SHUT_WR);
  context.run();
  require(closed == 1, "the connection did not close once");
  require(room.used == 0, "the connection keeps room for a body");
  const std::string answers = all_of(ends[1]);
  ::close(ends[1]);
  require(answers.empty() || answers.starts_with("HTTP/1.1 "), "an answer is not HTTP");
  require(service.finishes >= service.handled, "a request has no end");
}

// An exchange that a thread can wait for.
class Waited final : public Exchange {
 public:
  explicit Waited(Request asked) : asked_(std::move(asked)) {}
  const Request& request() const override { return asked_; }
  void answer(Response response) override { finish(std::move(response)); }
  void begin(const Response& head) override { streamed_ = head; }
  void push(std::string part) override { streamed_.body += part; }
  void end() override { finish(std::move(streamed_)); }
  bool is_over() const override {
    const std::lock_guard lock(mutex_);
    return is_over_;
  }
  Response wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_over_; });
    return got_;
  }

 private:
  void finish(Response response) {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_over_, true)) return;
    got_ = std::move(response);
    changed_.notify_all();
  }

  const Request asked_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Response streamed_, got_;
  bool is_over_ = false;
};

// The dialects in front of engines without a model.
class Dialects {
 public:
  Dialects() : routes_(options(), keys_, engine_of), engines_([this] { routes_.batcher().run(); }) {
    while (asked("GET", "/ready", "").status != 200) std::this_thread::yield();
  }
  ~Dialects() {
    routes_.batcher().stop();
    engines_.join();
    routes_.finish();
  }
  Dialects(const Dialects&) = delete;
  Dialects& operator=(const Dialects&) = delete;

  Response asked(const std::string& method, const std::string& path, const std::string& body) {
    Request request{.method = method, .path = path, .body = body};
    request.headers = {{"Content-Type", "application/json"}};
    if (Response quick = routes_.quick_answer(request); quick.status != 0) return quick;
    const auto exchange = std::make_shared<Waited>(std::move(request));
    routes_.handle(exchange);
    return exchange->wait();
  }

 private:
  static const ServeOptions& options() {
    static const ServeOptions options = [] {
      ServeOptions small;
      small.model = {"en-de=unused", "lm=unused"};
      small.max_new_tokens = 8, small.max_texts = 20;
      return small;
    }();
    return options;
  }
  static std::unique_ptr<Engine> engine_of(const ModelPlace& place) {
    if (place.source.empty()) return std::make_unique<FakeCompleter>();
    return std::make_unique<FakeTranslator>();
  }

  const ApiKeys keys_;
  Routes routes_;
  std::thread engines_;
};

Dialects& dialects() {
  static Dialects one;
  return one;
}

Json answer_of(const Response& response, const std::vector<int>& statuses) {
  require(std::ranges::find(statuses, response.status) != statuses.end(), cat("the status ", response.status));
  require(is_valid_utf8(response.body), "the answer is not UTF-8");
  return response.type.starts_with("application/json") ? Json::parse(response.body) : Json();
}

// Entries that were taken come back as lines that are taken as the same.
void load_glossary(std::string_view bytes) {
  if (bytes.empty()) return;
  const auto body = [](const std::string& entries, const char* format) {
    return json_text({{"name", "n"},
                      {"source_lang", "en"},
                      {"target_lang", "de"},
                      {"entries", entries},
                      {"entries_format", format}});
  };
  const auto make = [&](const std::string& sent) {
    return answer_of(dialects().asked("POST", "/v2/glossaries", sent), {201, 400});
  };
  const Json made = make(body(std::string(bytes.substr(1)), bytes[0] % 2 == 0 ? "tsv" : "csv"));
  if (!made.contains("glossary_id")) return;
  const std::string path = "/v2/glossaries/" + made["glossary_id"].get<std::string>();
  const Response entries = dialects().asked("GET", path + "/entries", "");
  require(entries.status == 200, "the entries of a glossary cannot be read");
  const Json again = make(body(entries.body, "tsv"));
  require(again.contains("glossary_id"), "the entries of a glossary are refused");
  require(again["entry_count"] == made["entry_count"], "the entries of a glossary change");
  for (const Json& glossary : {made, again})
    require(
        dialects().asked("DELETE", "/v2/glossaries/" + glossary["glossary_id"].get<std::string>(), "").status == 204,
        "a glossary cannot be deleted");
}

// The fields of a JSON object, with a usual one if it is missing.
std::string with_field(std::string_view bytes, const char* name, const Json& usual) {
  Json object = Json::parse(bytes, nullptr, false);
  if (!object.is_object()) return std::string(bytes);
  if (!object.contains(name)) object[name] = usual;
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void load_completion(std::string_view bytes) {
  const Response response = dialects().asked("POST", "/v1/completions", with_field(bytes, "model", "lm"));
  const Json answer = answer_of(response, {200, 400, 404, 413});
  if (response.status != 200 || answer.is_null()) return;
  for (const Json& choice : answer["choices"]) require(!choice["finish_reason"].is_null(), "a text has no end");
}

void load_translation(std::string_view bytes) {
  (void)answer_of(dialects().asked("POST", "/translate", with_field(bytes, "text", "a b")), {200, 400, 404, 413});
}

void load_form(std::string_view bytes) {
  for (const auto& [name, value] : parse_multipart(bytes, "multipart/form-data; boundary=b"))
    require(is_valid_utf8(name) && is_valid_utf8(value), "a field is not UTF-8");
}

}  // namespace
}  // namespace fovea::fuzz

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  fovea::fuzz::silence_log();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fovea::fuzz;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (bytes.empty()) return 0;
  try {
    const std::string_view rest = bytes.substr(1);
    switch (bytes[0]) {
      case 'h':
        send_bytes(rest);
        break;
      case 'g':
        load_glossary(rest);
        break;
      case 'c':
        load_completion(rest);
        break;
      case 't':
        load_translation(rest);
        break;
      case 'm':
        load_form(rest);
        break;
      default:
        break;
    }
  } catch (const fovea::Error& error) {
    require(std::string_view(error.what()).find_first_of("\r\n") == std::string_view::npos,
            "an Error has more than one line");
  }
  return 0;
}
