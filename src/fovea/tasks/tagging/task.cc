#include "fovea/tasks/tagging/task.h"

#include <torch/nn/module.h>

#include <set>
#include <span>
#include <utility>

#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/metrics/find_notation.h"
#include "fovea/models/source_clauses.h"
#include "fovea/nn/device.h"
#include "fovea/nn/index_tensor.h"
#include "fovea/ops/step.h"
#include "fovea/tasks/tagging/label_notation.h"
#include "fovea/tasks/tagging/measures.h"
#include "fovea/text/language_check.h"
#include "fovea/train/run_folder.h"

namespace fovea::tagging {
namespace {

// The files that an option named.
struct LabelledFiles {
  const std::vector<std::string>& paths;
  std::string option;
};
data::LabelledText load_labelled(const LabelledFiles& files, const Options& options, int64_t tag_column) {
  if (files.paths.empty()) return {};
  return data::load_columns(files.paths, {.labels = options.label_column, .tags = tag_column, .option = files.option});
}

std::optional<text::ClauseDictionary> clauses_of(const TaggerStart& begin) {
  if (begin.clause_dictionary.empty()) return std::nullopt;
  return text::ClauseDictionary::parse(begin.clause_dictionary, "--clause-dictionary");
}

TaggedText encode_training(const data::LabelledText& text, const LabelSet& labels, const TaggerStart& begin,
                           const ClauseFinder& clauses) {
  SentenceEncoder encoder(begin.vocab, longest_sequence(begin.config));
  TaggedText result = encode_text(text, labels, encoder, clauses);
  if (result.parts.size() > result.sentences)
    log::info(cat("[data] sentences of more than ", begin.config.max_positions,
                  " pieces (--max-positions) are read in parts: ", thousands(result.sentences), " sentences, ",
                  thousands(result.parts.size()), " parts"));
  return result;
}

nn::Identity identity_of_tagger(const TaggerStart& begin, const LabelSet& labels) {
  std::map<std::string, std::string> files = begin.vocab.files();
  files[kLabelsFile] = labels.contents();
  if (!begin.clause_dictionary.empty()) files[models::kClausesFile] = begin.clause_dictionary;
  return nn::identity_of(kTask, begin.config, std::move(files));
}

void warn_of_clause_language(const data::LabelledText& text, const std::vector<std::string>& paths) {
  text::LanguageCheck check;
  for (size_t i = 0; i < text.words.size() && check.words() < text::kWordsOfALanguage; ++i) check.add(text.words[i]);
  text::warn_of_doubt(check, cat("--train-sets: '", join(paths, "', '"), "'"), "--clause-dictionary");
}

void warn_of_unknown_labels(const data::LabelledText& text, const LabelSet& labels) {
  const metrics::LabelForm form = metrics::form_to_read(text.labels, labels.form());
  warn_of_lookalikes(text, form, "--valid-sets");
  std::set<std::string> unknown;
  for (const Labels& sentence : text.labels) {
    const std::vector<int64_t> ids = labels.encode(sentence, form);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0) unknown.insert(sentence[i]);
    }
  }
  if (unknown.empty()) return;
  const std::vector<std::string> names(unknown.begin(), unknown.end());
  log::warn(cat("--valid-sets: the training data do not have the labels ", join(names, ", "),
                "; the model cannot predict them"));
}

}  // namespace

TaggedText encode_text(const data::LabelledText& text, const LabelSet& labels, SentenceEncoder& encoder,
                       const ClauseFinder& clauses) {
  TaggedText result;
  data::ParallelCorpus& parts = result.parts;
  parts.source_offsets = parts.target_offsets = {0};
  result.sentences = text.size();
  for (size_t s = 0; s < text.words.size(); ++s) {
    const std::vector<int64_t> ids = labels.encode(text.labels[s]);
    parts.source.insert(parts.source.end(), ids.begin(), ids.end());
    const std::vector<uint8_t> levels = clauses.levels(text.words[s], tags_of(text.tags, s));
    for (const Part& part : encoder.encode(text.words[s], levels)) {
      result.levels.insert(result.levels.end(), part.levels.begin(), part.levels.end());
      parts.target.insert(parts.target.end(), part.tokens.begin(), part.tokens.end());
      parts.target_offsets.push_back(std::ssize(parts.target));
      parts.source_offsets.push_back(parts.source_offsets.back() + std::ssize(part.firsts));
      result.firsts.insert(result.firsts.end(), part.firsts.begin(), part.firsts.end());
    }
  }
  return result;
}

