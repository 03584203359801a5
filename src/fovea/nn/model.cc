#include "fovea/nn/model.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fovea/nn/clauses.h"
#include "fovea/nn/embedding.h"
#include "fovea/nn/stack.h"
#include "fovea/nn/stack_stepper.h"
#include "fovea/spec/model_config.h"

namespace fovea::nn {

// The owner of the parameters of a side: in a model of both sides under a name of its own.
struct SideOwner {
  // `scope` is the root's, `name` "encoder" or "decoder".
  SideOwner(torch::nn::Module& root, const ModelConfig& config, const std::string& name, const InitScope& scope);
  torch::nn::Module& module;
  InitScope scope;
};

struct EncoderSide {
  // `table` [V, M] of tokens is undefined if the encoder reads vectors.
  EncoderSide(const SideOwner& owner, const ModelConfig& config, const VectorInput& vectors, const at::Tensor& table);

  StackInput read(const EncoderInput& input, const ForwardContext& context) const;
  // A pass with the clauses of the text, where the mechanisms need them and the pass has none.
  ForwardContext with_clauses(const EncoderInput& input, ForwardContext context) const;

  EncoderEmbedding embedding;
  Stack stack;
  ClauseSplitter splitter = {};
  bool has_clauses;
};

struct DecoderSide {
  // `image_shape` is that of positions for images, else empty.
  DecoderSide(const SideOwner& owner, const ModelConfig& config, const std::vector<int64_t>& image_shape,
              const at::Tensor& table);

