#include "fovea/serve/model_engines.h"

#include <algorithm>
#include <map>
#include <utility>

#include "fovea/base/empty_line.h"
#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/models/trained_model.h"
#include "fovea/models/translation/languages.h"
#include "fovea/nn/checkpoint_choice.h"
#include "fovea/tasks/language/engine.h"
#include "fovea/tasks/translation/cross_attention.h"
#include "fovea/tasks/translation/engine.h"
#include "fovea/text/sentencepiece_model.h"
#include "fovea/text/words.h"

namespace fovea::serve {
namespace {

// Options of a command for the model of one folder.
template <class Options>
Options trained_options(const ModelPlace& place, const ServeOptions& serve) {
  Options options;
  static_cast<AttentionOverride&>(options) = serve;
  static_cast<MachineOptions&>(options) = serve;
  options.model = place.folder;
  options.precision = serve.precision;
  return options;
}

// The bytes that a token stands for, at most. Vocabularies of words have some long pieces, which no sentence is made
// of, and unknown text is one token however long it is.
int64_t bytes_of_token(const text::Vocab& vocab) {
  constexpr int64_t kLeast = 16, kMost = 64;
  int64_t longest = kLeast;
  for (int64_t id = 0; id < vocab.size(); ++id) longest = std::max(longest, std::ssize(vocab.piece(id)));
  return std::min(longest, kMost);
}

// weights: float32 [layers, heads, target, source].
void add_heads(const at::Tensor& weights, AttentionMap& map) {
  std::vector<analysis::HeadWeights> layers;
  for (int64_t layer = 0; layer < weights.size(0); ++layer) {
    const at::Tensor own = weights[layer];
    layers.push_back({own.const_data_ptr<float>(), own.size(0), own.size(1), own.size(2)});
    std::vector<std::vector<float>>& heads = map.heads.emplace_back();
    const int64_t size = own.size(1) * own.size(2);
    for (int64_t head = 0; head < own.size(0); ++head) {
      const float* const begin = own.const_data_ptr<float>() + head * size;
      heads.emplace_back(begin, begin + size);
    }
  }
  map.sharpest = analysis::sharpest_head(layers);
}

// The attention between a sentence and the tokens of its translation; empty if one of both is.
AttentionMap attention_of(const translation::TranslationEngine& engine, const std::string& sentence,
                          const models::Sentence& translation) {
  const translation::LoadedModel& loaded = engine.model();
  translation::WordPair pair{text::encode_words(loaded.source, sentence), {}};
  pair.target.pieces = translation;
  text::cut(pair.source, engine.limit().tokens);
  if (pair.is_empty()) return {};
  AttentionMap map;
  for (const int64_t id : pair.source.pieces) map.source.push_back(loaded.source.piece(id));
  for (const int64_t id : pair.target.pieces) map.target.push_back(loaded.target.piece(id));
  map.source.emplace_back("</s>");
  map.target.emplace_back("</s>");
  nn::Model model = loaded.model;
  const translation::SentencePair tokens = with_eos(pair, loaded.source.eos(), loaded.target.eos());
  see_cross_attention(model, std::span(&tokens, 1), {}, "translating", [&](size_t, const at::Tensor& weights) {
    const at::Tensor mean = weights.mean(at::IntArrayRef({0, 1})).contiguous();
    map.weights.assign(mean.data_ptr<float>(), mean.data_ptr<float>() + mean.numel());
    add_heads(weights.contiguous(), map);
  });
  return map;
}

class TranslatingEngine final : public Engine, public SentenceReader {
 public:
  TranslatingEngine(translation::LoadedModel loaded, const translation::TranslationEngine::Options& options)
      : engine_(std::move(loaded), options),
        longest_bytes_(engine_.limit().tokens * bytes_of_token(engine_.model().source)) {}

  const SentenceReader* sentences() const override { return this; }
  const UnitReader* texts() const override { return nullptr; }

  Ticket add(PartInput input) override {
    auto& sentence = std::get<SentenceInput>(input);
    std::string text = sentence.wants_attention ? sentence.request.text : std::string();
    const Ticket ticket = engine_.add(std::move(sentence.request));
    if (sentence.wants_attention) shown_.emplace(ticket, std::move(text));
    return ticket;
  }
  bool step() override {
    try {
      return engine_.step();
    } catch (...) {
      shown_.clear();
      throw;
    }
  }
  std::vector<EngineOutput> take() override {
    std::vector<EngineOutput> outputs;
    for (auto& [ticket, result] : engine_.take()) {
      SentenceOutput output{std::move(result), {}};
      if (const auto shown = shown_.extract(ticket))
        output.attention = attention_of(engine_, shown.mapped(), output.result.best.front().tokens);
      outputs.push_back({ticket, std::move(output)});
    }
    return outputs;
  }
  void cancel(Ticket ticket) override {
    engine_.cancel(ticket);
    shown_.erase(ticket);
  }
  EngineCounts counts() const override { return engine_.counts(); }

