#include "fovea/nn/decoder_only.h"

#include <utility>

#include "fovea/nn/embedding.h"
#include "fovea/nn/stack.h"

namespace fovea::nn {
namespace {

StackPlace only_place(const DecoderConfig& config) {
  return {.self = Sublayer::kDecoder,
          .cross = false,
          .depth = config.dec_depth,
          .dropout = 1,
          .first_attention = 0,
          .attention_stride = 1,
          .attention_seed = config.attention_seed};
}

}  // namespace

struct DecoderOnlyImpl::Parts {
  Parts(const DecoderConfig& model_config, torch::nn::Module& root, const InitScope& scope)
      : config(model_config),
        table(embedding_weight(root, {config.dim_vocabs[0], config.dim_emb}, scope)),
        embedding(table, root.register_module("positions", std::make_shared<Positions>(config, scope / "positions"))),
        stack(root, config, only_place(config), mechanisms_of(config), scope),
        output(make_output(*root.register_module("output", std::make_shared<torch::nn::Module>()),
                           {config.dim_vocabs[0], config.dim_emb}, config.tied_embeddings ? table : at::Tensor(),
                           scope)) {}

  // The mechanisms of `config` within the reach.
  Mechanisms mechanisms() const {
    return [of = mechanisms_of(config), keys = reach](Sublayer sublayer, int64_t layer) -> Mechanism {
      const Mechanism mechanism = of(sublayer, layer);
      if (!keys) return mechanism;
      return {within_reach(mechanism.training, *keys), within_reach(mechanism.evaluation, *keys)};
    };
  }

  DecoderConfig config;
  std::optional<int64_t> reach;  // keys that a token sees at most
  at::Tensor table;
  Embedding embedding;
  Stack stack;
  Output output;
};

DecoderOnlyImpl::DecoderOnlyImpl(const DecoderConfig& config, std::optional<int64_t> seed) {
  TORCH_INTERNAL_ASSERT(
      config.dim_vocabs.size() == 1 && config.dim_vocabs[0] > 0 && config.dim_emb % config.transformer_heads == 0,
      "a configuration that validate() would refuse, or without the vocabulary's size");
  parts_ = std::make_unique<Parts>(config, *this, InitScope(seed));
}

DecoderOnlyImpl::~DecoderOnlyImpl() = default;

const DecoderConfig& DecoderOnlyImpl::config() const { return parts_->config; }

at::Tensor DecoderOnlyImpl::output_weight() const { return parts_->output.weight; }

at::Tensor DecoderOnlyImpl::output_bias() const { return parts_->output.bias; }

void DecoderOnlyImpl::override_attention(const AttentionOverride& mechanisms) {
  const DecoderConfig config = with_attention(parts_->config, mechanisms);
  validate(config);
  const DecoderConfig before = std::exchange(parts_->config, config);
  try {
    apply_changes(parts_->stack.changes(parts_->mechanisms()));
  } catch (...) {
    parts_->config = before;
    throw;
  }
}

void DecoderOnlyImpl::limit_reach(int64_t keys) {
  parts_->reach = keys;
  apply_changes(parts_->stack.changes(parts_->mechanisms()));
}

at::Tensor DecoderOnlyImpl::forward(const at::Tensor& tokens, const at::Tensor& offsets, const ForwardContext& context,
                                    const std::shared_ptr<MemoryPass>& memory) {
  const TokenPositions positions = token_positions(offsets);
  const at::Tensor embedded = parts_->embedding(tokens, positions, parts_->stack.embedding_dropout(context));
  return parts_->stack({embedded, offsets, positions.position, memory}, nullptr, context);
}

std::shared_ptr<const PackedStack> DecoderOnlyImpl::pack(ops::PackedLayer::Format format) const {
  return parts_->stack.packed(format);
}

std::shared_ptr<Stepper> DecoderOnlyImpl::start(int64_t rows, const std::shared_ptr<const PackedStack>& layers,
                                                StepCache::Rows kind, const StreamCut& cut) const {
  return std::make_shared<Stepper>(Stepper::Parts{parts_->stack, parts_->embedding, layers, cut}, kind, rows);
}

at::Tensor DecoderOnlyImpl::prefill(Stepper& state, const at::Tensor& tokens, const at::Tensor& offsets) {
  return state.prefill(tokens, offsets);
}

at::Tensor DecoderOnlyImpl::step(Stepper& state, const at::Tensor& tokens) { return state.step(tokens); }

void DecoderOnlyImpl::reorder(Stepper& state, const std::vector<int64_t>& parents) { state.reorder(parents); }

}  // namespace fovea::nn
