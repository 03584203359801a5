#include "fovea/models/formats/foreign_model.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/models/translation/names.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/nn/model.h"
#include "fovea/nn/positions.h"
#include "fovea/spec/layer_override.h"
#include "fovea/spec/positions.h"

namespace fovea::models {

nn::Checkpoint checkpoint_of(const ForeignModel& model, const std::string& origin) {
  const std::vector<int64_t> pieces = {model.source.size(), model.target.size()};
  for (size_t side = 0; side < pieces.size(); ++side) {
    if (model.config.dim_vocabs.at(side) != pieces[side])
      throw Error(cat(origin, ": has ", model.config.dim_vocabs[side], " rows of the ", side == 0 ? "source" : "target",
                      ", but the vocabulary has ", pieces[side], " pieces; give the vocabulary of its training"));
  }
  try {
    validate(model.config);
  } catch (const Error& error) {
    throw Error(cat(origin, ": ", error.what()));
  }
  nn::load_parameters(*nn::Model(model.config, std::nullopt), model.weights, origin);
  nn::Checkpoint checkpoint;
  checkpoint.identity = nn::identity_of(
      translation::kTask, model.config,
      {{translation::kSourceVocabFile, model.source.bytes()}, {translation::kTargetVocabFile, model.target.bytes()}});
  checkpoint.model = model.weights;
  return checkpoint;
}

ModelTables tables_of(const ForeignModel& model) {
  const EncoderDecoderConfig& config = model.config;
  const bool shared = config.tied_embeddings_all || config.tied_embeddings_src;
  const auto& weights = model.weights;
  ModelTables tables;
  tables.source = weights.at(shared ? "embeddings.weight" : "encoder.embeddings.weight");
  tables.target = weights.at(shared ? "embeddings.weight" : "decoder.embeddings.weight");
  if (!config.tied_embeddings_all && !config.tied_embeddings) tables.output = weights.at("output.weight");
  tables.bias = config.output_bias == "none" ? at::zeros({config.dim_vocabs.at(1)}) : weights.at("output.bias");
  return tables;
}

void add_tables(const ModelTables& tables, ForeignModel& model) {
  EncoderDecoderConfig& config = model.config;
  const bool shared = tables.source.is_same(tables.target), tied = !tables.output.defined();
  config.tied_embeddings_all = shared && tied;
  config.tied_embeddings_src = shared && !tied;
  config.tied_embeddings = !shared && tied;
  if (shared) {
    model.weights["embeddings.weight"] = tables.source;
  } else {
    model.weights["encoder.embeddings.weight"] = tables.source;
    model.weights["decoder.embeddings.weight"] = tables.target;
  }
  if (!tied) model.weights["output.weight"] = tables.output;
  if (tables.bias.defined()) model.weights["output.bias"] = tables.bias;
}

std::string first_sparse_attention(const ModelConfig& config) {
  for (const Sublayer sublayer : sublayers_of(config)) {
    for (int64_t layer = 0; layer < depth_of(config, sublayer); ++layer) {
      const LayerSpec spec = attention_of(config, sublayer, layer);
      if (!std::ranges::all_of(spec, [](const HeadGroup& group) { return print(group.spec) == "full"; }))
        return print(spec);
    }
  }
  return "";
}

namespace {

// The most by which rounding changed a table that was stored in a narrow type, whose numbers alone it has then.
double rounding_of(const at::Tensor& table) {
  for (const auto& [type, error] : {std::pair{at::kBFloat16, 0x1p-9}, {at::kHalf, 0x1p-12}})
    if (table.to(type).to(table.scalar_type()).equal(table)) return error;
  return 0;
}

}  // namespace

std::string positions_of_table(const at::Tensor& table, const std::string& origin) {
  // The largest difference between two systems' float32 tables: an angle of up to P radians is rounded to its last
  // place before the sine is taken.
  const double tolerance = 1e-6 * static_cast<double>(std::max<int64_t>(table.size(0), 10)) + rounding_of(table);
  for (const double first : {0.0, 1.0, 2.0}) {
    for (const bool paper : {false, true}) {
      Sinusoidal scheme;
      scheme.first = first;
      scheme.paper = paper;
      const at::Tensor own = nn::sinusoidal_table(table.size(0), table.size(1), scheme);
      if ((own - table.to(at::kDouble)).abs().max().item<double>() < tolerance) return print({scheme});
    }
  }
  throw Error(cat(
      origin, ": its table of positions is not one of sines and cosines; expected a model with sinusoidal positions"));
}

}  // namespace fovea::models
