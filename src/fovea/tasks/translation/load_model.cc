#include "fovea/tasks/translation/load_model.h"

#include <optional>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/models/open_checkpoint.h"
#include "fovea/models/source_clauses.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/nn/device.h"
#include "fovea/tasks/translation/task.h"
#include "fovea/text/clause_flags.h"

namespace fovea::translation {
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

ModelConfig read_config(const nn::Checkpoint& checkpoint) {
  const std::string origin = checkpoint.folder / nn::kConfigFile;
  ModelConfig config = nn::config_of<ModelConfig>(checkpoint.identity, origin);
  std::vector<std::string> sizes;
  for (const int64_t size : config.dim_vocabs) sizes.push_back(std::to_string(size));
  if (sizes.size() != 2 || config.dim_vocabs[0] < 1 || config.dim_vocabs[1] < 1) {
    throw Error(cat(origin, ": dim-vocabs: got [", join(sizes, ", "),
                    "]; expected the sizes of both vocabularies, each at least 1"));
  }
  return config;
}

const std::string& file_of(const nn::Checkpoint& checkpoint, const std::string& name) {
  const auto found = checkpoint.identity.files.find(name);
  if (found == checkpoint.identity.files.end())
    throw Error(cat(checkpoint.folder.string(), ": damaged: it has no ", name));
  return found->second;
}

}  // namespace

LoadedModel load_model(const ModelOptions& options, std::string_view option) {
  nn::set_cpu_threads(options.cpu_threads);
  const at::Device device = nn::parse_device(options.devices);
  const nn::Checkpoint checkpoint = models::open_checkpoint(options.model, {kTask}, option);
  const std::string folder = checkpoint.folder.string(), weights = cat(folder, "/", nn::kModelFile);
  const ModelConfig config = read_config(checkpoint);
  const bool given = !options.vocabs.empty();
  text::Vocab source = load_vocab({"source", kSourceVocabFile, given ? options.vocabs[0] : "",
                                   file_of(checkpoint, kSourceVocabFile), config.dim_vocabs.at(0)},
                                  folder);
  text::Vocab target = load_vocab({"target", kTargetVocabFile, given ? options.vocabs[1] : "",
                                   file_of(checkpoint, kTargetVocabFile), config.dim_vocabs.at(1)},
                                  folder);
  nn::Transformer model(config, std::nullopt);
  nn::load_parameters(*model, checkpoint.model, weights);
  const AttentionOverride& mechanisms = options;
  if (mechanisms != AttentionOverride{}) model->override_attention(mechanisms);
  if (config.clause_flags)
    text::add_clause_flags(source, models::clause_dictionary_of(checkpoint.identity),
                           cat(folder, "/", kSourceVocabFile));
  if (uses_clauses(model->config()))
    model->split_clauses_by(models::clause_splitter(source, models::clause_source_of(checkpoint.identity)));
  nn::move_module(*model, device, options.precision == "bfloat16" ? at::kBFloat16 : at::kFloat);
  model->eval();
  return {model, std::move(source), std::move(target)};
}

}  // namespace fovea::translation
