#include "fovea/train/train.h"

#include <string>
#include <vector>

#include "fovea/app/logging.h"
#include "fovea/app/options.h"
#include "fovea/decode/translator.h"

namespace fovea::app {
namespace {

// Validation's translations by the live model: a translator for each, as it lays out the weights of when it is made.
std::vector<std::string> translate(const TrainConfig& config, const train::TranslateRequest& request) {
  DecodeConfig decode;
  decode.beam_size = config.valid_beam_size;
  decode.max_length_factor = config.valid_max_length_factor;
  decode.mini_batch_words = config.valid_mini_batch_words;
  decode.mini_batch = config.valid_mini_batch_words;
  decode::Translator translator({request.model, text::Vocab::from_bytes(request.source_vocab.bytes(), "source"),
                                 text::Vocab::from_bytes(request.target_vocab.bytes(), "target")},
                                decode::translator_options(decode));
  std::vector<std::string> texts;
  for (const std::vector<decode::Translation>& best : translator.translate(request.sources))
    texts.push_back(best.front().text);
  return texts;
}

}  // namespace

int run_train(const std::vector<std::string>& arguments) {
  TrainConfig config;
  ModelConfig model;
  Options options("train", "Trains a translation model; the same command continues a run that was stopped.",
                  "--model DIR --train-sets A B --vocabs V V [--valid-sets C D] [--attention SPEC]");
  options.add(config, "Training");
  options.add(model, "Model");
  options.epilogue(
      "  fovea train --model run --train-sets train.en train.de --vocabs joint.spm joint.spm \\\n"
      "      --valid-sets valid.en valid.de --tied-embeddings-all --attention 'topk(8)' --after-batches 20000");
  if (!options.parse(arguments)) return 0;
  validate(config);
  validate(model);
  configure_log(config, {config.train_sets, config.valid_sets, config.vocabs});
  train::run_training(config, model,
                      {.translate = [&](const train::TranslateRequest& request) { return translate(config, request); },
                       .on_update = {}});
  return 0;
}

}  // namespace fovea::app
