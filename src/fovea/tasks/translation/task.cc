#include "fovea/tasks/translation/task.h"

#include <ATen/Functions.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <map>
#include <utility>

#include "fovea/base/documents.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/shared_work.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/data/document_corpus.h"
#include "fovea/metrics/bleu.h"
#include "fovea/metrics/unspaced.h"
#include "fovea/models/score_bytes.h"
#include "fovea/models/source_clauses.h"
#include "fovea/models/whole_segments.h"
#include "fovea/nn/adaptive_span.h"
#include "fovea/nn/device.h"
#include "fovea/ops/step.h"
#include "fovea/spec/key_lengths.h"
#include "fovea/tasks/encoding_threads.h"
#include "fovea/tasks/translation/batch.h"
#include "fovea/tasks/translation/documents.h"
#include "fovea/tasks/translation/measures.h"
#include "fovea/tasks/translation/translator.h"

namespace fovea::translation {
namespace {

// The options on which values of measures depend, besides the text and the model.
std::string settings_of(const Options& options) {
  return cat(options.valid_beam_size, " ", options.valid_max_length_factor, " ", options.valid_tokenize,
             options.documents ? cat(" ", options.document_length) : "");
}

std::map<std::string, std::string> files_of(const TrainingData& data) {
  std::map<std::string, std::string> files = data.clause_files;
  files[kSourceVocabFile] = data.source_vocab.bytes();
  files[kTargetVocabFile] = data.target_vocab.bytes();
  return files;
}

EncoderDecoderConfig with_lengths(EncoderDecoderConfig config, const Options& options) {
  const int64_t longest = options.documents ? options.document_length : options.max_length;
  return with_biases(std::move(config), {.encoder = longest, .decoder = longest, .cross = longest});
}

}  // namespace

Validation::Validation(const TrainConfig& config, const Options& options, const TrainingData& data,
                       const at::Device& device)
    : options_(options), data_(data), device_(device) {
  if (!enabled()) return;
  for (const std::string& file : options.valid_sets) require_file(file, "--valid-sets");
  text_ = data::read_parallel(options.valid_sets[0], options.valid_sets[1]);
  const int threads = tasks::encoding_threads(config);
  corpus_ = options.documents
                ? data::load_documents(text_, data.source_vocab, data.target_vocab, {options.document_length, threads})
                : data::encode_corpus(text_, data.source_vocab, data.target_vocab, {.threads = threads});
  batches_ = data::batches_by_length(corpus_, options.valid_mini_batch_words);
  const std::vector<std::string> measured = config.valid_metrics.empty() ? default_measures() : config.valid_metrics;
  const bool has_bleu = std::ranges::find(measured, "bleu") != measured.end();
  const std::string_view better =
      has_bleu ? metrics::better_tokenizer(text_.target, options.valid_tokenize) : std::string_view();
  if (!better.empty()) log::warn(metrics::unspaced_message("--valid-tokenize", options.valid_tokenize, better));
}

std::string Validation::fingerprint() const {
  if (!enabled()) return "";
  const std::string text = checksum(checksum(join(text_.source, "\n")) + checksum(join(text_.target, "\n")));
  const std::string settings = settings_of(options_);
  return settings == settings_of({}) ? text : checksum(cat(text, " ", settings));
}

models::GivenScore Validation::force(nn::Model& model, Collective& team) const {
  models::warn_of_whole_segments(model->config());
  const auto score_of = [&](int64_t batch) {
    throw_if_interrupted("validation");
    const ModelBatch inputs(corpus_, batches_[static_cast<size_t>(batch)], data_.target_vocab.eos(), device_);
    models::GivenScore score;
    score.add(model, forward(model, inputs, {}), inputs.target_outputs);
    return models::score_bytes({score});
  };
  models::GivenScore sum;
  for (const std::string& bytes : shared_work(team, std::ssize(batches_), score_of))
    sum += models::scores_from(bytes).front();
  return sum;
}

// Each validation builds a new Translator, because a Translator keeps the weights that it was built with.
std::vector<std::string> Validation::translate(nn::Model& model, Collective& team) const {
  DecodeConfig decode;
  decode.beam_size = options_.valid_beam_size;
  decode.max_length_factor = options_.valid_max_length_factor;
  decode.mini_batch_words = options_.valid_mini_batch_words;
  decode.mini_batch = options_.valid_mini_batch_words;
  decode.documents = options_.documents;
  Translator translator({model, data_.source_vocab, data_.target_vocab}, translator_options(decode));
  if (options_.documents) {
    DocumentTranslator documents(translator, options_.document_length);
    return join_documents(documents.translate(text_.source), text_.target);
  }
  // One process alone makes batches of all lines; shares of a few hundred lines still fill them.
  constexpr int64_t kLines = 256;
  const auto lines = std::ssize(text_.source), share = team.size() == 1 ? std::max<int64_t>(lines, 1) : kLines;
  const auto translated = [&](int64_t piece) {
    const std::span<const std::string> all(text_.source);
    std::string texts;
    const int64_t begin = piece * share;
    for (const std::vector<Translation>& best : translator.translate(
             all.subspan(static_cast<size_t>(begin), static_cast<size_t>(std::min(share, lines - begin)))))
      texts += best.front().text + '\n';
    return texts;
  };
  std::string all;
  for (const std::string& texts : shared_work(team, (lines + share - 1) / share, translated)) all += texts;
  std::vector<std::string> texts = split(all, '\n');
  texts.resize(text_.source.size());
  return texts;
}

std::vector<double> Validation::run(nn::Model& model, const std::vector<std::string>& names, Collective& team) const {
  const torch::NoGradGuard no_grad;
  TranslationScore score = {{[&] { return force(model, team); }, [&] { return translate(model, team); }},
                            options_.documents ? join_documents(text_.target, text_.target) : text_.target,
                            options_.valid_tokenize};
  return measures().values(score, names);
}

TranslationTask::TranslationTask(const TrainConfig& config, Options options, const EncoderDecoderConfig& model,
                                 int64_t /*batches_an_update*/)
    : options_(std::move(options)),
      device_(nn::parse_device(config.devices)),
      data_(load_training_data(config, options_, model)),
      config_(with_lengths(with_vocabularies(model, data_), options_)),
      model_(config_, config.seed),
      validation_(config, options_, data_, device_) {
  parts_ = {.module = model_.ptr(),
            .rules = nn::span_rules(*model_),
            .identity = nn::identity_of(kTask, config_, files_of(data_)),
            .fingerprint = data_.fingerprint,
            .valid_fingerprint = validation_.fingerprint(),
            .measures = measures().known(),
            .default_measures = translation::default_measures()};
  if (uses_clauses(config_))
    model_->split_clauses_by(models::clause_splitter(data_.source_vocab, models::clause_source_of(parts_.identity)));
  check_positions(config_, data_.train->longest(), "--train-sets");
  check_positions(config_, data::longest_side(validation_.corpus()), "--valid-sets");
}

// A model without clauses becomes one with a mixture: all its weights, and little weight on the clauses.
nn::NamedTensors TranslationTask::weights_of(const nn::Checkpoint& pretrained) const {
  if (data_.clause_files.empty() || pretrained.identity.files.contains(models::kClausesFile))
    return Task::weights_of(pretrained);
  nn::Checkpoint with_clauses = pretrained;
  with_clauses.identity.files.insert(data_.clause_files.begin(), data_.clause_files.end());
  nn::NamedTensors weights = Task::weights_of(with_clauses);
  nn::add_mixtures(*model_, weights);
  return weights;
}

std::vector<int64_t> TranslationTask::begin_epoch(int64_t epoch) {
  batches_ = {};  // two epochs at a time would take twice the memory
  batches_ = data::EpochBatches(data_.train->lengths(), data_.batches, epoch);
  return batches_.sentences();
}

train::BatchLoss TranslationTask::loss(int64_t batch, const nn::ForwardContext& context) {
  const ModelBatch inputs(data_.train->pack(batches_.at(batch), data_.target_vocab.eos()), device_);
  const at::Tensor hidden = forward(model_, inputs, context);
  const ops::CrossEntropy cost =
      ops::cross_entropy(hidden, model_->output_layer(), inputs.target_outputs, options_.label_smoothing);
  return {cost.loss, static_cast<double>(inputs.target_tokens())};
}

std::vector<double> TranslationTask::validate(const std::vector<std::string>& names) {
  return validation_.run(model_, names, team());
}

}  // namespace fovea::translation
