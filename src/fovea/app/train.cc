#include "fovea/train/train.h"

#include <filesystem>
#include <string>
#include <vector>

#include "fovea/app/logging.h"
#include "fovea/app/options.h"
#include "fovea/base/strings.h"
#include "fovea/decode/translator.h"
#include "fovea/nn/paths.h"

namespace fovea::app {
namespace fs = std::filesystem;
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

// Where the log is to be in the run's folder, which the first run makes after the log's first lines.
void make_folder_of_log(const TrainConfig& config) {
  if (config.log.empty()) return;
  const fs::path run = nn::resolved_path(config.model, "--model");
  const fs::path folder = nn::resolved_path(config.log, "--log").parent_path();
  const fs::path inside = folder.lexically_relative(run);
  if (inside.empty() || *inside.begin() == "..") return;
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) throw Error(cat("--log: cannot make the folder '", folder.string(), "': ", failed.message()));
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
  make_folder_of_log(config);
  configure_log(config, {config.train_sets, config.valid_sets, config.vocabs});
  train::run_training(config, model,
                      {.translate = [&](const train::TranslateRequest& request) { return translate(config, request); },
                       .on_update = {}});
  return 0;
}

}  // namespace fovea::app
