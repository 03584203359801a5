// Fovea's own dialect: POST /translate with `text`, and the pages that watch the server.
#include <algorithm>
#include <array>

#include "fovea/analysis/alignment.h"
#include "fovea/base/strings.h"
#include "fovea/models/beam_options.h"
#include "fovea/serve/context.h"
#include "fovea/serve/page.h"
#include "fovea/serve/translate_texts.h"

namespace fovea::serve {
namespace {

using ExchangePointer = std::shared_ptr<Exchange>;

Response own_refusal(int status, const std::string& message, const std::string& /*field*/) {
  return json_response({{"error", message}}, status);
}

// {"source words": "target words", ...} or lines SOURCE<TAB>TARGET.
std::shared_ptr<const text::TermList> terms_of(const Fields& fields) {
  const Json* const value = fields.find("terms");
  if (value == nullptr || value->empty()) return nullptr;
  try {
    if (value->is_string())
      return std::make_shared<text::TermList>(text::TermList::from_text(value->get<std::string>(), "terms"));
    std::vector<text::Term> terms;
    if (value->is_object()) {
      for (const auto& [source, target] : value->items()) {
        if (!target.is_string()) break;
        terms.push_back({source, target.get<std::string>()});
      }
      if (terms.size() == value->size()) return std::make_shared<text::TermList>(std::move(terms), "terms");
    }
  } catch (const Error& error) {
    throw HttpError(400, error.what(), "terms");
  }
  throw HttpError(
      400, cat("terms: got ", text::shown_json(*value), "; expected an object of texts, or lines SOURCE<TAB>TARGET"),
      "terms");
}

translation::EngineRequest search_of(const Fields& fields, const ServeOptions& options) {
  BeamConfig beam = options;
  beam.beam_size =
      fields.whole("beam-size", 1, std::max(options.max_beam_size, options.beam_size)).value_or(beam.beam_size);
  beam.normalize = fields.number("normalize", 0, 100).value_or(beam.normalize);
  beam.length_penalty = fields.choice("length-penalty", {"power", "gnmt"}, beam.length_penalty);
  beam.n_best = fields.truth("n-best").value_or(false);
  translation::EngineRequest request = usual_search(options);
  request.beam = models::beam_options(beam);
  request.max_length_factor = fields.number("max-length-factor", 0.1, std::max(10.0, options.max_length_factor))
                                  .value_or(request.max_length_factor);
  request.allow_unk = fields.truth("allow-unk").value_or(request.allow_unk);
  request.terms = terms_of(fields);
  translation::LinkChoice links;
  links.layer = fields.whole("alignment-layer", 0, 1000).value_or(0);
  links.head = fields.whole("alignment-head", 0, 1024).value_or(0);
  links.shifted = fields.truth("alignment-shifted").value_or(false);
  if (!fields.truth("alignment").value_or(false)) {
    if (links.layer + links.head > 0 || links.shifted)
      throw HttpError(400, "alignment-layer, alignment-head and alignment-shifted need \"alignment\": true",
                      "alignment");
    return request;
  }
  request.alignment = links;
  return request;
}

Json attention_json(const AttentionMap& map, bool with_heads) {
  Json json = {{"source", map.source}, {"target", map.target}, {"weights", map.weights}};
  if (with_heads) {
    json["heads"] = map.heads;
    json["sharpest"] = {{"layer", map.sharpest.layer}, {"head", map.sharpest.head}};
  }
  return json;
}

// The wishes of a request beside the text.
struct TextWishes {
  bool scores = false, n_best = false, alignment = false, attention = false, attention_heads = false, terms = false;
};

Json hypothesis_json(const translation::Translation& hypothesis, const TextWishes& wishes) {
  Json json = {{"text", hypothesis.text}};
  if (wishes.scores || wishes.n_best) {
    json["score"] = hypothesis.score;
    json["log-prob"] = hypothesis.log_prob;
  }
  if (wishes.alignment) json["alignment"] = analysis::print(hypothesis.links);
  return json;
}

// One text: its translation, and the details of its sentences. A text of one sentence has them beside the translation.
Json text_json(const TextJob& job, size_t text, const TextWishes& wishes) {
  Json sentences = Json::array();
  for (const size_t part : job.texts[text].sentences) {
    const translation::EngineResult& result = job.outputs[part].result;
    Json sentence = hypothesis_json(result.best.front(), wishes);
    if (wishes.n_best)
      for (const auto& hypothesis : result.best) sentence["n-best"].push_back(hypothesis_json(hypothesis, wishes));
    if (wishes.attention) sentence["attention"] = attention_json(job.outputs[part].attention, wishes.attention_heads);
    if (wishes.terms) {
      sentence["missing-terms"] = Json::array();
      for (const text::Term& term : result.missing)
        sentence["missing-terms"].push_back({{"source", term.source}, {"target", term.target}});
    }
    sentences.push_back(std::move(sentence));
  }
  Json json = sentences.size() == 1 ? sentences.front() : Json{{"sentences", std::move(sentences)}};
  json["text"] = job.translation(text);
  return json;
}

// The page shows the field for a key only if the server asks for one.
void show_page(Context& context, const ExchangePointer& exchange) {
  constexpr std::string_view kKeyless = "data-keys=\"no\"";
  std::string page(kPage);
  if (context.keys.are_asked_for()) page.replace(page.find(kKeyless), kKeyless.size(), "data-keys=\"yes\"");
  exchange->answer({.body = std::move(page),
                    .type = "text/html; charset=utf-8",
                    .headers = {{"Content-Security-Policy",
                                 "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
                                 "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
                                {"X-Content-Type-Options", "nosniff"}}});
}

void show_health(Context& /*context*/, const ExchangePointer& exchange) {
  exchange->answer(json_response({{"status", "ok"}}));
}

void show_ready(Context& context, const ExchangePointer& exchange) {
  (void)context.models.all();
  exchange->answer(json_response({{"status", "ready"}}));
}

void show_metrics(Context& context, const ExchangePointer& exchange) {
  exchange->answer(
      {.body = context.metrics.page(context.queue.parts(), context.queue.tokens(), context.models.is_ready()),
       .type = "text/plain; version=0.0.4; charset=utf-8"});
}

constexpr std::array kOwnRoutes = {
    Route{"GET", "/", &kOwn, show_page, true},
    Route{"GET", "/health", &kOwn, show_health, true},
    Route{"GET", "/ready", &kOwn, show_ready, true},
    Route{"GET", "/metrics", &kOwn, show_metrics, true},
};

}  // namespace

const Dialect kOwn = {"own", own_refusal, 401, false};

void translate_own(Context& context, const ExchangePointer& exchange, const Fields& fields) {
  TextTask task;
  task.texts = fields.some_texts("text");
  task.source_language = fields.text("source").value_or("");
  const auto name = fields.text("model");
  task.model = name ? context.models.named(*name)
                    : context.models.translator(task.source_language, fields.text("target").value_or(""));
  if (!task.model->translates())
    throw HttpError(400, cat("model: '", *name, "' continues texts; /v1/completions uses it"), "model");
  if (name) require_languages(*task.model, task.source_language, fields.text("target").value_or(""));
  if (task.source_language.empty()) task.source_language = task.model->place().source;
  const std::string format = fields.choice("format", {"text", "html", "xml"}, "text");
  if (format != "text") task.markup = format == "html" ? MarkupKind::kHtml : MarkupKind::kXml;
  if (fields.truth("split").value_or(false)) task.splitting = Splitting::kBoth;
  task.search = search_of(fields, context.options);
  choose_languages(task, task.source_language, fields.text("target").value_or(""));
  task.wants_attention = fields.truth("attention").value_or(false);
  const bool wants_heads = fields.truth("attention-heads").value_or(false);
  if (wants_heads && !task.wants_attention)
    throw HttpError(400, "attention-heads needs \"attention\": true", "attention");
  const TextWishes wishes = {.scores = fields.truth("scores").value_or(false),
                             .n_best = fields.truth("n-best").value_or(false),
                             .alignment = task.search.alignment.has_value(),
                             .attention = task.wants_attention,
                             .attention_heads = wants_heads,
                             .terms = task.search.terms != nullptr};
  const std::string model = task.model->place().name;
  translate_texts(context, exchange, kOwn, std::move(task), [wishes, model](TextJob& job) {
    Json list = Json::array();
    for (size_t i = 0; i < job.texts.size(); ++i) list.push_back(text_json(job, i, wishes));
    return json_response({{"translations", std::move(list)},
                          {"model", model},
                          {"source-tokens", job.source_tokens()},
                          {"target-tokens", job.target_tokens()}});
  });
}

std::span<const Route> own_routes() { return kOwnRoutes; }

}  // namespace fovea::serve
