#include "fovea/nn/transformer.h"

#include <c10/core/InferenceMode.h>

#include <variant>

#include "fovea/nn/embedding.h"
#include "fovea/nn/stack.h"
#include "fovea/nn/stepper.h"

namespace fovea::nn {
namespace {

using Module = torch::nn::Module;

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
          .cross = true,
          .depth = config.dec_depth,
          .dropout = 1,
          .first_attention = config.enc_depth,
          .attention_stride = 2,
          .attention_seed = config.attention_seed};
}

// The modules that own the parameters, in their order.
struct Owners {
  explicit Owners(Module& model)
      : root(model),
        encoder(model.register_module("encoder", std::make_shared<Module>())),
        decoder(model.register_module("decoder", std::make_shared<Module>())),
        output(model.register_module("output", std::make_shared<Module>())) {}
  Module& root;
  std::shared_ptr<Module> encoder, decoder, output;
};

std::shared_ptr<Positions> make_positions(const ModelConfig& config, Module& owner, const InitScope& scope) {
  return owner.register_module("positions", std::make_shared<Positions>(config, scope / "positions"));
}

// The configuration of the encoder, whose positions depend on its inputs.
ModelConfig encoder_config(ModelConfig config, const VectorInput& vectors) {
  if (vectors.width == 0) return config;
  config.transformer_positions = vectors.places > 0 ? "learned" : "none";
  config.max_positions = vectors.places;
  return config;
}

using Source = std::variant<Embedding, VectorEmbedding>;

}  // namespace

struct TransformerImpl::Parts {
  struct Tables {
    Tables(const ModelConfig& config, bool reads_tokens, Owners& owners, const InitScope& scope) {
      const TableShape from{config.dim_vocabs.front(), config.dim_emb}, to{config.dim_vocabs.back(), config.dim_emb};
      if (!reads_tokens) {
        target = embedding_weight(*owners.decoder, to, scope / "decoder");
      } else if (config.tied_embeddings_src || config.tied_embeddings_all) {
        source = target = embedding_weight(owners.root, from, scope);
      } else {
        source = embedding_weight(*owners.encoder, from, scope / "encoder");
        target = embedding_weight(*owners.decoder, to, scope / "decoder");
      }
      const bool tied = config.tied_embeddings || config.tied_embeddings_all;
      output = make_output(*owners.output, to, tied ? target : at::Tensor(), scope);
    }
    at::Tensor source, target;
    Output output;
  };

  Parts(const ModelConfig& model_config, const VectorInput& vectors, Owners owners, const InitScope& scope)
      : config(model_config),
        tables(config, vectors.width == 0, owners, scope),
        source(make_source(config, vectors, tables, owners, scope / "encoder")),
        target(tables.target, make_positions(config, *owners.decoder, scope / "decoder")),
        encoder(*owners.encoder, encoder_config(config, vectors), encoder_place(config), mechanisms_of(config),
                scope / "encoder"),
        decoder(*owners.decoder, config, decoder_place(config), mechanisms_of(config), scope / "decoder") {}

  static Source make_source(const ModelConfig& config, const VectorInput& vectors, const Tables& tables,
                            const Owners& owners, const InitScope& scope) {
    const auto positions = make_positions(encoder_config(config, vectors), *owners.encoder, scope);
    if (vectors.width == 0) return Embedding(tables.source, positions);
    const Linear::Shape shape{vectors.width, config.dim_emb, xavier_limit(vectors.width, config.dim_emb)};
    return VectorEmbedding(
        owners.encoder->register_module("features", std::make_shared<Linear>(shape, scope / "features")), positions);
  }

  // The clauses of the source, where the encoder needs them and the pass has none.
  ForwardContext with_clauses(const at::Tensor& tokens, const at::Tensor& offsets, ForwardContext context) const {
    if (has_clauses && !context.clauses && splitter)
      context.clauses = std::make_shared<const Clauses>(splitter(tokens.cpu(), offsets));
    return context;
  }

  ModelConfig config;
  Tables tables;
  Source source;
  Embedding target;
  Stack encoder, decoder;
  ClauseSplitter splitter = {};
  bool has_clauses = uses_clauses(config);
};

