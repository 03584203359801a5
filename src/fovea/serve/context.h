#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "fovea/serve/api_keys.h"
#include "fovea/serve/glossaries.h"
#include "fovea/serve/http.h"
#include "fovea/serve/memory_room.h"
#include "fovea/serve/metrics_page.h"
#include "fovea/serve/queue.h"
#include "fovea/serve/request_fields.h"
#include "fovea/serve/served_model.h"
#include "fovea/text/sentences.h"
#include "fovea/text/terms.h"

namespace fovea::serve {

// The state that the dialects share. The functions that answer requests run in two threads at once, so each member is
// for any thread.
struct Context {
  const ServeOptions& options;
  const ApiKeys& keys;
  Models& models;
  JobQueue& queue;
  Metrics& metrics;
  MemoryRoom& room;  // for requests that are read, and for what was made of them
  Glossaries glossaries = {};
  std::atomic<int64_t> characters = 0;  // of texts that were translated for DeepL's clients, since the start
};

// The calling thread's own splitter.
text::SentenceSplitter& splitter_of(const std::string& language);

// Throws an HttpError, which nobody reads, if nobody waits for the answer any more: long work looks at it between its
// pieces.
void require_waiting(const Exchange& exchange);

// Answers a request later, or throws: an HttpError becomes a refusal in the dialect's form.
using Handler = void (*)(Context& context, const std::shared_ptr<Exchange>& exchange);

struct Dialect {
  std::string_view name;  // in the metrics
  Response (*refusal)(int status, const std::string& message, const std::string& field);
  int unauthorized = 401;      // the status without a right key
  bool has_key_field = false;  // the key may be a field of the body, so the handler looks at it
};
extern const Dialect kLibreTranslate, kDeepL, kOpenAi, kOwn;

struct Route {
  std::string_view method, path;  // a path that ends in "/*" takes one more part
  const Dialect* dialect;
  Handler handle;
  bool is_open = false;  // needs no key
};

// Each dialect's list.
std::span<const Route> libretranslate_routes();
std::span<const Route> deepl_routes();
std::span<const Route> openai_routes();
std::span<const Route> own_routes();

// POST /translate with the field text: Fovea's own dialect. libretranslate.cc calls it, which has the same path.
void translate_own(Context& context, const std::shared_ptr<Exchange>& exchange, const Fields& fields);

Response json_response(const Json& json, int status = 200);
std::string json_text(const Json& json);  // bytes that are not UTF-8 become U+FFFD

// Throws an HttpError of the dialect's status unless the request has a key, in a header or in the field api_key.
void require_key(const Context& context, const Request& request, const Fields& fields, int status);

}  // namespace fovea::serve
