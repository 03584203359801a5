#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

// The families of decoder-only models that `transformers` computes as we do.
namespace fovea::language {

// A window may be in no layer, in all of them, or in some, which are said layer by layer. A family of some windows also
// says by which number scores are divided (--attention-scalar).
enum class Windows : uint8_t { kNone, kAll, kSome };

// Values of our options, by the words of --help; the defaults are those of Llama.
struct DecoderFamily {
  std::string_view type;         // model_type in config.json
  std::string_view name;         // "Llama" of LlamaForCausalLM
  int64_t usual_head = 0;        // the width of a head if the file does not say it; 0: the width through the heads
  bool is_usually_tied = false;  // if the file does not say it
  std::string_view norm = "pre", norm_gain = "plain", norm_qk = "none", biases = "none", embedding_scale = "one";
  Windows windows = Windows::kNone;
  int64_t usual_pattern = 0;  // kSome: if the file does not say the layers, each layer of this number has no window
  bool has_local_positions = false;  // layers with a window have positions of their own
  bool has_softcaps = false;         // of scores (softcap(c)) and of logits (--logit-softcap)
};

// Mistral has the computation of Llama, and a window; Qwen2 has biases of queries, keys and values; Qwen3 has norms of
// queries and keys.
inline constexpr std::array kDecoderFamilies = {
    DecoderFamily{.type = "llama", .name = "Llama"},
    DecoderFamily{.type = "mistral", .name = "Mistral", .windows = Windows::kAll},
    DecoderFamily{.type = "qwen2", .name = "Qwen2", .biases = "qkv"},
    DecoderFamily{.type = "qwen3", .name = "Qwen3", .usual_head = 128, .norm_qk = "rms"},
    DecoderFamily{.type = "gemma",
                  .name = "Gemma",
                  .usual_head = 256,
                  .is_usually_tied = true,
                  .norm_gain = "zero-centered",
                  .embedding_scale = "root"},
    DecoderFamily{.type = "gemma2",
                  .name = "Gemma2",
                  .usual_head = 256,
                  .is_usually_tied = true,
                  .norm = "sandwich",
                  .norm_gain = "zero-centered",
                  .embedding_scale = "root",
                  .windows = Windows::kSome,
                  .usual_pattern = 2,
                  .has_softcaps = true},
    DecoderFamily{.type = "gemma3_text",
                  .name = "Gemma3",
                  .usual_head = 256,
                  .is_usually_tied = true,
                  .norm = "sandwich",
                  .norm_gain = "zero-centered",
                  .norm_qk = "rms",
                  .embedding_scale = "root",
                  .windows = Windows::kSome,
                  .usual_pattern = 6,
                  .has_local_positions = true},
};

// Activations of gated feed-forward blocks: ours, and theirs.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kDecoderActivations = {
    {{"swiglu", "silu"}, {"geglu", "gelu"}, {"geglu-tanh", "gelu_pytorch_tanh"}}};

// The file's name of the activation.
inline constexpr const char* activation_field(const DecoderFamily& family) {
  return family.windows == Windows::kSome ? "hidden_activation" : "hidden_act";
}

// Gemma 2's soft caps, where its file has none.
inline constexpr double kScoreCap = 50, kLogitCap = 30;

// The bases of Gemma 3's positions, where its file has none: of layers with full attention, and with a window.
inline constexpr double kGlobalBase = 1e6, kLocalBase = 1e4;

}  // namespace fovea::language