TransformerImpl::TransformerImpl(const ModelConfig& config, std::optional<int64_t> seed, const VectorInput& vectors) {
  const std::vector<int64_t>& sizes = config.dim_vocabs;
  const bool shared = config.tied_embeddings_src || config.tied_embeddings_all;
  const bool has_vocabularies =
      vectors.width > 0 ? sizes.size() == 1 && sizes[0] > 0 && !shared
                        : sizes.size() == 2 && sizes[0] > 0 && sizes[1] > 0 && (!shared || sizes[0] == sizes[1]);
  TORCH_INTERNAL_ASSERT(has_vocabularies && config.dim_emb % config.transformer_heads == 0,
                        "a configuration that validate() would refuse, or without the vocabularies' sizes");
  parts_ = std::make_unique<Parts>(config, vectors, Owners(*this), InitScope(seed));
}

TransformerImpl::~TransformerImpl() = default;

const ModelConfig& TransformerImpl::config() const { return parts_->config; }

at::Tensor TransformerImpl::output_weight() const { return parts_->tables.output.weight; }

at::Tensor TransformerImpl::output_bias() const { return parts_->tables.output.bias; }

at::Tensor TransformerImpl::encode(const at::Tensor& tokens, const at::Tensor& offsets, const ForwardContext& context) {
  const TokenPositions positions = token_positions(offsets);
  const at::Tensor embedded = std::visit(
      [&](const auto& source) { return source(tokens, positions, parts_->encoder.embedding_dropout(context)); },
      parts_->source);
  return parts_->encoder({embedded, offsets, positions.position}, nullptr,
                         parts_->with_clauses(tokens, offsets, context));
}

std::vector<at::Tensor> TransformerImpl::encoder_layers(const at::Tensor& tokens, const at::Tensor& offsets,
                                                        int64_t count) {
  const TokenPositions positions = token_positions(offsets);
  const at::Tensor embedded = std::get<Embedding>(parts_->source)(tokens, positions, {});
  return parts_->encoder.first_layers({embedded, offsets, positions.position}, count,
                                      parts_->with_clauses(tokens, offsets, {}));
}

void TransformerImpl::split_clauses_by(ClauseSplitter splitter) { parts_->splitter = std::move(splitter); }

at::Tensor TransformerImpl::decode(const at::Tensor& inputs, const at::Tensor& offsets, const at::Tensor& memory,
                                   const at::Tensor& memory_offsets, const ForwardContext& context) {
  const TokenPositions positions = token_positions(offsets);
  const at::Tensor embedded = parts_->target(inputs, positions, parts_->decoder.embedding_dropout(context));
  const OtherSide other{memory, memory_offsets};
  return parts_->decoder({embedded, offsets, positions.position}, &other, context);
}

void TransformerImpl::override_attention(const AttentionOverride& mechanisms) {
  const ModelConfig config = with_attention(parts_->config, mechanisms);
  validate(config);
  std::vector<MechanismChange> changes = parts_->encoder.changes(mechanisms_of(config));
  for (const MechanismChange& change : parts_->decoder.changes(mechanisms_of(config))) changes.push_back(change);
  apply_changes(changes);
  if (!mechanisms.attention.empty()) log_fallback(config);
  parts_->config = config;
  parts_->has_clauses = uses_clauses(config);
}

std::shared_ptr<const PackedStack> TransformerImpl::pack_decoder(ops::PackedLayer::Format format) const {
  return parts_->decoder.packed(format);
}

std::shared_ptr<Stepper> TransformerImpl::start(const at::Tensor& memory, const at::Tensor& memory_offsets,
                                                const std::vector<int64_t>& rows,
                                                const std::shared_ptr<const PackedStack>& layers) {
  const c10::InferenceMode guard;
  CrossSteps cross(parts_->decoder, {memory, memory_offsets}, rows);
  return std::make_shared<Stepper>(Stepper::Parts{parts_->decoder, parts_->target, layers}, StepCache::Rows::kShared,
                                   static_cast<int64_t>(rows.size()), std::move(cross));
}

at::Tensor TransformerImpl::step(Stepper& state, const at::Tensor& tokens) { return state.step(tokens); }

void TransformerImpl::reorder(Stepper& state, const std::vector<int64_t>& parents) { state.reorder(parents); }

}  // namespace fovea::nn
