#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <iostream>
#include <string>
#include <vector>

#include "fovea/analysis/picture.h"
#include "fovea/app/analyze_spans.h"
#include "fovea/app/options.h"
#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/nn/attention_observer.h"
#include "fovea/spec/config_problems.h"
#include "fovea/spec/logging.h"
#include "fovea/tasks/translation/translator.h"

namespace fovea::app {
namespace {

constexpr int64_t kMostDrawn = 1000;  // tokens of a side

struct AnalyzeConfig : ModelOptions, LogOptions {
  std::string source, target;
  int64_t layer = 0, head = 0, beam_size = 5;
  bool json = false;

  static constexpr auto fields() {
    using C = AnalyzeConfig;
    const auto own = std::tuple(field("source", &C::source, "the sentence; none: the spans of a model with span(limit,ramp)"),
                                field("target", &C::target, "its translation (default: the model's own)"),
                                number("layer", &C::layer, "decoder layer, from 1 (0: mean of all)", 0, 1000),
                                number("head", &C::head, "head, from 1 (0: mean of all)", 0, 1024),
                                number("beam-size", &C::beam_size, "beam of the translation", 1, 1000),
                                field("json", &C::json, "spans as one JSON object"));
    return std::tuple_cat(ModelOptions::fields(), own, LogOptions::fields());
  }
};

void validate(const AnalyzeConfig& config) {
  Problems problems;
  problems.add_ranges(config);
  add_model_problems(config, problems);
  problems.add_if(trim(config.source).empty() && (config.model.empty() || !has_spans(config.model)),
                  "--source is missing; expected a sentence");
  problems.throw_if_any();
}

std::vector<std::string> labels(const text::Vocab& vocab, const decode::Sentence& tokens) {
  std::vector<std::string> out;
  for (const int64_t token : tokens) out.push_back(vocab.piece(token));
  return out;
}

// The tokens of a text that is short enough to be drawn, and for the model's position vectors.
decode::Sentence tokens_of(const text::Vocab& vocab, const std::string& text, const ModelConfig& model,
                           std::string_view what) {
  const int64_t most = longest_text(model, kMostDrawn);
  translation::Encoded encoded = translation::encode_line(vocab, text, most);
  if (encoded.cut_from > 0)
    throw Error(cat(what, ": has ", encoded.cut_from, " tokens; at most ", most, " can be drawn, give a shorter one"));
  return std::move(encoded.tokens);
}

std::string own_translation(const translation::LoadedModel& loaded, const AnalyzeConfig& config) {
  DecodeConfig decode;
  decode.beam_size = config.beam_size;
  translation::Translator translator({loaded.model, text::Vocab::from_bytes(loaded.source.bytes(), "source"),
                                      text::Vocab::from_bytes(loaded.target.bytes(), "target")},
                                     translation::translator_options(decode));
  return translator.translate(std::vector<std::string>{config.source}).front().front().text;
}

// Weights [T, S] of the cross-attention, the mean of the layers and heads that `config` asks for.
at::Tensor cross_attention(translation::LoadedModel& loaded, const AnalyzeConfig& config,
                           const decode::Sentence& source, const decode::Sentence& inputs) {
  const ModelConfig& model = loaded.model->config();
  if (config.layer > model.dec_depth)
    throw Error(cat("--layer: got ", config.layer, "; the model's decoder has ", model.dec_depth, " layers"));
  if (config.head > model.transformer_heads)
    throw Error(cat("--head: got ", config.head, "; the model has ", model.transformer_heads, " heads"));
  std::vector<at::Tensor> layers;
  const nn::AttentionObserver observer([&](const nn::AttentionPlace& place, const at::Tensor& weights) {
    if (place.kind == AttentionKind::kCross) layers.push_back(weights[0]);
  });
  const at::NoGradGuard no_grad;
  const at::Device device = loaded.model->output_weight().device();
  const auto pack = [&](const decode::Sentence& sentence) {
    const decode::Sentence* only = &sentence;
    return translation::pack(std::span(&only, 1), device);
  };
  const translation::PackedSentences src = pack(source), trg = pack(inputs);
  const at::Tensor memory = loaded.model->encode(src.tokens, src.offsets, {});
  loaded.model->decode(trg.tokens, trg.offsets, memory, src.offsets, {});
  at::Tensor weights = config.layer > 0 ? layers.at(config.layer - 1) : at::stack(layers).mean(0);
  weights = config.head > 0 ? weights[config.head - 1] : weights.mean(0);
  return weights.to(at::kCPU, at::kFloat).contiguous();
}

}  // namespace

int run_analyze(const std::vector<std::string>& arguments) {
  AnalyzeConfig config;
  Options options("analyze", "Draws the cross-attention of a sentence and its translation, or prints a model's spans.",
                  "--model DIR [--source TEXT] [--target TEXT] [--layer N] [--head N]");
  options.add(config, "Options");
  options.epilogue("  fovea analyze --model run --source 'The file cannot be opened.'");
  if (!options.parse(arguments)) return 0;
  configure_log(config, {config.vocabs});
  validate(config);
  if (trim(config.source).empty()) {
    print_spans(config.model, config.json, std::cout);
    return 0;
  }
  translation::LoadedModel loaded = translation::load_model(config);
  const ModelConfig& model = loaded.model->config();
  const decode::Sentence source = tokens_of(loaded.source, config.source, model, "--source");
  const bool translates = config.target.empty();
  const std::string target = translates ? own_translation(loaded, config) : config.target;
  const decode::Sentence outputs =
      tokens_of(loaded.target, target, model, translates ? "--source: its translation" : "--target");
  // Row t is the step that predicts token t: its input is the token before.
  decode::Sentence inputs = {loaded.target.eos()};
  inputs.insert(inputs.end(), outputs.begin(), outputs.end() - 1);
  const at::Tensor weights = cross_attention(loaded, config, source, inputs);
  const auto* data = weights.const_data_ptr<float>();
  std::cout << target << "\n\n"
            << analysis::draw({.sources = labels(loaded.source, source),
                               .targets = labels(loaded.target, outputs),
                               .weights = {data, data + weights.numel()}})
            << "\nexactly zero: " << fixed(100 * weights.eq(0).to(at::kDouble).mean().item<double>(), 1)
            << "% of the weights shown\n";
  return 0;
}

}  // namespace fovea::app
