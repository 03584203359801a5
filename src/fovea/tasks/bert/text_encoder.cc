#include "fovea/tasks/bert/text_encoder.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <utility>

#include "fovea/base/empty_line.h"
#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/models/scorer.h"
#include "fovea/models/tagging/config.h"
#include "fovea/models/translation/loaded_model.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/nn/device.h"
#include "fovea/nn/model.h"

namespace fovea::bert {
namespace {

TextEncoder encoder_only(BertModel bert, const at::Device& device, const std::string& origin) {
  nn::Model model(bert.config, std::nullopt);
  nn::load_parameters(*model, bert.weights, origin);
  nn::move_module(*model, device, at::kFloat);
  model->eval();
  const int64_t most = has_learned_positions(bert.config) ? bert.config.max_positions : 0;
  const auto vocab = std::make_shared<const text::EncoderVocab>(std::move(bert.vocab));
  return {.model = model,
          .encode = [vocab, most](std::string_view line) { return vocab->sequence(vocab->encode(line), most); },
          .piece = [vocab](int64_t token) { return vocab->piece(token); },
          .is_special = [vocab](int64_t token) { return vocab->is_special(token); }};
}

// The source's side of a translation model.
TextEncoder translation_encoder(translation::LoadedModel loaded) {
  const auto vocab = std::make_shared<const text::Vocab>(std::move(loaded.source));
  const auto room = static_cast<size_t>(longest_text(loaded.model->config(), 1 << 24));
  return {.model = loaded.model,
          .encode =
              [vocab, room](std::string_view line) {
                std::vector<int64_t> tokens = vocab->encode(line);
                tokens.resize(std::min(tokens.size(), room));
                tokens.push_back(vocab->eos());
                return tokens;
              },
          .piece = [vocab](int64_t token) { return vocab->piece(token); },
          .is_special = [vocab](int64_t token) { return token == vocab->eos(); }};
}

TextEncoder load_any(const TrainedModelOptions& options, const std::string& option) {
  if (is_hugging_face_folder(options.model)) {
    nn::set_cpu_threads(options.cpu_threads);
    return encoder_only(read_bert(options.model), nn::parse_device(options.devices), options.model);
  }
  const models::TrainedModel trained(options, {kTask, tagging::kTask, translation::kTask}, option);
  if (trained.task() == translation::kTask) return translation_encoder(translation::load_model(trained));
  BertModel encoder = encoder_of_checkpoint(trained);
  if (uses_clauses(encoder.config))
    throw Error(
        cat(option, ": the encoder of '", trained.folder(),
            "' attends within clauses of tagged words, which a line of text does not have; expected an encoder ",
            "with other mechanisms"));
  return encoder_only(std::move(encoder), trained.device(), trained.path(nn::kModelFile));
}

// The model reads nothing of an empty line, whatever marks it consists of.
auto without_unseen(std::function<std::vector<int64_t>(std::string_view)> encode) {
  return [encode = std::move(encode)](std::string_view line) { return encode(is_empty_line(line) ? "" : line); };
}

}  // namespace

std::vector<at::Tensor> TextEncoder::layers(std::span<const models::Sentence* const> sequences, int64_t count) const {
  const c10::InferenceMode guard;
  nn::Model shared = model;  // the same weights
  const models::PackedSentences in = models::pack(sequences, shared->parameters().front().device());
  return shared->first_layers({in.tokens, in.offsets}, count);
}

BertModel encoder_of_checkpoint(const models::TrainedModel& trained) {
  BertModel model{.config = {},
                  .vocab = text::EncoderVocab::from_files(trained.identity().files, trained.folder()),
                  .weights = {},
                  .unused = {}};
  const nn::NamedTensors& weights = trained.checkpoint().model;
  if (trained.task() == kTask) {
    model.config = trained.config<EncoderConfig>();
    model.weights = weights;
  } else {
    model.config = trained.config<tagging::TaggingConfig>();
    const std::string prefix = "encoder.";
    for (const auto& [name, tensor] : weights) {
      if (name.starts_with(prefix)) model.weights[name.substr(prefix.size())] = tensor;
    }
  }
  trained.require_vocabulary(model.config.dim_vocabs, model.vocab.size(), "the size of the vocabulary");
  nn::tensor_of(model.weights, "embeddings.weight", {model.vocab.size(), model.config.dim_emb},
                trained.path(nn::kModelFile));
  return model;
}

TextEncoder load_encoder(const std::string& path, const MachineOptions& machine, const std::string& option) {
  TrainedModelOptions options;
  static_cast<MachineOptions&>(options) = machine;
  options.model = path;
  TextEncoder encoder = load_any(options, option);
  std::filesystem::path folder = path;
  if (folder.filename().empty()) folder = folder.parent_path();
  encoder.name = folder.filename();
  encoder.encode = without_unseen(std::move(encoder.encode));
  return encoder;
}

}  // namespace fovea::bert
