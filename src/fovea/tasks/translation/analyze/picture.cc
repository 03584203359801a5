#include "fovea/analysis/picture.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <string>
#include <vector>

#include "fovea/analysis/picture_svg.h"
#include "fovea/analysis/sharpest_head.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/tasks/translation/analyze/analyze.h"
#include "fovea/tasks/translation/cross_attention.h"
#include "fovea/tasks/translation/pair_reader.h"
#include "fovea/tasks/translation/translator.h"

// The picture of analyze.h: the cross-attention of one sentence.
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

// Weights [layers, heads, T_target, T_source] of a pair without padding.
at::Tensor cross_attention(LoadedModel& loaded, const SentencePair& pair) {
  at::Tensor all;
  see_cross_attention(loaded.model, std::span(&pair, 1), {}, nullptr,
                      [&](size_t, const at::Tensor& weights) { all = weights.contiguous(); });
  return all;
}

// Places of --layer and --head, as numbers from 1; 0 is the mean.
analysis::HeadPlace shown_place(const at::Tensor& weights, const AnalyzeOptions& config) {
  if (config.layer == 0 || config.head == 0)
    return {std::max<int64_t>(config.layer, 0), std::max<int64_t>(config.head, 0)};
  std::vector<analysis::HeadWeights> layers;
  for (int64_t layer = 0; layer < weights.size(0); ++layer)
    layers.push_back({weights[layer].const_data_ptr<float>(), weights.size(1), weights.size(2), weights.size(3)});
  return analysis::sharpest_head(layers, {config.layer, config.head});
}

at::Tensor weights_at(const at::Tensor& weights, const analysis::HeadPlace& place) {
  const at::Tensor layer = place.layer > 0 ? weights[place.layer - 1] : weights.mean(0);
  return (place.head > 0 ? layer[place.head - 1] : layer.mean(0)).contiguous();
}

std::string zeros_text(const at::Tensor& weights) {
  return cat("exactly zero: ", fixed(100 * weights.eq(0).to(at::kDouble).mean().item<double>(), 1), "%");
}

std::string place_text(const analysis::HeadPlace& place, const at::Tensor& weights) {
  const int64_t layers = weights.size(0), heads = weights.size(1);
  if (place.layer > 0 && place.head > 0) return cat("head ", place.head, " of layer ", place.layer);
  if (place.layer > 0) return cat("the mean of the ", heads, " heads of layer ", place.layer);
  if (place.head > 0) return cat("the mean of head ", place.head, " of ", layers, " layers");
  return cat("the mean of all ", layers * heads, " heads");
}

// Says which head the picture is of, and how the others are seen.
std::string place_line(const analysis::HeadPlace& place, const AnalyzeOptions& config, const at::Tensor& weights) {
  const int64_t heads = weights.size(0) * weights.size(1);
  const bool is_one = place.layer > 0 && place.head > 0;
  std::string line = cat("shown: ", place_text(place, weights));
  if (is_one && config.layer < 0 && config.head < 0) line += cat(", the sharpest of ", heads);
  if (is_one)
    line += cat("; --layer N --head N draw another, --head 0 the mean of all ", heads, " (",
                zeros_text(weights.mean(at::IntArrayRef({0, 1}))), ")");
  return line;
}

}  // namespace

void draw_sentence(const AnalyzeOptions& config) {
  LoadedModel loaded = load_model(with_model(config, config.models.front()));
  const ModelConfig& model = loaded.model->config();
  require_layer_and_head(model, {.layer = config.layer, .head = config.head}, "--");
  const bool translates = config.target.empty();
  const Sentence source = tokens_of(loaded.source, config.source, model, "--source");
  const std::string target = translates ? own_translation(loaded, config) : config.target;
  const Sentence outputs =
      tokens_of(loaded.target, target, model, translates ? "--source: its translation" : "--target");
  const at::Tensor weights = cross_attention(loaded, {source, outputs});
  const analysis::HeadPlace place = shown_place(weights, config);
  const at::Tensor shown = weights_at(weights, place);
  const auto* data = shown.const_data_ptr<float>();
  const analysis::AttentionPicture picture = {.sources = piece_names(loaded.source, source),
                                              .targets = piece_names(loaded.target, outputs),
                                              .weights = {data, data + shown.numel()}};
  LineWriter output(config.output);
  if (config.output.ends_with(".svg")) {
    output.write(analysis::picture_svg(picture, one_line(target),
                                       cat("cross-attention, ", place_text(place, weights), "; ", zeros_text(shown))));
  } else {
    output.line(cat(one_line(target), "\n"));
    output.write(analysis::draw(picture));
    output.line(cat(zeros_text(shown), " of the weights shown; lines are target tokens, columns source tokens"));
    output.line(place_line(place, config, weights));
  }
  output.close();
}

std::string translation_of_source(const AnalyzeOptions& config) {
  return own_translation(load_model(with_model(config, config.models.front())), config);
}

}  // namespace fovea::translation
