#include "fovea/serve/routes.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <random>
#include <utility>

#include "fovea/base/log.h"
#include "fovea/base/malloc.h"
#include "fovea/base/strings.h"
#include "fovea/serve/deepl_glossaries.h"

namespace fovea::serve {
namespace {

constexpr size_t kDeepLBody = size_t{128} << 10;  // DeepL's limit
constexpr size_t kShortBody = size_t{32} << 10;   // a longer one is read in the other thread

std::string random_prefix() {
  std::random_device random;
  std::array<char, 16> text{};
  (void)std::snprintf(text.data(), text.size(), "%08x-", static_cast<unsigned>(random()));
  return text.data();
}

Header retry_after(double seconds) {
  constexpr double kMost = 600;
  return {"Retry-After", std::to_string(std::llround(std::clamp(std::ceil(seconds), 1.0, kMost)))};
}

// Whether the path has the pattern's parts; '*' is any one part that is not empty.
bool has_pattern(std::string_view path, std::string_view pattern) {
  const std::vector<std::string> parts = split(path, '/'), wanted = split(pattern, '/');
  return std::ranges::equal(parts, wanted, [](const std::string& part, const std::string& want) {
    return want == "*" ? !part.empty() : part == want;
  });
}

}  // namespace

text::SentenceSplitter& splitter_of(const std::string& language) {
  thread_local std::map<std::string, std::unique_ptr<text::SentenceSplitter>> splitters;
  std::string known = lower(language);
  if (splitters.size() > 100 && !splitters.contains(known)) known = "";  // clients may name any language
  std::unique_ptr<text::SentenceSplitter>& splitter = splitters[known];
  if (splitter == nullptr) splitter = std::make_unique<text::SentenceSplitter>(known);
  return *splitter;
}

void require_waiting(const Exchange& exchange) {
  if (exchange.is_over()) throw HttpError(503, "nobody waits for the answer any more");
}

std::string json_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Response json_response(const Json& json, int status) { return {.status = status, .body = json_text(json) + "\n"}; }

void require_key(const Context& context, const Request& request, const Fields& fields, int status) {
  if (context.keys.accept_headers(request) || context.keys.accept(fields.text("api_key").value_or(""))) return;
  throw HttpError(status, "a key is needed; send it in the field api_key or the header Authorization: Bearer KEY",
                  "api_key");
}

Routes::Routes(const ServeOptions& options, const ApiKeys& keys, Batcher::Loader loader)
    : options_(options),
      queue_(options.queue_tokens),
      batcher_(options, std::move(loader), {models_, queue_, metrics_, worker_}),
      context_{options, keys, models_, queue_, metrics_, room_, Glossaries(options.glossaries)},
      id_prefix_(random_prefix()) {
  for (const auto& list :
       {libretranslate_routes(), deepl_routes(), deepl_glossary_routes(), openai_routes(), own_routes()})
    routes_.insert(routes_.end(), list.begin(), list.end());
}

const Route* Routes::route_of(const Request& request) const {
  const std::string_view method = request.method == "HEAD" ? "GET" : std::string_view(request.method);
  const auto found = std::ranges::find_if(
      routes_, [&](const Route& route) { return route.method == method && has_pattern(request.path, route.path); });
  return found == routes_.end() ? nullptr : &*found;
}

// By the path, so that refusals of unknown paths below /v2 and /v3 have DeepL's form.
const Dialect& Routes::dialect_of(const Request& request) const {
  if (request.path.starts_with("/v1/")) return kOpenAi;
  if (request.path.starts_with("/v2/") || request.path.starts_with("/v3/")) return kDeepL;
  const auto found =
      std::ranges::find_if(routes_, [&](const Route& route) { return has_pattern(request.path, route.path); });
  return found == routes_.end() ? kOwn : *found->dialect;
}

size_t Routes::body_limit(const Request& head) const {
  const auto most = static_cast<size_t>(options_.max_body);
  return &dialect_of(head) == &kDeepL ? std::min(most, kDeepLBody) : most;
}

bool Routes::allows_origin(std::string_view origin) const {
  return !options_.allow_origin.empty() && (options_.allow_origin == "*" || options_.allow_origin == origin);
}

// Whether a header Host names this server: by an address, as localhost, or by a name of --allow-host. Anybody may point
// another name at this machine and have browsers take the server's pages for that name's (DNS rebinding).
bool Routes::is_own_host(std::string_view host) const {
  std::string name = lower(host);
  if (const size_t colon = name.rfind(':'); colon != std::string::npos && name.find(']', colon) == std::string::npos)
    name.erase(colon);
  std::array<unsigned char, sizeof(in6_addr)> address{};
  if (name.starts_with('[') && name.ends_with(']'))
    return inet_pton(AF_INET6, name.substr(1, name.size() - 2).c_str(), address.data()) == 1;
  if (name == "localhost" || inet_pton(AF_INET, name.c_str(), address.data()) == 1) return true;
  return std::ranges::any_of(options_.allow_host, [&](const std::string& own) { return lower(own) == name; });
}

// Browsers name the page that sends a request. Pages of this server itself may use it.
bool Routes::may_use(const Request& request) const {
  const std::string_view origin = request.header("origin"), host = request.header("host");
  if (origin.empty() || allows_origin(origin)) return true;
  const size_t name = origin.find("://");
  return name != std::string_view::npos && origin.substr(name + 3) == host && is_own_host(host);
}

Response Routes::quick_answer(const Request& head) {
  if (!may_use(head))
    return refusal(head, 403,
                   cat("pages of ", shown_text(head.header("origin")),
                       " may not use this server; start it with --allow-origin to allow one, or with --allow-host if "
                       "the server itself has this name"));
  if (head.method == "OPTIONS" && allows_origin(head.header("origin"))) return {.status = 204};
  const Route* const route = route_of(head);
  if (route == nullptr) {
    Request other = head;
    std::vector<std::string> methods;
    for (const Route& known : routes_)
      if (has_pattern(head.path, known.path)) methods.emplace_back(known.method);
    if (methods.empty()) return refusal(head, 404, "this path does not exist; see docs/serve.md");
    Response refused = refusal(head, 405, cat(head.method, " is not for this path; expected ", join(methods, " or ")));
    refused.headers.emplace_back("Allow", join(methods, ", "));
    return refused;
  }
  if (!route->is_open && !route->dialect->has_key_field && !context_.keys.accept_headers(head))
    return refusal(head, route->dialect->unauthorized, "a key is needed; send it in the header Authorization");
  return {.status = 0};
}

void Routes::handle(std::shared_ptr<Exchange> exchange) {
  const Request& request = exchange->request();
  const bool is_short = request.body.size() <= kShortBody;
  auto share = std::make_shared<RoomShare>(room_);
  if (!share->take(request.body.size()))
    return exchange->answer(refusal(request, 503, "other requests fill the memory; ask again later"));
  (is_short ? short_reader_ : long_reader_).add([this, is_short, share, exchange = std::move(exchange)] {
    if (!exchange->is_over()) answer_now(*route_of(exchange->request()), exchange);
    if (!is_short) return_free_memory();
  });
}

// Logs the fields of a request without its key. A body that cannot be read might hide a key anywhere.
void Routes::log_texts(const Request& request) const {
  std::string text;
  try {
    text = Fields(request).shown_without_keys();
  } catch (const Error&) {
    text = cat("a body of ", request.body.size(), " bytes that has no fields");
  }
  if (text != "{}") log::info(cat("request ", request.id, ": ", context_.keys.masked(std::move(text))));
}

void Routes::finish() {
  short_reader_.finish();
  long_reader_.finish();
  worker_.finish();
}

void Routes::answer_now(const Route& route, const std::shared_ptr<Exchange>& exchange) {
  const Request& request = exchange->request();
  if (options_.log_texts) log_texts(request);
  try {
    route.handle(context_, exchange);
  } catch (const HttpError& error) {
    Response refused = route.dialect->refusal(error.status(), error.what(), error.field());
    const auto* const busy = dynamic_cast<const BusyError*>(&error);
    if (error.status() == 503) refused.headers.push_back(retry_after(busy == nullptr ? 1 : busy->seconds()));
    exchange->answer(std::move(refused));
  } catch (const Error& error) {
    exchange->answer(route.dialect->refusal(400, error.what(), {}));
  } catch (const std::exception& error) {
    log::warn(cat("request ", request.id, ": ", error.what()));
    exchange->answer(route.dialect->refusal(500, "the server failed; see its log", {}));
  }
}

Response Routes::refusal(const Request& request, int status, const std::string& message) const {
  Response refused = dialect_of(request).refusal(status, message, {});
  if (status == 503) refused.headers.push_back(retry_after(1));
  return refused;
}

std::vector<Header> Routes::common_headers(const Request& request) const {
  std::vector<Header> headers;
  if (!request.id.empty()) headers.emplace_back("X-Request-Id", request.id);
  const std::string_view origin = request.header("origin");
  if (origin.empty() || !allows_origin(origin)) return headers;
  headers.emplace_back("Access-Control-Allow-Origin", origin);
  headers.emplace_back("Vary", "Origin");
  if (request.method != "OPTIONS") return headers;
  headers.emplace_back("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE");
  headers.emplace_back("Access-Control-Allow-Headers", "Authorization, Content-Type, X-API-Key");
  headers.emplace_back("Access-Control-Max-Age", "600");
  return headers;
}

void Routes::finished(const Request& request, int status, double seconds) {
  metrics_.count_request(dialect_of(request).name, status, seconds);
  const std::string outcome = status == 0 ? "left by its client" : std::to_string(status);
  log::info(cat(request.method.empty() ? "?" : request.method, " ", request.path.empty() ? "?" : request.path, " ",
                outcome, " in ", fixed(1000 * seconds, 1), " ms, id ", request.id.empty() ? "none" : request.id));
}

std::string Routes::new_id() { return cat(id_prefix_, ++last_id_); }

}  // namespace fovea::serve
