#include "fovea/tasks/bert/text_encoder.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <utility>

#include "fovea/base/empty_line.h"
#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/models/source_clauses.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/nn/device.h"
#include "fovea/nn/encoder_only.h"
#include "fovea/nn/index_tensor.h"
#include "fovea/nn/transformer.h"
#include "fovea/text/clause_flags.h"

namespace fovea::bert {
namespace {

constexpr const char* kTaggingTask = "tagging";
constexpr const char* kTranslationTask = "translation";
constexpr const char* kSourceFile = "source.spm";

// A tagger's configuration, which has fields of its own.
struct TaggerEncoderConfig : EncoderConfig {
  int64_t clause_tag_column = 0;
  std::string label_dialect, label_form;
  static constexpr auto fields() {
    return std::tuple_cat(EncoderConfig::fields(),
                          std::tuple(field("clause-tag-column", &TaggerEncoderConfig::clause_tag_column, ""),
                                     field("label-dialect", &TaggerEncoderConfig::label_dialect, ""),
                                     field("label-form", &TaggerEncoderConfig::label_form, "")));
  }
};

struct PackedSequences {
  at::Tensor tokens, offsets;
};
PackedSequences packed_sequences(const std::vector<std::vector<int64_t>>& sequences, const at::Device& device) {
  std::vector<int64_t> tokens, offsets = {0};
  for (const std::vector<int64_t>& sequence : sequences) {
    tokens.insert(tokens.end(), sequence.begin(), sequence.end());
    offsets.push_back(std::ssize(tokens));
  }
  return {nn::index_tensor(std::move(tokens)).to(device), nn::index_tensor(std::move(offsets))};
}

TextEncoder encoder_only(BertModel bert, const at::Device& device, const std::string& origin) {
  nn::EncoderOnly model(bert.config, std::nullopt);
  nn::load_parameters(*model, bert.weights, origin);
  nn::move_module(*model, device, at::kFloat);
  model->eval();
  const int64_t most = has_learned_positions(bert.config) ? bert.config.max_positions : 0;
  const auto vocab = std::make_shared<const text::EncoderVocab>(std::move(bert.vocab));
  return {.name = {},
          .depth = bert.config.enc_depth,
          .encode = [vocab, most](std::string_view line) { return vocab->sequence(vocab->encode(line), most); },
          .piece = [vocab](int64_t token) { return vocab->piece(token); },
          .is_special = [vocab](int64_t token) { return vocab->is_special(token); },
          .layers =
              [model, device](const std::vector<std::vector<int64_t>>& sequences, int64_t count) mutable {
                const c10::InferenceMode guard;
                const PackedSequences in = packed_sequences(sequences, device);
                return model->first_layers({in.tokens, in.offsets}, count);
              }};
}

TextEncoder translation_encoder(const nn::Checkpoint& checkpoint, const at::Device& device) {
  const auto config = nn::config_of<ModelConfig>(checkpoint.identity, checkpoint.folder / nn::kConfigFile);
  const auto file = checkpoint.identity.files.find(kSourceFile);
  if (file == checkpoint.identity.files.end())
    throw Error(cat(checkpoint.folder.string(), ": damaged: the file ", kSourceFile, " is missing"));
  text::Vocab source = text::Vocab::from_bytes(file->second, kSourceFile);
  if (config.clause_flags)
    text::add_clause_flags(source, models::clause_dictionary_of(checkpoint.identity), kSourceFile);
  const auto vocab = std::make_shared<const text::Vocab>(std::move(source));
  if (config.dim_vocabs.front() != vocab->size())
    throw Error(cat((checkpoint.folder / nn::kConfigFile).string(), ": dim-vocabs: expected ", vocab->size(),
                    ", the size of ", kSourceFile));
  nn::Transformer model(config, std::nullopt);
  nn::load_parameters(*model, checkpoint.model, checkpoint.folder / nn::kModelFile);
  nn::move_module(*model, device, at::kFloat);
  if (uses_clauses(config))
    model->split_clauses_by(models::clause_splitter(*vocab, models::clause_source_of(checkpoint.identity)));
  model->eval();
  const auto room = static_cast<size_t>(longest_text(config, 1 << 24));
  return {.name = {},
          .depth = config.enc_depth,
          .encode =
              [vocab, room](std::string_view line) {
                std::vector<int64_t> tokens = vocab->encode(line);
                tokens.resize(std::min(tokens.size(), room));
                tokens.push_back(vocab->eos());
                return tokens;
              },
          .piece = [vocab](int64_t token) { return vocab->piece(token); },
          .is_special = [vocab](int64_t token) { return token == vocab->eos(); },
          .layers =
              [model, device](const std::vector<std::vector<int64_t>>& sequences, int64_t count) mutable {
                const c10::InferenceMode guard;
                const PackedSequences in = packed_sequences(sequences, device);
                return model->encoder_layers(in.tokens, in.offsets, count);
              }};
}

TextEncoder load_any(const std::string& path, const at::Device& device, const std::string& option) {
  if (is_hugging_face_folder(path)) return encoder_only(read_bert(path), device, path);
  const nn::Checkpoint checkpoint = nn::load_checkpoint(path, nn::Load::kModel, option);
  const std::string& task = checkpoint.identity.task;
  if (task == kTranslationTask) return translation_encoder(checkpoint, device);
  if (task != kTask && task != kTaggingTask)
    throw Error(cat(option, ": '", checkpoint.folder.string(), "' is a model of the task ", task,
                    "; expected one with an encoder of text, of the tasks ", kTask, ", ", kTaggingTask, ", ",
                    kTranslationTask));
  BertModel encoder = encoder_of_checkpoint(checkpoint, option);
  if (uses_clauses(encoder.config))
    throw Error(
        cat(option, ": the encoder of '", checkpoint.folder.string(),
            "' attends within clauses of tagged words, which a line of text does not have; expected an encoder ",
            "with other mechanisms"));
  return encoder_only(std::move(encoder), device, checkpoint.folder / nn::kModelFile);
}

// The model reads nothing of an empty line, whatever marks it consists of.
auto without_unseen(std::function<std::vector<int64_t>(std::string_view)> encode) {
  return [encode = std::move(encode)](std::string_view line) { return encode(is_empty_line(line) ? "" : line); };
}

}  // namespace

BertModel encoder_of_checkpoint(const nn::Checkpoint& checkpoint, const std::string& option) {
  const std::string& task = checkpoint.identity.task;
  const std::string origin = checkpoint.folder / nn::kConfigFile;
  if (task != kTask && task != kTaggingTask)
    throw Error(cat(option, ": '", checkpoint.folder.string(), "' is a model of the task ", task,
                    "; expected one with an encoder of its own, of the tasks ", kTask, ", ", kTaggingTask));
  BertModel model{.config = {},
                  .vocab = text::EncoderVocab::from_files(checkpoint.identity.files, checkpoint.folder.string()),
                  .weights = {},
                  .unused = {}};
  if (task == kTask) {
    model.config = nn::config_of<EncoderConfig>(checkpoint.identity, origin);
    model.weights = checkpoint.model;
  } else {
    model.config = nn::config_of<TaggerEncoderConfig>(checkpoint.identity, origin);
    const std::string prefix = "encoder.";
    for (const auto& [name, tensor] : checkpoint.model) {
      if (name.starts_with(prefix)) model.weights[name.substr(prefix.size())] = tensor;
    }
  }
  if (model.config.dim_vocabs != std::vector<int64_t>{model.vocab.size()})
    throw Error(cat(origin, ": dim-vocabs: expected [", model.vocab.size(), "], the size of the vocabulary"));
  nn::tensor_of(model.weights, "embeddings.weight", {model.vocab.size(), model.config.dim_emb},
                checkpoint.folder / nn::kModelFile);
  return model;
}

TextEncoder load_encoder(const std::string& path, const MachineOptions& machine, const std::string& option) {
  nn::set_cpu_threads(machine.cpu_threads);
  const at::Device device = nn::parse_device(machine.devices);
  TextEncoder encoder = load_any(path, device, option);
  std::filesystem::path folder = path;
  if (folder.filename().empty()) folder = folder.parent_path();
  encoder.name = folder.filename();
  encoder.encode = without_unseen(std::move(encoder.encode));
  return encoder;
}

}  // namespace fovea::bert
