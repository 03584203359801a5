#include "fovea/tasks/bert/text_encoder.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <utility>

#include "fovea/base/empty_line.h"
#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/models/scorer.h"
#include "fovea/models/tagging/loaded_tagger.h"
#include "fovea/models/translation/loaded_model.h"
#include "fovea/nn/model.h"

namespace fovea::bert {
namespace {

TextEncoder encoder_only(LoadedEncoder loaded) {
  const int64_t most = has_learned_positions(loaded.config) ? loaded.config.max_positions : 0;
  const auto vocab = std::make_shared<const text::EncoderVocab>(std::move(loaded.vocab));
  return {.model = loaded.model,
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

models::TrainedModel open_encoder(const TrainedModelOptions& options, const std::string& option) {
  if (!is_hugging_face_folder(options.model)) return {options, {kTask, tagging::kTask, translation::kTask}, option};
  nn::Checkpoint checkpoint = checkpoint_of(read_bert(options.model));
  checkpoint.folder = options.model;
  return {std::move(checkpoint), options};
}

TextEncoder load_any(const TrainedModelOptions& options, const std::string& option) {
  const models::TrainedModel trained = open_encoder(options, option);
  if (trained.task() == translation::kTask) return translation_encoder(translation::load_model(trained));
  LoadedEncoder encoder = load_encoder_only(trained);
  if (uses_clauses(encoder.config))
    throw Error(
        cat(option, ": the encoder of '", trained.folder(),
            "' attends within clauses of tagged words, which a line of text does not have; expected an encoder ",
            "with other mechanisms"));
  return encoder_only(std::move(encoder));
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

LoadedEncoder load_encoder_only(const models::TrainedModel& trained) {
  if (trained.task() == tagging::kTask) {
    tagging::LoadedTagger tagger = tagging::load_tagger(trained);
    return {tagger.model->encoder, tagger.config, std::move(tagger.vocab)};
  }
  const auto config = trained.config<EncoderConfig>();
  auto vocab = text::EncoderVocab::from_files(trained.identity().files, trained.folder());
  trained.require_vocabulary(config.dim_vocabs, vocab.size(), "the size of the vocabulary");
  return {trained.with_weights(nn::Model(config, std::nullopt)), config, std::move(vocab)};
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