  Embedding embedding;
  Stack stack;
};

namespace {

using Module = torch::nn::Module;

bool has_both_sides(const ModelConfig& config) { return config.enc_depth > 0 && config.dec_depth > 0; }

// Every attention of the model has a number of its own: the encoder's, then self and cross of each decoder layer.
StackPlace encoder_place(const ModelConfig& config) {
  return {.self = Sublayer::kEncoder,
          .cross = false,
          .depth = config.enc_depth,
          .dropout = 0,
          .first_attention = 0,
          .attention_stride = 1,
          .attention_seed = config.attention_seed};
}
StackPlace decoder_place(const ModelConfig& config) {
  return {.self = Sublayer::kDecoder,
          .cross = has_both_sides(config),
          .recurrent = has_recurrent_decoder(config),
          .depth = config.dec_depth,
          .dropout = 1,
          .first_attention = config.enc_depth,
          .attention_stride = has_both_sides(config) ? 2 : 1,
          .attention_seed = config.attention_seed};
}

// The encoder's configuration, whose positions depend on what it reads.
ModelConfig encoder_config(ModelConfig config, const VectorInput& vectors) {
  if (vectors.width == 0) return config;
  config.transformer_positions = vectors.places > 0 ? "learned" : "none";
  config.max_positions = vectors.places;
  return config;
}

// The mechanisms of a configuration; a token of the decoder sees `reach` keys at most.
Mechanisms mechanisms_of(const ModelConfig& config, std::optional<int64_t> reach = {}) {
  return [config, reach](Sublayer sublayer, int64_t layer) -> Mechanism {
    const LayerSpec spec = attention_of(config, sublayer, layer);
    const Mechanism mechanism{spec, config.sparsify == "train" ? without_selection(spec) : spec};
    if (!reach || sublayer != Sublayer::kDecoder) return mechanism;
    return {within_reach(mechanism.training, *reach), within_reach(mechanism.evaluation, *reach)};
  };
}

// The child module of this name, made on the first call.
torch::nn::Module& child_of(torch::nn::Module& root, const std::string& name) {
  const auto children = root.named_children();
  if (const auto* found = children.find(name)) return **found;
  return *root.register_module(name, std::make_shared<torch::nn::Module>());
}

}  // namespace

SideOwner::SideOwner(torch::nn::Module& root, const ModelConfig& config, const std::string& name,
                     const InitScope& root_scope)
    : module(has_both_sides(config) ? child_of(root, name) : root),
      scope(has_both_sides(config) ? root_scope / name : root_scope) {}

EncoderSide::EncoderSide(const SideOwner& owner, const ModelConfig& config, const VectorInput& vectors,
                         const at::Tensor& table)
    : embedding(owner.module, encoder_config(config, vectors), {table, vectors.width}, owner.scope),
      stack(owner.module, encoder_config(config, vectors), encoder_place(config), mechanisms_of(config), owner.scope),
      has_clauses(uses_clauses(config)) {}

StackInput EncoderSide::read(const EncoderInput& input, const ForwardContext& context) const {
  const TokenPositions positions = token_positions(input.offsets);
  return {embedding(input, positions, stack.embedding_dropout(context)), input.offsets, positions.position};
}

ForwardContext EncoderSide::with_clauses(const EncoderInput& input, ForwardContext context) const {
  if (has_clauses && !context.clauses && splitter)
    context.clauses = std::make_shared<const Clauses>(splitter(input.tokens.cpu(), input.offsets));
  return context;
}

DecoderSide::DecoderSide(const SideOwner& owner, const ModelConfig& config, const std::vector<int64_t>& image_shape,
                         const at::Tensor& table)
    : embedding(table, make_positions(owner.module, config, image_shape, owner.scope),
                config.embedding_scale == "one" ? EmbeddingScale::kOne : EmbeddingScale::kRootOfWidth,
                config.decoder_start == "zeros" ? FirstToken::kZeros : FirstToken::kOwn),
      stack(owner.module, config, decoder_place(config), mechanisms_of(config), owner.scope) {}

namespace {

// Tables of tokens. A side that the model lacks, or that reads no tokens, has none.
struct Tables {
  at::Tensor source, target;
};
Tables make_tables(Module& root, const ModelConfig& config, bool reads_tokens, const InitScope& scope) {
  const TableShape from{config.dim_vocabs.front(), config.dim_emb}, to{config.dim_vocabs.back(), config.dim_emb};
  Tables tables;
  if (has_both_sides(config) && reads_tokens && (config.tied_embeddings_src || config.tied_embeddings_all)) {
    tables.source = tables.target = embedding_weight(root, from, scope);
    return tables;
  }
  const auto table = [&](const char* side, const TableShape& shape) {
    const SideOwner owner(root, config, side, scope);
    return embedding_weight(owner.module, shape, owner.scope);
  };
  if (config.enc_depth > 0 && reads_tokens) tables.source = table("encoder", from);
  if (config.dec_depth > 0) tables.target = table("decoder", to);
  return tables;
}

void check_config(const ModelConfig& config, const VectorInput& vectors) {
  const std::vector<int64_t>& sizes = config.dim_vocabs;
  const bool shared = config.tied_embeddings_src || config.tied_embeddings_all;
  const size_t tables = has_both_sides(config) && vectors.width == 0 ? 2 : 1;
  const bool has_vocabularies = sizes.size() == tables && sizes.front() > 0 && sizes.back() > 0 &&
                                (!shared || (tables == 2 && sizes.front() == sizes.back()));
  const bool has_heads = config.transformer_dim_head > 0 || config.dim_emb % config.transformer_heads == 0;
  TORCH_INTERNAL_ASSERT(has_vocabularies && has_heads,
                        "a configuration that validate() would refuse, or without the vocabularies' sizes");
}

}  // namespace

struct ModelImpl::Parts {
  Parts(Module& root, const ModelConfig& model_config, const MediaInput& media, const InitScope& scope)
      : config(model_config) {
    // The order of modules is that of the optimiser's sums.
    if (has_both_sides(config))
      for (const char* name : {"encoder", "decoder", "output"}) child_of(root, name);
    const Tables tables = make_tables(root, config, media.vectors.width == 0, scope);
    if (config.enc_depth > 0)
      encoder.emplace(SideOwner(root, config, "encoder", scope), config, media.vectors, tables.source);
    if (config.dec_depth > 0) {
      decoder.emplace(SideOwner(root, config, "decoder", scope), config, media.image_shape, tables.target);
      const bool tied = config.tied_embeddings || config.tied_embeddings_all;
      output = make_output(child_of(root, "output"),
                           {config.dim_vocabs.back(), config.dim_emb,
                            config.transformer_biases == "all" && config.output_bias == "learned"},
                           tied ? tables.target : at::Tensor(), scope);
    }
  }

  // Gives the layers the mechanisms of `changed`. Throws an Error, and changes nothing, if they lack parameters.
  void change_mechanisms(const ModelConfig& changed) const {
    const Mechanisms mechanisms = mechanisms_of(changed, reach);
    std::vector<MechanismChange> changes;
    if (encoder) changes = encoder->stack.changes(mechanisms);
    if (decoder)
      for (const MechanismChange& change : decoder->stack.changes(mechanisms)) changes.push_back(change);
    apply_changes(changes);
  }

