#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <string>
#include <vector>

#include "fovea/analysis/picture.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/nn/attention_observer.h"
#include "fovea/tasks/translation/analyze/analyze.h"
#include "fovea/tasks/translation/cross_attention.h"
#include "fovea/tasks/translation/translator.h"

// The picture of analyze.h.
namespace fovea::translation {
namespace {

constexpr int64_t kMostDrawn = 1000;  // tokens of a side
constexpr int64_t kBeamOfPicture = 5;

std::vector<std::string> piece_names(const text::Vocab& vocab, const Sentence& tokens) {
  std::vector<std::string> out;
  for (const int64_t token : tokens) out.push_back(vocab.piece(token));
  return out;
}

// The tokens of a text that is short enough to be drawn, and for the model's position vectors.
Sentence tokens_of(const text::Vocab& vocab, const std::string& text, const ModelConfig& model, std::string_view what) {
  const int64_t most = longest_text(model, kMostDrawn);
  Encoded encoded = encode_line(vocab, text, most);
  if (encoded.cut_from > 0)
    throw Error(cat(what, ": has ", encoded.cut_from, " tokens; at most ", most, " can be drawn, give a shorter one"));
  return std::move(encoded.tokens);
}

std::string own_translation(const LoadedModel& loaded, const AnalyzeOptions& config) {
  DecodeConfig decode;
  decode.beam_size = config.beam_size > 0 ? config.beam_size : kBeamOfPicture;
  Translator translator(loaded, translator_options(decode));
  return translator.translate(std::vector<std::string>{config.source}).front().front().text;
}

// Weights [T, S] of the cross-attention, the mean of the layers and heads that `config` asks for.
at::Tensor cross_attention(LoadedModel& loaded, const AnalyzeOptions& config, const Sentence& source,
                           const Sentence& inputs) {
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
  const auto packed = [&](const Sentence& sentence) {
    const Sentence* only = &sentence;
    return models::pack(std::span(&only, 1), device);
  };
  const PackedSentences src = packed(source), trg = packed(inputs);
  const at::Tensor memory = loaded.model->encode({src.tokens, src.offsets}, {});
  loaded.model->decode({trg.tokens, trg.offsets, memory, src.offsets}, {});
  at::Tensor weights = config.layer > 0 ? layers.at(config.layer - 1) : at::stack(layers).mean(0);
  weights = config.head > 0 ? weights[config.head - 1] : weights.mean(0);
  return weights.to(at::kCPU, at::kFloat).contiguous();
}

}  // namespace

std::string translation_of_source(const AnalyzeOptions& config) {
  return own_translation(load_model(with_model(config, config.models.front())), config);
}

void draw_sentence(const AnalyzeOptions& config) {
  LoadedModel loaded = load_model(with_model(config, config.models.front()));
  const ModelConfig& model = loaded.model->config();
  const Sentence source = tokens_of(loaded.source, config.source, model, "--source");
  const bool translates = config.target.empty();
  const std::string target = translates ? own_translation(loaded, config) : config.target;
  const Sentence outputs =
      tokens_of(loaded.target, target, model, translates ? "--source: its translation" : "--target");
  // Row t is the step that predicts token t: its input is the token before.
  Sentence inputs = {loaded.target.eos()};
  inputs.insert(inputs.end(), outputs.begin(), outputs.end() - 1);
  const at::Tensor weights = cross_attention(loaded, config, source, inputs);
  const auto* data = weights.const_data_ptr<float>();
  LineWriter output(config.output);
  output.line(cat(one_line(target), "\n"));
  output.write(analysis::draw({.sources = piece_names(loaded.source, source),
                               .targets = piece_names(loaded.target, outputs),
                               .weights = {data, data + weights.numel()}}));
  output.line(cat("exactly zero: ", fixed(100 * weights.eq(0).to(at::kDouble).mean().item<double>(), 1),
                  "% of the weights shown; lines are target tokens, columns source tokens"));
  output.close();
}

}  // namespace fovea::translation
