#include "fovea/nn/stack.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "fovea/nn/attention_observer.h"
#include "fovea/nn/pass_extras.h"
#include "fovea/ops/kernel_tensors.h"
#include "fovea/spec/layer_override.h"

namespace fovea::nn {
namespace {

// Computes outputs from inputs, always the same ones from the same inputs and parameters. It must own what it reads,
// because backward calls it again.
using Recomputable = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct HeldComputation : torch::CustomClassHolder {
  explicit HeldComputation(Recomputable function) : compute(std::move(function)) {}
  Recomputable compute;
};

// The inputs as leaves of a graph of their own.
variable_list cut_off(at::TensorList inputs) {
  variable_list leaves;
  for (const at::Tensor& x : inputs) leaves.push_back(x.detach().requires_grad_(x.requires_grad()));
  return leaves;
}

struct Recomputation : torch::autograd::Function<Recomputation> {
  static variable_list forward(AutogradContext* context, const c10::intrusive_ptr<HeldComputation>& held,
                               at::TensorList inputs, at::TensorList parameters) {
    variable_list saved = inputs.vec();
    saved.insert(saved.end(), parameters.begin(), parameters.end());
    context->save_for_backward(saved);
    context->saved_data["held"] = c10::IValue::make_capsule(held);
    context->saved_data["inputs"] = static_cast<int64_t>(inputs.size());
    context->set_materialize_grads(false);
    // The pass makes a graph, which ends with this scope: without it the operators may choose kernels of other bits.
    const at::AutoGradMode with_graph(true);
    variable_list outputs = held->compute(cut_off(inputs));
    for (at::Tensor& x : outputs) x = x.detach();
    return outputs;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    ops::refuse_second_derivatives("gradient checkpointing");
    const variable_list saved = context->get_saved_variables();
    const auto count = context->saved_data["inputs"].toInt();
    const auto held = c10::static_intrusive_pointer_cast<HeldComputation>(context->saved_data["held"].toCapsule());
    variable_list outputs, output_grads, wanted = cut_off(at::TensorList(saved).slice(0, static_cast<size_t>(count)));
    {
      const at::AutoGradMode with_graph(true);
      const AttentionObserver::Pause pause;
      const variable_list all = held->compute(wanted);
      for (size_t i = 0; i < all.size(); ++i) {
        if (!grads[i].defined()) continue;
        outputs.push_back(all[i]);
        output_grads.push_back(grads[i]);
      }
    }
    wanted.insert(wanted.end(), saved.begin() + count, saved.end());
    return gradients(outputs, output_grads, wanted);
  }