  ModelConfig config;
  std::optional<EncoderSide> encoder;
  std::optional<DecoderSide> decoder;
  Output output;                      // of the decoder
  std::optional<int64_t> reach = {};  // keys that a token of the decoder sees at most
};

ModelImpl::ModelImpl(const ModelConfig& config, std::optional<int64_t> seed, const MediaInput& media) {
  check_config(config, media.vectors);
  parts_ = std::make_unique<Parts>(*this, config, media, InitScope(seed));
}

ModelImpl::~ModelImpl() = default;

const ModelConfig& ModelImpl::config() const { return parts_->config; }

void ModelImpl::override_attention(const AttentionOverride& mechanisms) {
  const ModelConfig config = with_attention(parts_->config, mechanisms);
  parts_->change_mechanisms(config);
  if (!mechanisms.attention.empty()) log_fallback(config);
  parts_->config = config;
  if (parts_->encoder) parts_->encoder->has_clauses = uses_clauses(config);
}

void ModelImpl::limit_reach(int64_t keys) {
  parts_->reach = keys;
  parts_->change_mechanisms(parts_->config);
}

void ModelImpl::split_clauses_by(ClauseSplitter splitter) { parts_->encoder.value().splitter = std::move(splitter); }

void ModelImpl::use_int8() {
  const c10::InferenceMode guard;
  for (const auto& module : modules(/*include_self=*/false)) {
    if (auto* linear = module->as<Linear>()) linear->freeze(ops::PrepackedLayer::Format::kInt8);
    if (auto* ssru = module->as<Ssru>()) ssru->use_int8();
  }
}

void ModelImpl::freeze_encoder() {
  const c10::InferenceMode guard;
  const auto freeze = [](const Module& owner) {
    for (const auto& module : owner.modules())
      if (auto* linear = module->as<Linear>()) linear->freeze(ops::PrepackedLayer::Format::kExact);
  };
  for (const auto& layer : parts_->encoder.value().stack.layers()) freeze(*layer);
  if (!parts_->decoder) return;
  for (const auto& layer : parts_->decoder->stack.layers())
    if (layer->cross_attention) freeze(*layer->cross_attention->named_children()["kv"]);
}

at::Tensor ModelImpl::encode(const EncoderInput& input, const ForwardContext& context) {
  const EncoderSide& side = parts_->encoder.value();
  return side.stack(side.read(input, context), nullptr, side.with_clauses(input, context));
}

std::vector<at::Tensor> ModelImpl::first_layers(const EncoderInput& input, int64_t count) {
  const EncoderSide& side = parts_->encoder.value();
  return side.stack.first_layers(side.read(input, {}), count, side.with_clauses(input, {}));
}

at::Tensor ModelImpl::decode(const DecoderInput& input, const ForwardContext& context) {
  const DecoderSide& side = parts_->decoder.value();
  TORCH_INTERNAL_ASSERT(input.encoded.defined() == has_both_sides(parts_->config),
                        "a decoder reads what an encoder made");
  const TokenPositions positions = token_positions(input.offsets);
  const at::Tensor embedded = side.embedding(input.tokens, positions, side.stack.embedding_dropout(context));
  const OtherSide other{input.encoded, input.encoded_offsets};
  return side.stack({embedded, input.offsets, positions.position, input.memory},
                    other.encoded.defined() ? &other : nullptr, context);
}

at::Tensor ModelImpl::output_weight() const { return parts_->output.weight; }

at::Tensor ModelImpl::output_bias() const { return parts_->output.bias; }

ops::OutputLayer ModelImpl::output_layer() const {
  return {output_weight(), output_bias(), parts_->config.logit_softcap};
}

std::shared_ptr<const PrepackedStack> ModelImpl::pack(ops::PrepackedLayer::Format format) const {
  return parts_->decoder.value().stack.prepacked(format);
}

std::shared_ptr<Stepper> ModelImpl::start(int64_t rows, const std::shared_ptr<const PrepackedStack>& layers,
                                          StepRows kind, const StreamCut& cut, CacheType cache) const {
  const DecoderSide& side = parts_->decoder.value();
  return std::make_shared<StackStepper>(StackStepper::Parts{side.stack, side.embedding, layers, cut, cache}, kind,
                                        rows);
}

int64_t ModelImpl::count_narrow_layers() const {
  const DecoderSide& side = parts_->decoder.value();
  if (!output_weight().device().is_cpu() || side.stack.place().recurrent) return 0;
  return std::ranges::count_if(side.stack.layers(), [](const auto& layer) {
    return layer->self_attention && reads_narrow_rows(*layer->self_attention);
  });
}

std::shared_ptr<Stepper> ModelImpl::start(const OtherSide& other, const std::vector<int64_t>& sentences,
                                          const std::shared_ptr<const PrepackedStack>& layers) const {
  const c10::InferenceMode guard;
  const DecoderSide& side = parts_->decoder.value();
  return std::make_shared<StackStepper>(StackStepper::Parts{side.stack, side.embedding, layers}, StepRows::kShared,
                                        std::ssize(sentences), CrossSteps(side.stack, other, sentences));
}

}  // namespace fovea::nn
