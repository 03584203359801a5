#include "fovea/decode/load_model.h"

#include <ATen/Parallel.h>

#include <optional>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/nn/device.h"

namespace fovea::decode {
namespace {

struct VocabSource {
  std::string side;  // "source"
  std::string file;  // its name in the checkpoint
  std::string path;  // empty: `bytes` of the checkpoint
  const std::string& bytes;
  int64_t expected;
};

text::Vocab load_vocab(const VocabSource& from, const std::string& folder) {
  const std::string name = from.path.empty() ? cat(folder, "/", from.file) : from.path;
  text::Vocab vocab = from.path.empty() ? text::Vocab::from_bytes(from.bytes, name) : text::Vocab::load(from.path);
  if (vocab.size() != from.expected) {
    throw Error(cat(name, ": the ", from.side, " vocabulary has ", vocab.size(), " pieces, but the model in ", folder,
                    " was trained with ", from.expected, "; give the vocabulary of its training"));
  }
  if (!from.bytes.empty() && vocab.bytes() != from.bytes) {
    throw Error(cat(name, ": is not the ", from.side, " vocabulary of the model in ", folder,
                    "; leave --vocabs out, the model holds its own"));
  }
  return vocab;
}

// Before a model of the configuration's sizes takes memory: whether the tensors that each of them rules agree.
void check_sizes(const nn::Checkpoint& checkpoint, const std::string& source) {
  const ModelConfig& config = checkpoint.config;
  for (const auto& [stack, depth] : {std::pair("encoder", config.enc_depth), std::pair("decoder", config.dec_depth)}) {
    nn::tensor_of(checkpoint.model, cat(stack, ".layers.", depth - 1, ".feed_forward.in.weight"),
                  {config.transformer_dim_ffn, config.dim_emb}, source);
    if (config.transformer_positions == "learned")
      nn::tensor_of(checkpoint.model, cat(stack, ".positions.weight"), {config.max_positions, config.dim_emb}, source);
  }
}

}  // namespace

LoadedModel load_model(const ModelOptions& options) {
  if (options.cpu_threads > 0) at::set_num_threads(static_cast<int>(options.cpu_threads));
  const at::Device device = nn::parse_device(options.devices);
  const nn::Checkpoint checkpoint = nn::load_checkpoint(options.model, nn::Load::kModel);
  const std::string folder = checkpoint.folder.string(), weights = cat(folder, "/", nn::kModelFile);
  const bool given = !options.vocabs.empty();
  text::Vocab source = load_vocab({"source", nn::kSourceVocabFile, given ? options.vocabs[0] : "",
                                   checkpoint.source_vocab, checkpoint.config.dim_vocabs.at(0)},
                                  folder);
  text::Vocab target = load_vocab({"target", nn::kTargetVocabFile, given ? options.vocabs[1] : "",
                                   checkpoint.target_vocab, checkpoint.config.dim_vocabs.at(1)},
                                  folder);
  check_sizes(checkpoint, weights);
  nn::Transformer model(checkpoint.config, std::nullopt);
  nn::load_parameters(*model, checkpoint.model, weights);
  const AttentionOverride& mechanisms = options;
  if (mechanisms != AttentionOverride{}) model->override_attention(mechanisms);
  model->to(device, options.precision == "bfloat16" ? at::kBFloat16 : at::kFloat);
  model->eval();
  return {model, std::move(source), std::move(target)};
}

}  // namespace fovea::decode
