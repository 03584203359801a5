#include "fovea/decode/load_model.h"

#include <ATen/Parallel.h>

#include <optional>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/nn/device.h"

namespace fovea::decode {
namespace {

struct VocabSource {
  std::string side;  // "source"
  std::string path;  // empty: `bytes` of the checkpoint
  const std::string& bytes;
  int64_t expected;
};

text::Vocab load_vocab(const VocabSource& from, const std::string& folder) {
  const std::string name = from.path.empty() ? cat(folder, "/", from.side, ".spm") : from.path;
  text::Vocab vocab = from.path.empty() ? text::Vocab::from_bytes(from.bytes, name) : text::Vocab::load(from.path);
  if (vocab.size() != from.expected) {
    throw Error(cat(name, ": the ", from.side, " vocabulary has ", vocab.size(), " pieces, but the model in ", folder,
                    " was trained with ", from.expected, "; give the vocabulary of its training"));
  }
  return vocab;
}

}  // namespace

LoadedModel load_model(const ModelChoice& choice) {
  if (choice.cpu_threads > 0) at::set_num_threads(static_cast<int>(choice.cpu_threads));
  const at::Device device = nn::parse_device(choice.devices);
  const nn::Checkpoint checkpoint = nn::load_checkpoint(choice.folder, nn::Load::kModel);
  const bool given = !choice.vocabs.empty();
  text::Vocab source =
      load_vocab({"source", given ? choice.vocabs[0] : "", checkpoint.source_vocab, checkpoint.config.dim_vocabs.at(0)},
                 choice.folder);
  text::Vocab target =
      load_vocab({"target", given ? choice.vocabs[1] : "", checkpoint.target_vocab, checkpoint.config.dim_vocabs.at(1)},
                 choice.folder);
  nn::Transformer model(checkpoint.config, std::nullopt);
  nn::load_parameters(*model, checkpoint.model, choice.folder);
  if (!choice.attention.empty()) model->override_attention(choice.attention);
  model->to(device, choice.precision == "bfloat16" ? at::kBFloat16 : at::kFloat);
  model->eval();
  return {model, std::move(source), std::move(target)};
}

}  // namespace fovea::decode