LabelledBatch batch_of(const TaggedText& text, const data::Batch& parts) {
  LabelledBatch batch;
  const data::ParallelCorpus& all = text.parts;
  for (const int64_t part : parts) {
    const int64_t words = all.source_offsets[static_cast<size_t>(part)],
                  tokens = all.target_offsets[static_cast<size_t>(part)];
    const auto length = static_cast<size_t>(all.target_length(part));
    const std::vector<int64_t> ids(all.target.begin() + tokens, all.target.begin() + tokens + all.target_length(part));
    const std::span<const uint8_t> levels(text.levels);
    batch.add(ids,
              std::span(text.firsts).subspan(static_cast<size_t>(words), static_cast<size_t>(all.source_length(part))),
              levels.empty() ? levels : levels.subspan(static_cast<size_t>(tokens), length));
    batch.labels.insert(batch.labels.end(), all.source.begin() + words,
                        all.source.begin() + words + all.source_length(part));
  }
  return batch;
}

TaggingTask::TaggingTask(const TrainConfig& config, Options options, const TaggingConfig& model,
                         int64_t /*batches_an_update*/)
    : options_(std::move(options)),
      device_(nn::parse_device(config.devices)),
      begin_(start_tagger(config, model, options_)),
      clauses_(clauses_of(begin_)),
      train_(load_labelled({options_.train_sets, "--train-sets"}, options_, begin_.config.clause_tag_column)),
      valid_(load_labelled({options_.valid_sets, "--valid-sets"}, options_, begin_.config.clause_tag_column)),
      notation_(decide_notation(begin_.config, config, train_)),
      labels_(LabelSet::of(train_.labels, notation_.form)),
      text_(encode_training(train_, labels_, begin_, clause_finder())),
      batch_options_{.max_target_tokens = options_.mini_batch_words,
                     .max_sentences = options_.mini_batch,
                     .maxi_batch = options_.maxi_batch,
                     .seed = static_cast<uint64_t>(config.seed)},
      model_(begin_.config, labels_.size(), config.seed) {
  parts_ = {.module = model_.ptr(),
            .identity = identity_of_tagger(begin_, labels_),
            .fingerprint = checksum(cat(data::fingerprint(text_.parts), " ", options_.mini_batch, " ",
                                        options_.mini_batch_words, " ", options_.maxi_batch, " ", config.seed,
                                        std::string(text_.levels.begin(), text_.levels.end()))),
            .valid_fingerprint = options_.valid_sets.empty() ? "" : data::fingerprint(valid_),
            .measures = measures().known(),
            .default_measures = usual_measures(labels_)};
  warn_of_unknown_labels(valid_, labels_);
  const bool is_new = !train::goes_on(config) && config.pretrained_model.empty();
  if (clauses_ && options_.clause_dictionary.empty() && is_new) warn_of_clause_language(train_, options_.train_sets);
  train_ = {};  // training reads text_, which takes a fifth of the memory
}

nn::NamedTensors TaggingTask::weights_of(const nn::Checkpoint& pretrained) const {
  const auto labels = pretrained.identity.files.find(kLabelsFile);
  const bool has_same = labels != pretrained.identity.files.end() && labels->second == labels_.contents();
  return tagger_weights(pretrained, *model_, has_same);
}

std::vector<int64_t> TaggingTask::begin_epoch(int64_t epoch) {
  batches_ = data::batches_of_epoch(text_.parts, batch_options_, epoch);
  std::vector<int64_t> items;
  for (const data::Batch& batch : batches_) items.push_back(std::ssize(batch));
  return items;
}

train::BatchLoss TaggingTask::loss(int64_t batch, const nn::ForwardContext& context) {
  LabelledBatch in = batch_of(text_, batches_.at(static_cast<size_t>(batch)));
  const auto words = static_cast<double>(in.labels.size());
  nn::ForwardContext complete = context;
  complete.clauses = in.clauses();
  const nn::EncoderInput input = {nn::index_tensor(std::move(in.tokens)).to(device_),
                                  nn::index_tensor(std::move(in.offsets))};
  const at::Tensor hidden = model_->words(input, nn::index_tensor(std::move(in.firsts)).to(device_), complete);
  const at::Tensor labels = nn::index_tensor(std::move(in.labels)).to(device_);
  return {
      ops::cross_entropy(hidden, {model_->output_weight, model_->output_bias}, labels, options_.label_smoothing).loss,
      words};
}

std::vector<double> TaggingTask::validate(const std::vector<std::string>& names) {
  const TaggingParts parts = {model_,
                              begin_.vocab,
                              labels_,
                              notation_.dialect,
                              clause_finder(),
                              longest_sequence(begin_.config),
                              options_.mini_batch_words};
  return measures().values(score_text(parts, valid_, team()), names);
}

}  // namespace fovea::tagging
