#include "fovea/models/clause_tagger.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/models/tagging/loaded_tagger.h"
#include "fovea/models/trained_model.h"
#include "fovea/text/clause_dictionary.h"

namespace fovea::models {
namespace {

using tagging::Labels;
using tagging::LabelSet;
using tagging::LoadedTagger;

constexpr std::string_view kPrefix = "clause-tagger.";
// The file of the task's name; the others are named as in the tagger's own checkpoint.
constexpr std::string_view kTaskFile = "task";

bool is_signal_label(const std::string& label) {
  return std::ranges::find(text::kSignalLabels, label) != text::kSignalLabels.end();
}

// Universal parts of speech have PUNCT and ADP too, but no O.
bool labels_signals(const LabelSet& labels) {
  const auto is_known = [&](const std::string& label) {
    return label == text::kNoSignalLabel || is_signal_label(label) || labels.marks_chunk(label);
  };
  const Labels& names = labels.names();
  return std::ranges::find(names, text::kNoSignalLabel) != names.end() && std::ranges::all_of(names, is_known) &&
         std::ranges::any_of(names, is_signal_label);
}

// How a tagger works, and how errors name it.
struct Use {
  std::string_view option;
  std::string model;
  int64_t batch_tokens = tagging::TaggingParts::kBatchTokens;
  tagging::OnSignal on_signal = tagging::OnSignal::kFinish;
};

text::ClauseTagger make_tagger(const TrainedModel& trained, const Use& use) {
  require_task(use.model, trained.task(), {tagging::kTask}, use.option);
  const auto loaded = std::make_shared<const LoadedTagger>(tagging::load_tagger(trained));
  const bool gives_labels = labels_signals(loaded->labels);
  if (!gives_labels && loaded->labels.has_chunks())
    throw Error(cat(use.option, ": '", use.model, "' labels names (", join(loaded->labels.names(), ", "),
                    "); expected a model of part-of-speech tags or of signal words (",
                    join(std::vector<std::string>(text::kSignalLabels.begin(), text::kSignalLabels.end()), ", "), ")"));
  if (loaded->clauses && loaded->config.clause_tag_column > 0)
    throw Error(cat(use.option, ": '", use.model, "' finds clauses by the tags of column ",
                    loaded->config.clause_tag_column,
                    ", which the input lacks; expected a model that reads words alone"));
  return {.tag = [loaded, use](std::span<const text::ClauseTagger::Sentence> sentences) -> std::vector<Labels> {
            tagging::TaggingParts parts = loaded->parts(use.batch_tokens);
            parts.on_signal = use.on_signal;
            return tagging::tag_sentences(parts, sentences);
          },
          .gives_labels = gives_labels};
}

}  // namespace

text::ClauseTagger load_clause_tagger(const std::string& model, const MachineOptions& machine,
                                      int64_t mini_batch_words) {
  TrainedModelOptions options;
  static_cast<MachineOptions&>(options) = machine;
  options.model = model;
  constexpr std::string_view kOption = "--tagger";
  return make_tagger(TrainedModel(options, {tagging::kTask}, kOption),
                     {kOption, model, mini_batch_words, tagging::OnSignal::kThrow});
}

std::map<std::string, std::string> clause_tagger_files(const std::string& model, std::string_view option) {
  if (model.empty()) return {};
  TrainedModelOptions options;
  options.model = model;
  const TrainedModel trained(options, {tagging::kTask}, option);
  make_tagger(trained, {option, trained.folder()});  // says what is wrong before the training data are read
  std::map<std::string, std::string> files;
  const auto add = [&](std::string_view name, std::string contents) {
    files[cat(kPrefix, name)] = std::move(contents);
  };
  add(kTaskFile, trained.task());
  add(nn::kConfigFile, trained.identity().config);
  add(nn::kModelFile, nn::print_safetensors(trained.checkpoint().model));
  for (const auto& [name, contents] : trained.identity().files) add(name, contents);
  return files;
}

std::optional<text::ClauseTagger> clause_tagger_of(const nn::Identity& identity) {
  nn::Checkpoint tagger;
  for (const auto& [name, contents] : identity.files)
    if (name.starts_with(kPrefix)) tagger.identity.files[name.substr(kPrefix.size())] = contents;
  if (tagger.identity.files.empty()) return std::nullopt;
  const auto take = [&](std::string_view name) {
    auto found = tagger.identity.files.extract(std::string(name));
    if (found.empty()) throw Error(cat(kPrefix, name, ": damaged: the file is missing"));
    return std::move(found.mapped());
  };
  tagger.identity.task = take(kTaskFile);
  tagger.identity.config = take(nn::kConfigFile);
  tagger.model = nn::parse_safetensors(take(nn::kModelFile), cat(kPrefix, nn::kModelFile));
  tagger.folder = "clause-tagger";
  return make_tagger(TrainedModel(std::move(tagger), {}), {"clause-tagger", "clause-tagger"});
}

}  // namespace fovea::models
