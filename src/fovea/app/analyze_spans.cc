#include "fovea/app/analyze_spans.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "fovea/base/strings.h"
#include "fovea/models/trained_model.h"
#include "fovea/models/translation/names.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/spec/adaptive_span.h"
#include "fovea/spec/model_config.h"
#include "fovea/tasks/image/config.h"
#include "fovea/tasks/language/config.h"

namespace fovea::app {
namespace {

// A head's span in tokens, without the ramp and with it, as published figures count it.
struct Length {
  double span = 0, with_ramp = 0;
};
// The spans of the heads of a layer; nothing for a head without a span.
using LayerLengths = std::vector<std::optional<Length>>;

std::vector<LayerLengths> decoder_lengths(const models::TrainedModel& trained, const ModelConfig& config,
                                          const std::string& prefix) {
  std::vector<LayerLengths> layers;
  for (int64_t layer = 0; layer < depth_of(config, Sublayer::kDecoder); ++layer) {
    const auto spans = spans_of_heads(attention_of(config, Sublayer::kDecoder, layer));
    LayerLengths lengths(spans.size());
    const int64_t count = std::ranges::count_if(spans, [](const auto& span) { return span.has_value(); });
    layers.push_back(lengths);
    if (count == 0) continue;
    const std::string name = cat(prefix, "layers.", layer, ".self_attention.span.share");
    const at::Tensor shares =
        nn::tensor_of(trained.checkpoint().model, name, {count}, trained.folder()).to(at::kDouble);
    int64_t own = 0;
    for (size_t head = 0; head < spans.size(); ++head) {
      if (!spans[head]) continue;
      const double z = shares.const_data_ptr<double>()[own++];
      layers.back()[head] = Length{span_of(*spans[head], z), span_with_ramp(*spans[head], z)};
    }
  }
  return layers;
}

std::vector<LayerLengths> lengths_of(const std::string& model) {
  TrainedModelOptions options;
  options.model = model;
  const models::TrainedModel trained(options, {language::kTask, image::kTask, translation::kTask});
  if (trained.task() == language::kTask)
    return decoder_lengths(trained, trained.config<language::LanguageConfig>(), "");
  if (trained.task() == image::kTask) return decoder_lengths(trained, trained.config<image::ImageConfig>(), "");
  return decoder_lengths(trained, trained.config<EncoderDecoderConfig>(), "decoder.");
}

// The mean of a layer's heads that have a span, or nothing.
std::optional<Length> mean_of(const LayerLengths& lengths) {
  Length sum;
  double count = 0;
  for (const auto& length : lengths) {
    if (!length) continue;
    sum.span += length->span, sum.with_ramp += length->with_ramp;
    ++count;
  }
  return count > 0 ? std::optional(Length{sum.span / count, sum.with_ramp / count}) : std::nullopt;
}

std::string json_of(const std::vector<LayerLengths>& layers) {
  nlohmann::ordered_json records = nlohmann::ordered_json::array();
  const auto add = [&](size_t layer, size_t head, const Length& length) {
    records.push_back({{"kind", "decoder"},
                       {"layer", layer + 1},
                       {"head", head},
                       {"span", length.span},
                       {"span_with_ramp", length.with_ramp}});
  };
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const auto mean = mean_of(layers[layer]);
    if (!mean) continue;
    add(layer, 0, *mean);
    for (size_t head = 0; head < layers[layer].size(); ++head) {
      if (layers[layer][head]) add(layer, head + 1, *layers[layer][head]);
    }
  }
  return nlohmann::ordered_json({{"records", records}}).dump();
}

// A line per layer, with "-" for a head without a span: the means without and with the ramp, and each head's span.
std::string table_of(const std::vector<LayerLengths>& layers) {
  constexpr size_t kWidth = 11;
  const auto cell = [](const std::string& text) {
    return std::string(text.size() < kWidth ? kWidth - text.size() : 1, ' ') + text;
  };
  std::string text = "span in tokens\nlayer" + cell("mean") + cell("with ramp");
  for (size_t head = 0; head < layers.front().size(); ++head) text += cell(cat("head ", head + 1));
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const auto mean = mean_of(layers[layer]);
    if (!mean) continue;
    const std::string number = std::to_string(layer + 1);
    text += "\n" + std::string(number.size() < 5 ? 5 - number.size() : 0, ' ') + number + cell(fixed(mean->span, 1)) +
            cell(fixed(mean->with_ramp, 1));
    for (const auto& length : layers[layer]) text += cell(length ? fixed(length->span, 1) : "-");
  }
  return text + "\n";
}

}  // namespace

std::string spans_text(const std::string& model, bool as_json) {
  const std::vector<LayerLengths> layers = lengths_of(model);
  return as_json ? json_of(layers) + "\n" : table_of(layers);
}

}  // namespace fovea::app