 private:
  // First for the held computation, which has none, then for each of `wanted`.
  static variable_list gradients(const variable_list& outputs, const variable_list& output_grads,
                                 const variable_list& wanted) {
    variable_list result(wanted.size() + 1), learned;
    for (const at::Tensor& x : wanted) {
      if (x.requires_grad()) learned.push_back(x);
    }
    if (outputs.empty() || learned.empty()) return result;
    const variable_list found = torch::autograd::grad(outputs, learned, output_grads, std::nullopt,
                                                      /*create_graph=*/false, /*allow_unused=*/true);
    for (size_t i = 0, next = 0; i < wanted.size(); ++i) {
      if (wanted[i].requires_grad()) result[i + 1] = found[next++];
    }
    return result;
  }
};

// compute(inputs), whose graph is not kept: backward computes it again, so the memory between the passes is that of
// the inputs. Gradients flow to `inputs` and to `parameters`, which are all that `compute` reads and learns; they have
// the bits that they would have without. Attention observers see the first computation alone. No second derivatives:
// backward with create_graph throws an Error.
std::vector<at::Tensor> recomputed(const Recomputable& compute, const std::vector<at::Tensor>& inputs,
                                   const std::vector<at::Tensor>& parameters) {
  return Recomputation::apply(c10::make_intrusive<HeldComputation>(compute), at::TensorList(inputs),
                              at::TensorList(parameters));
}

BlockNorm::Gain gain_of(const StackConfig& config) {
  return config.norm_gain == "zero-centered" ? BlockNorm::Gain::kOnePlusWeight : BlockNorm::Gain::kWeight;
}

struct StackPositions {
  const RelativeSchemes& relative;
  const SpanScheme& spans;
};
AttentionSetup attention_setup(const ModelConfig& config, const StackPlace& place, const StackPositions& positions,
                               Sublayer sublayer, int64_t layer) {
  const int64_t number = place.first_attention + place.attention_stride * layer;
  AttentionSetup setup;
  setup.place = {.width = config.dim_emb,
                 .heads = config.transformer_heads,
                 .heads_kv = config.transformer_heads_kv,
                 .head_width = config.transformer_dim_head,
                 .kind = kind_of(sublayer),
                 .layer = sublayer == Sublayer::kCross ? number + 1 : number,
                 .seed = place.attention_seed,
                 .has_qkv_bias = config.transformer_biases != "none",
                 .has_out_bias = config.transformer_biases == "all",
                 .routing = config};
  if (sublayer == Sublayer::kCross) return setup;
  const int64_t head_dim = head_dim_of(config);
  if (const auto rotary = rotary_of(config, sublayer, layer)) setup.place.rotary = angles_of(*rotary, head_dim);
  if (config.transformer_norm_qk == "rms")
    setup.place.qk_norm = {head_dim, BlockNorm::Kind::kRms, config.norm_epsilon > 0 ? config.norm_epsilon : 1e-6,
                           gain_of(config)};
  if (config.attention_scalar > 0)
    setup.place.query_factor = std::sqrt(static_cast<double>(head_dim) / config.attention_scalar);
  setup.place.relative = positions.relative;
  setup.place.spans = positions.spans;
  return setup;
}

FeedForward::Shape feed_forward_shape(const StackConfig& config) {
  const std::string& name = config.transformer_ffn_activation;
  ops::Activation activation = ops::Activation::kRelu;
  if (name == "gelu" || name == "geglu") activation = ops::Activation::kGelu;
  if (name == "gelu-tanh" || name == "geglu-tanh") activation = ops::Activation::kGeluTanh;
  if (name == "swiglu" || name == "swish") activation = ops::Activation::kSilu;
  return {config.dim_emb, config.transformer_dim_ffn, activation, has_gated_feed_forward(config),
          config.transformer_biases == "all"};
}

// The places of dropout, one use each: the embedding and the residuals of a stack, and the blocks inside its layers.
enum class DropoutPlace : uint64_t { kEmbedding, kResidual, kSelfAttention, kCrossAttention, kFeedForward };

struct StackDropout {
  const StackConfig& config;
  ForwardContext context;
  uint64_t stack;

