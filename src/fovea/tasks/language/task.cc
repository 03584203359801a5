#include "fovea/tasks/language/task.h"

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fovea/base/choices.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/data/kept_text.h"
#include "fovea/data/token_text.h"
#include "fovea/data/unit_source.h"
#include "fovea/nn/adaptive_span.h"
#include "fovea/nn/device.h"
#include "fovea/nn/index_tensor.h"
#include "fovea/nn/memory.h"
#include "fovea/ops/step.h"
#include "fovea/spec/key_lengths.h"
#include "fovea/spec/train_config.h"
#include "fovea/tasks/encoding_threads.h"
#include "fovea/tasks/language/config.h"
#include "fovea/tasks/language/measures.h"
#include "fovea/tasks/language/options.h"
#include "fovea/tasks/language/score_text.h"
#include "fovea/text/units.h"

namespace fovea::language {
namespace {

// A text with the documents of the model's configuration; an empty one without files.
data::TokenText load_text(const std::vector<std::string>& files, const text::Units& units, const LanguageConfig& config,
                          const data::TokenTextOptions& options) {
  if (files.empty()) return {};
  data::TokenTextOptions complete = options;
  complete.documents = parse_choice<data::Documents>(data::kDocumentsNames, config.documents, "--documents: got");
  return data::load_token_text(files, units, complete);
}

bool has_characters(const text::Units& units) { return units.unit_name() == "char"; }

// bits-per-byte of bytes and characters, or perplexity per unit and per word.
std::vector<std::string> default_measures(const text::Units& units) {
  if (units.is_bytes() || has_characters(units)) return {"bits-per-byte"};
  return {"perplexity", "perplexity-per-word"};
}

// "bytes", "pieces", "characters", ...
std::string plural_unit(const text::Units& units) {
  return has_characters(units) ? "characters" : cat(units.unit_name(), "s");
}

std::string encoding_of(const text::Units& units, data::Documents documents) {
  std::string text = cat("units ", units.size(), " documents ", static_cast<int>(documents));
  for (const auto& [name, content] : units.files()) text += cat(" ", name, " ", checksum(content));
  return text;
}

// The </s> behind documents is a unit besides the 256 bytes, so a text of one document takes a byte for each of its
// own.
int64_t most_units(const text::Units& units, data::Documents documents) {
  return units.is_bytes() && documents == data::Documents::kNo ? units.size() - 1 : units.size();
}

// The text of --train-sets: held in memory or, with --encoded-text and if it is large, read from a file that is encoded
// once.
std::unique_ptr<data::UnitSource> load_training_text(const TrainConfig& train, const Options& options,
                                                     const LanguageConfig& config, const text::Units& units) {
  const auto documents = parse_choice<data::Documents>(data::kDocumentsNames, config.documents, "--documents: got");
  const data::TokenTextOptions text = {
      .documents = documents, .threads = tasks::encoding_threads(train), .option = "--train-sets", .trains = true};
  const int64_t held = units.is_bytes() ? sizeof(int32_t) : 1;
  const std::string folder = data::folder_of_encoded(options.encoded_text, options.train_sets, held);
  if (folder.empty()) return std::make_unique<data::TokenText>(data::load_token_text(options.train_sets, units, text));
  return data::keep_text(
      data::KeptText<data::UnitShape>{.paths = options.train_sets,
                                      .folder = folder,
                                      .option = "--encoded-text",
                                      .encoding = encoding_of(units, documents),
                                      .shape = {most_units(units, documents)}},
      [&](data::UnitSink& sink) { return data::encode_units(options.train_sets, units, text, sink).report; });
}

// Sets --dim-vocabs. Models may have more rows than a folder has tokens.
text::Units load_units(const std::string& vocabs, LanguageConfig& config) {
  text::Units units = text::Units::load(vocabs);
  const int64_t size = units.size(), wanted = config.dim_vocabs.empty() ? 0 : config.dim_vocabs.front();
  if (wanted > size && units.is_of_folder()) units = units.with_rows(wanted);
  if (wanted != 0 && wanted != units.size())
    throw Error(cat("--dim-vocabs: got ", wanted, ", but the vocabulary of --vocabs has ", size,
                    " units; leave the option out, its size is the vocabulary's"));
  config.dim_vocabs = {units.size()};
  return units;
}

// Sets the memory that the spans need, and the biases of sigmoids that lack them. Refuses memory for segments in random
// order, before the text is read.
LanguageConfig with_order(LanguageConfig config, const Options& options) {
  const auto order = parse_choice<data::SegmentOrder>(data::kSegmentOrderNames, options.order, "--order: got");
  const int64_t memory = memory_of(config);
  const bool by_span = config.memory_length < 0;
  if (memory > 0 && order == data::SegmentOrder::kShuffled)
    throw UsageError(cat("--memory-length ", memory, by_span ? " (the limit of span)" : "",
                         " with --order shuffled: segments in random order have no units before them to remember; use "
                         "--order stream",
                         by_span ? ", or --memory-length 0" : ""));
  config.memory_length = memory;
  return with_biases(std::move(config), {.decoder = memory + (config.same_length ? 1 : config.segment_length)});
}

std::string fingerprint_of(const data::UnitSource& text, const Options& options, const LanguageConfig& config,
                           const data::SegmentOptions& segments) {
  return checksum(cat(text.fingerprint(), " ", segments.mini_batch, " ", segments.shards, " ", segments.segment_length,
                      " ", options.order, " ", config.documents, " ", segments.seed));
}

}  // namespace

LanguageTask::LanguageTask(const TrainConfig& config, Options options, const LanguageConfig& model,
                           int64_t batches_an_update)
    : options_(std::move(options)),
      device_(nn::parse_device(config.devices)),
      config_(with_order(model, options_)),
      units_(load_units(options_.vocabs, config_)),
      train_(load_training_text(config, options_, config_, units_)),
      valid_(load_text(options_.valid_sets, units_, config_,
                       {.threads = tasks::encoding_threads(config), .option = "--valid-sets"})),
      segments_{.order = parse_choice<data::SegmentOrder>(data::kSegmentOrderNames, options_.order, "--order: got"),
                .mini_batch = options_.mini_batch,
                .segment_length = config_.segment_length,
                .shards = batches_an_update,
                .seed = static_cast<uint64_t>(config.seed)},
      model_(config_, config.seed) {
  parts_ = {.module = model_.ptr(),
            .rules = nn::span_rules(*model_),
            .identity = nn::identity_of(kTask, config_, units_.files()),
            .fingerprint = fingerprint_of(*train_, options_, config_, segments_),
            .valid_fingerprint = options_.valid_sets.empty() ? "" : valid_.fingerprint(),
            .measures = measures().known(),
            .default_measures = language::default_measures(units_),
            .weight_unit = plural_unit(units_),
            .is_loss_per_byte = units_.is_bytes() && options_.label_smoothing == 0 &&
                                parse_choice<data::Documents>(data::kDocumentsNames, config_.documents,
                                                              "--documents: got") == data::Documents::kNo};
  const PositionSchemes positions = parse_positions(config_.transformer_positions);
  if (config_.memory_length > 0 && (find_scheme<Sinusoidal>(positions) || find_scheme<Learned>(positions)))
    log::warn(cat("--memory-length with --transformer-positions ", config_.transformer_positions,
                  ": positions start again in each segment, so units of memory share them with units of the segment; "
                  "rotary counts distances"));
  if (config_.memory_length > 0) memory_.emplace(config_.memory_length, segments_.shards);
  if (config_.same_length) model_->limit_reach(config_.memory_length + 1);
  if (train_->size() < config_.segment_length)
    log::warn(cat("--train-sets: the text has ", thousands(train_->size()), " units, fewer than one segment of ",
                  config_.segment_length, " (--segment-length); all of it is one short segment"));
}

std::vector<int64_t> LanguageTask::begin_epoch(int64_t epoch) {
  batches_.emplace(*train_, units_.begin(), segments_, epoch);
  if (memory_) memory_->clear();
  return batches_->items();
}

train::BatchLoss LanguageTask::loss(int64_t batch, const nn::ForwardContext& context) {
  data::Segments segments = batches_->at(batch);
  const auto units = static_cast<double>(segments.outputs.size());
  std::shared_ptr<nn::MemoryPass> memory;
  if (memory_) memory = memory_->begin(batches_->shard(batch), segments);
  const at::Tensor hidden = model_->decode({.tokens = nn::index_tensor(std::move(segments.inputs)).to(device_),
                                            .offsets = nn::index_tensor(std::move(segments.offsets)),
                                            .memory = memory},
                                           context);
  if (memory_) memory_->end(batches_->shard(batch), segments, *memory);
  const at::Tensor outputs = nn::index_tensor(std::move(segments.outputs)).to(device_);
  const ops::CrossEntropy cost = ops::cross_entropy(hidden, model_->output_layer(), outputs, options_.label_smoothing);
  return {cost.loss, units};
}

void LanguageTask::after_update(bool made) {
  if (memory_) memory_->after_update(made);
}

nn::NamedTensors LanguageTask::carried() const { return memory_ ? memory_->tensors() : nn::NamedTensors{}; }

void LanguageTask::restore(const nn::NamedTensors& carried, const std::string& origin) {
  if (!memory_) return Task::restore(carried, origin);
  memory_->restore(
      carried, {.layers = config_.dec_depth, .width = config_.dim_emb, .options = model_->output_weight().options()},
      origin);
}

std::vector<double> LanguageTask::validate(const std::vector<std::string>& names) {
  const int64_t length = config_.segment_length;
  const ScoreText scorer(
      model_, {.context = length, .stride = length, .mini_batch = options_.mini_batch, .memory = config_.memory_length},
      team());
  return language::measures().values(scorer.run(valid_, units_.begin()), names);
}

}  // namespace fovea::language
