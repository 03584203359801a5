#include "fovea/tasks/language/task.h"

#include <torch/nn/module.h>

#include <utility>

#include "fovea/base/choices.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/decode/whole_segments.h"
#include "fovea/nn/device.h"
#include "fovea/nn/index_tensor.h"
#include "fovea/ops/step.h"
#include "fovea/tasks/encoding_threads.h"
#include "fovea/tasks/language/score_text.h"

namespace fovea::language {
namespace {

LanguageConfig with_vocabulary(LanguageConfig config, const text::Units& units) {
  const int64_t size = units.size(), wanted = config.dim_vocabs.empty() ? 0 : config.dim_vocabs.front();
  if (wanted != 0 && wanted != size)
    throw Error(cat("--dim-vocabs: got ", wanted, ", but the vocabulary of --vocabs has ", size,
                    " units; leave the option out, its size is the vocabulary's"));
  config.dim_vocabs = {size};
  return config;
}

data::TokenText load_text(const std::vector<std::string>& files, const text::Units& units, const LanguageConfig& config,
                          const data::TokenTextOptions& options) {
  if (files.empty()) return {};
  data::TokenTextOptions complete = options;
  complete.documents = parse_choice<data::Documents>(data::kDocumentsNames, config.documents, "--documents: got");
  return data::load_token_text(files, units, complete);
}

std::string fingerprint_of(const data::TokenText& text, const Options& options, const LanguageConfig& config,
                           const data::SegmentOptions& segments) {
  return checksum(cat(data::fingerprint(text), " ", segments.mini_batch, " ", segments.shards, " ",
                      segments.segment_length, " ", options.order, " ", config.documents, " ", segments.seed));
}

}  // namespace

LanguageTask::LanguageTask(const TrainConfig& config, Options options, const LanguageConfig& model,
                           int64_t batches_an_update)
    : options_(std::move(options)),
      device_(nn::parse_device(config.devices)),
      units_(text::Units::load(options_.vocabs)),
      config_(with_vocabulary(model, units_)),
      identity_(nn::identity_of(kTask, config_, {{units_.file_name(), units_.contents()}})),
      train_(load_text(options_.train_sets, units_, config_,
                       {.threads = tasks::encoding_threads(config), .option = "--train-sets"})),
      valid_(load_text(options_.valid_sets, units_, config_,
                       {.threads = tasks::encoding_threads(config), .option = "--valid-sets"})),
      segments_{.order = parse_choice<data::SegmentOrder>(data::kSegmentOrderNames, options_.order, "--order: got"),
                .mini_batch = options_.mini_batch,
                .segment_length = config_.segment_length,
                .shards = batches_an_update,
                .seed = static_cast<uint64_t>(config.seed)},
      fingerprint_(fingerprint_of(train_, options_, config_, segments_)),
      valid_fingerprint_(options_.valid_sets.empty() ? "" : data::fingerprint(valid_)),
      model_(config_, config.seed) {
  if (!options_.valid_sets.empty()) decode::warn_of_whole_segments(config_);
  if (train_.size() < config_.segment_length)
    log::warn(cat("--train-sets: the text has ", thousands(train_.size()), " units, fewer than one segment of ",
                  config_.segment_length, " (--segment-length); all of it is one short segment"));
}

torch::nn::Module& LanguageTask::module() { return *model_; }

std::vector<int64_t> LanguageTask::begin_epoch(int64_t epoch) {
  batches_.emplace(train_, units_.eos(), segments_, epoch);
  std::vector<int64_t> items(static_cast<size_t>(batches_->size()));
  for (size_t i = 0; i < items.size(); ++i) items[i] = batches_->items(static_cast<int64_t>(i));
  return items;
}

train::BatchLoss LanguageTask::loss(int64_t batch, const nn::ForwardContext& context) {
  data::Segments segments = batches_->at(batch);
  const auto units = static_cast<double>(segments.outputs.size());
  nn::ForwardContext complete = context;
  complete.recompute = options_.gradient_checkpointing;
  const at::Tensor hidden = model_->forward(nn::index_tensor(std::move(segments.inputs)).to(device_),
                                            nn::index_tensor(std::move(segments.offsets)), complete);
  const at::Tensor outputs = nn::index_tensor(std::move(segments.outputs)).to(device_);
  const ops::CrossEntropy cost =
      ops::cross_entropy(hidden, model_->output_weight(), model_->output_bias(), outputs, options_.label_smoothing);
  return {cost.loss, units};
}

std::vector<std::string> LanguageTask::default_measures() const {
  if (units_.is_bytes()) return {"bits-per-byte"};
  return {"perplexity", "perplexity-per-word"};
}

std::vector<double> LanguageTask::validate(const std::vector<std::string>& names) {
  const int64_t length = config_.segment_length;
  const ScoreText scorer(model_, {.context = length, .stride = length, .mini_batch = options_.mini_batch});
  const TextScore score = scorer.run(valid_, units_.eos());
  std::vector<double> values;
  for (const std::string& name : names) values.push_back(value_of(score, name));
  return values;
}

}  // namespace fovea::language