  std::vector<std::string> languages() const override {
    const translation::LoadedModel& model = engine_.model();
    return translation::marks_both_sides(model) ? model.target.language_codes() : std::vector<std::string>();
  }
  models::Sentence tokens(const std::string& sentence, const std::string& source) const override {
    if (is_empty_line(sentence)) return {};
    const translation::LoadedModel& model = engine_.model();
    const translation::LanguageMarks marks = translation::language_marks(model, {.source = source});
    return model.source.encode(translation::marked_line(model, translation::Side::kSource, marks, sentence));
  }
  int64_t count_unknown(const models::Sentence& tokens) const override {
    return std::ranges::count(tokens, engine_.model().source.unk());
  }
  std::string_view language_mark(std::string_view text) const override {
    const std::string_view mark = text::leading_language_mark(text);
    const bool is_known = !mark.empty() && engine_.model().source.find(mark);
    return is_known ? mark : std::string_view();
  }
  int64_t longest_sentence() const override { return engine_.limit().tokens; }
  int64_t longest_sentence_bytes() const override { return longest_bytes_; }

 private:
  translation::TranslationEngine engine_;
  int64_t longest_bytes_;
  std::map<Ticket, std::string> shown_;  // the sentences whose attention is wanted
};

class CompletingEngine final : public Engine, public UnitReader {
 public:
  CompletingEngine(language::LoadedModel loaded, const language::CompletionEngine::Options& options)
      : engine_(std::move(loaded), options), ends_texts_(!unit_rules(engine_.model(), true).ends.empty()) {}

  const SentenceReader* sentences() const override { return nullptr; }
  const UnitReader* texts() const override { return this; }

  Ticket add(PartInput input) override { return engine_.add(std::get<language::CompletionRequest>(std::move(input))); }
  bool step() override { return engine_.step(); }
  std::vector<EngineOutput> take() override {
    std::vector<EngineOutput> outputs;
    for (language::CompletionPart& part : engine_.take()) {
      const Ticket ticket = part.ticket;
      outputs.push_back({ticket, std::move(part)});
    }
    return outputs;
  }
  void cancel(Ticket ticket) override { engine_.cancel(ticket); }
  EngineCounts counts() const override { return engine_.counts(); }

  const text::Units& units() const override { return engine_.model().units; }
  std::optional<int64_t> longest(int64_t prompt_units) const override { return engine_.longest(prompt_units); }
  bool ends_texts() const override { return ends_texts_; }

 private:
  language::CompletionEngine engine_;
  bool ends_texts_;
};

std::unique_ptr<Engine> load_unused(const ModelPlace& place, const ServeOptions& options) {
  if (nn::task_of_checkpoint(place.folder) == "language") {
    const auto trained = trained_options<language::LanguageModelOptions>(place, options);
    return std::make_unique<CompletingEngine>(
        language::load_model(trained), language::CompletionEngine::Options{.layers = models::step_format(trained),
                                                                           .limits = models::kNoLimits,
                                                                           .cache_precision = options.cache_precision,
                                                                           .prefix_bytes = options.prefix_cache << 20});
  }
  if (options.cache_precision != "model")
    throw Error(cat("--cache-precision ", options.cache_precision, ": got the model '", place.folder,
                    "', which translates; only language models have such caches; leave the option out"));
  const auto trained = trained_options<ModelOptions>(place, options);
  return std::make_unique<TranslatingEngine>(
      translation::load_model(trained), translation::TranslationEngine::Options{.layers = models::step_format(trained),
                                                                                .limits = models::kNoLimits,
                                                                                .max_length = options.max_length,
                                                                                .owns_model = true});
}

}  // namespace

std::unique_ptr<Engine> load_engine(const ModelPlace& place, const ServeOptions& options) {
  std::unique_ptr<Engine> engine = load_unused(place, options);
  if (engine->sentences() != nullptr) {
    const std::vector<std::string> languages = engine->sentences()->languages();
    const std::string language = languages.empty() ? "" : languages.front();
    (void)engine->add(
        SentenceInput{{.text = "1", .max_length_factor = 1, .source_lang = language, .target_lang = language}});
  } else {
    (void)engine->add(language::CompletionRequest{.prompt = {}, .max_units = 1});
  }
  while (engine->step()) continue;
  (void)engine->take();
  return engine;
}

}  // namespace fovea::serve