  ops::DropoutOptions at(DropoutPlace place, double rate, uint64_t layer = 0) const {
    if (!context.training) return {};
    const uint64_t use = stack * 8 + static_cast<uint64_t>(place);
    return {rate, derive_seed(context.dropout_seed, use, layer)};
  }
  ops::DropoutOptions residual() const { return at(DropoutPlace::kResidual, config.transformer_dropout); }
  ops::DropoutOptions attention(DropoutPlace place, size_t layer) const {
    return at(place, config.transformer_dropout_attention, layer);
  }
  ops::DropoutOptions feed_forward(size_t layer) const {
    return at(DropoutPlace::kFeedForward, config.transformer_dropout_ffn, layer);
  }
};

}  // namespace

BlockNorm::Shape norm_shape(const StackConfig& config) {
  const bool is_rms = config.transformer_norm_kind == "rms";
  const double usual = is_rms ? 1e-6 : 1e-5;
  return {config.dim_emb, is_rms ? BlockNorm::Kind::kRms : BlockNorm::Kind::kLayer,
          config.norm_epsilon > 0 ? config.norm_epsilon : usual, gain_of(config)};
}

Layer::Layer(const StackConfig& config, const AttentionSetup* self, const AttentionSetup* cross,
             const InitScope& scope) {
  const auto norm = [&](const std::string& name) {
    return register_module(name, std::make_shared<BlockNorm>(norm_shape(config), scope / name));
  };
  const auto add_output_norm = [&](const char* block) {
    if (config.transformer_norm == "sandwich") output_norms_.push_back(norm(cat(block, "_output_norm")));
  };
  const auto attention = [&](const char* name, const AttentionSetup& setup) {
    return register_module(name, std::make_shared<Attention>(setup.place, setup.mechanism, scope / name));
  };
  if (self != nullptr) {
    self_attention = attention("self_attention", *self);
    first_norm_ = norm("self_attention_norm");
    add_output_norm("self_attention");
  } else {
    ssru = register_module("ssru", std::make_shared<Ssru>(config.dim_emb, scope / "ssru"));
    first_norm_ = norm("ssru_norm");
    add_output_norm("ssru");
  }
  if (cross != nullptr) {
    cross_attention = attention("cross_attention", *cross);
    cross_attention_norm_ = norm("cross_attention_norm");
    add_output_norm("cross_attention");
  }
  feed_forward = register_module("feed_forward",
                                 std::make_shared<FeedForward>(feed_forward_shape(config), scope / "feed_forward"));
  feed_forward_norm_ = norm("feed_forward_norm");
  add_output_norm("feed_forward");
}

std::vector<std::shared_ptr<BlockNorm>> Layer::norms() const {
  if (!cross_attention) return {first_norm_, feed_forward_norm_};
  return {first_norm_, cross_attention_norm_, feed_forward_norm_};
}

void apply_changes(std::span<const MechanismChange> changes) {
  for (const auto& [attention, mechanism] : changes) attention->require_parameters(mechanism);
  for (const auto& [attention, mechanism] : changes) attention->replace_mechanism(mechanism);
}

Stack::Stack(torch::nn::Module& owner, const ModelConfig& config, const StackPlace& place, const Mechanisms& mechanisms,
             const InitScope& scope)
    : config_(config),
      place_(place),
      relative_(place.recurrent ? PositionSchemes() : parse_positions(config.transformer_positions)) {
  relative_.register_shared(owner, config.transformer_heads, head_dim_of(config), scope);
  spans_.config = config;
  int64_t longest = 0;
  for (int64_t i = 0; i < place.depth && !place.recurrent; ++i)
    longest = std::max(longest, longest_span(mechanisms(place.self, i).training));
  spans_.register_table(owner, longest, head_dim_of(config), scope);
  const StackPositions positions = {relative_, spans_};
  auto list = owner.register_module("layers", std::make_shared<torch::nn::Module>());
  for (int64_t i = 0; i < place.depth; ++i) {
    AttentionSetup self = attention_setup(config, place, positions, place.self, i);
    if (!place.recurrent) self.mechanism = mechanisms(place.self, i);
    AttentionSetup cross = attention_setup(config, place, positions, Sublayer::kCross, i);
    if (place.cross) cross.mechanism = mechanisms(Sublayer::kCross, i);
    const std::string name = std::to_string(i);
    layers_.push_back(
        list->register_module(name, std::make_shared<Layer>(config, place.recurrent ? nullptr : &self,
                                                            place.cross ? &cross : nullptr, scope / name)));
    for (const auto& norm : layers_.back()->norms()) norms_.norms.push_back(norm);
    for (const auto& norm : layers_.back()->output_norms()) norms_.outputs.push_back(norm);
  }
  if (config.transformer_norm == "post") return;
  norms_.pre = true;
  norms_.norms.push_back(
      owner.register_module("norm", std::make_shared<BlockNorm>(norm_shape(config), scope / "norm")));
}

ops::DropoutOptions Stack::embedding_dropout(const ForwardContext& context) const {
  return StackDropout{config_, context, place_.dropout}.at(DropoutPlace::kEmbedding, fovea::embedding_dropout(config_));
}

at::Tensor Stack::run(const at::Tensor& embedded, const ops::DropoutOptions& residual,
                      const StackBlocks& blocks) const {
  ResidualStream stream(norms_, residual, ResidualStream::begin(embedded, norms_));
  for (size_t i = 0; i < layers_.size(); ++i) run_layer(i, blocks, stream);
  return stream.input();
}

std::vector<at::Tensor> Stack::first_layers(const StackInput& input, int64_t count,
                                            const ForwardContext& context) const {
  const StackDropout dropout{config_, context, place_.dropout};
  const StackBlocks blocks = full_blocks(input, nullptr, context);
  ResidualStream stream(norms_, dropout.residual(), ResidualStream::begin(input.embedded, norms_));
  std::vector<at::Tensor> outputs = {input.embedded};
  for (int64_t i = 0; i < count; ++i) {
    run_layer(static_cast<size_t>(i), blocks, stream);
    outputs.push_back(stream.input());
  }
  return outputs;
}

void Stack::run_layer(size_t layer, const StackBlocks& blocks, ResidualStream& stream) const {
  stream.add(blocks.first(layer, stream.input()));
  if (place_.cross) stream.add(blocks.cross_attention(layer, stream.input()));
  stream.add(blocks.feed_forward(layer, stream.input()));
}

at::Tensor Stack::operator()(const StackInput& input, const OtherSide* other, const ForwardContext& context) const {
  if (input.memory) input.memory->begin(input.offsets, layers_.size());
  if (context.recompute && at::GradMode::is_enabled()) return run_recomputed(input, other, context);
  const StackDropout dropout{config_, context, place_.dropout};
  return run(input.embedded, dropout.residual(), full_blocks(input, other, context));
}

StackBlocks Stack::full_blocks(const StackInput& input, const OtherSide* other, const ForwardContext& context) const {
  const StackDropout dropout{config_, context, place_.dropout};
  return {.first =
              [this, &input, dropout](size_t i, const at::Tensor& x) {
                if (place_.recurrent) return (*layers_[i]->ssru)(x, input.offsets);
                const Attention& attention = *layers_[i]->self_attention;
                const ops::DropoutOptions weights = dropout.attention(DropoutPlace::kSelfAttention, i);
                if (!input.memory)
                  return attention.attend(attention.project(x, input.positions), {input.offsets, input.offsets},
                                          weights, dropout.context);
                MemoryPass& memory = *input.memory;
                const PlacedTokens keys{memory.join(i, x), memory.key_positions()};
                return attention.attend(attention.project({x, memory.positions()}, keys),
                                        {input.offsets, memory.key_offsets()}, weights, dropout.context);
              },
          .cross_attention =
              [this, &input, other, dropout](size_t i, const at::Tensor& x) {
                const Attention& attention = *layers_[i]->cross_attention;
                Projected projected = attention.project_memory(other->encoded);
                projected.q = attention.project_query(x);
                if (attention.reads_input()) projected.input = x;
                return attention.attend(projected, {input.offsets, other->offsets},
                                        dropout.attention(DropoutPlace::kCrossAttention, i), dropout.context);
              },
          .feed_forward = [this, dropout](
                              size_t i,
                              const at::Tensor& x) { return (*layers_[i]->feed_forward)(x, dropout.feed_forward(i)); }};
}

at::Tensor Stack::run_recomputed(const StackInput& input, const OtherSide* other, const ForwardContext& context) const {
  // Backward needs this stack and this pass, which may be gone by then: these are handles, no copies of weights.
  const auto stack = std::make_shared<const Stack>(*this);
  const StackInput places{{}, input.offsets, input.positions, input.memory};
  const at::Tensor other_offsets = other == nullptr ? at::Tensor() : other->offsets;
  ResidualStream::State state = ResidualStream::begin(input.embedded, norms_);
  const bool pre = norms_.pre;
  // Figures and sums are taken once: when backward computes a layer again, there is nobody left to take them.
  const auto extras = std::make_shared<PassExtras*>(context.extras);
  const bool has_extras = context.extras != nullptr;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const size_t block = state.block;
    const Recomputable compute = [=](const std::vector<at::Tensor>& x) -> std::vector<at::Tensor> {
      const OtherSide side{x.back(), other_offsets};
      PassExtras own;
      ForwardContext inner = context;
      inner.extras = has_extras ? &own : nullptr;
      const StackDropout dropout{stack->config_, inner, stack->place_.dropout};
      ResidualStream stream(stack->norms_, dropout.residual(), {x[0], x[pre ? 1 : 0], block});
      stack->run_layer(i, stack->full_blocks(places, &side, inner), stream);
      if (*extras != nullptr) (*extras)->add_figures(own);
      std::vector<at::Tensor> outputs = {stream.input()};
      if (pre) outputs.insert(outputs.begin(), stream.state().residual);
      if (own.loss().defined()) outputs.push_back(own.loss());
      return outputs;
    };
    std::vector<at::Tensor> inputs = {state.residual};
    if (pre) inputs.push_back(state.input);
    if (other != nullptr) inputs.push_back(other->encoded);
    const std::vector<at::Tensor> outputs = recomputed(compute, inputs, parameters_of_layer(i));
    state = {outputs[0], outputs[pre ? 1 : 0], block + (place_.cross ? 3 : 2)};
    if (outputs.size() > (pre ? 2U : 1U)) context.extras->add_loss(outputs.back());
  }
  *extras = nullptr;
  return state.input;
}

std::vector<at::Tensor> Stack::parameters_of_layer(size_t layer) const {
  const Layer& of = *layers_[layer];
  const size_t blocks = of.cross_attention ? 3 : 2, first = layer * blocks + (norms_.pre ? 1 : 0);
  std::vector<at::Tensor> all;
  const auto add = [&](const torch::nn::Module& module) {
    for (const at::Tensor& parameter : module.parameters()) all.push_back(parameter);
  };
  place_.recurrent ? add(*of.ssru) : add(*of.self_attention);
  if (of.cross_attention) add(*of.cross_attention);
  add(*of.feed_forward);
  for (size_t norm = first; norm < first + blocks; ++norm) add(*norms_.norms[norm]);
  for (const auto& norm : of.output_norms()) add(*norm);
  for (const at::Tensor& shared : {relative_.content_bias, relative_.position_bias, spans_.distances}) {
    if (shared.defined()) all.push_back(shared);
  }
  return all;
}

std::shared_ptr<const PrepackedStack> Stack::prepacked(ops::PrepackedLayer::Format format) const {
  const c10::InferenceMode guard;
  auto packed = std::make_shared<PrepackedStack>();
  for (const auto& layer : layers_) {
    packed->layers.push_back({.self_attention = {},
                              .cross_attention = {},
                              .ssru = {},
                              .feed_forward = layer->feed_forward->prepacked(format)});
    if (layer->ssru) packed->layers.back().ssru = layer->ssru->prepacked(format);
    if (layer->self_attention) packed->layers.back().self_attention = layer->self_attention->prepacked(format);
    if (place_.cross) packed->layers.back().cross_attention = layer->cross_attention->prepacked(format);
  }
  return packed;
}

std::vector<MechanismChange> Stack::changes(const Mechanisms& mechanisms) const {
  std::vector<MechanismChange> all;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const auto number = static_cast<int64_t>(i);
    if (!place_.recurrent) all.push_back({layers_[i]->self_attention.get(), mechanisms(place_.self, number)});
    if (place_.cross) all.push_back({layers_[i]->cross_attention.get(), mechanisms(Sublayer::kCross, number)});
  }
  return all;
}

}  // namespace fovea::nn
