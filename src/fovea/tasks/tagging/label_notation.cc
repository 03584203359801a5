#include "fovea/tasks/tagging/label_notation.h"

#include <optional>
#include <ranges>
#include <set>
#include <vector>

#include "fovea/base/choices.h"
#include "fovea/base/error.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/metrics/find_notation.h"
#include "fovea/nn/checkpoint_choice.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/checkpoint_run.h"
#include "fovea/train/run_folder.h"

namespace fovea::tagging {
namespace {

using metrics::LabelDialect;

constexpr const char* kAuto = "auto";
constexpr size_t kMostNames = 8;  // of labels in a message

std::string name_of_dialect(LabelDialect dialect) {
  return std::string(choice_at(metrics::kLabelDialectNames, static_cast<size_t>(dialect)));
}

std::string listed(std::vector<std::string> names) {
  const size_t more = names.size() > kMostNames ? names.size() - kMostNames : 0;
  names.resize(names.size() - more);
  return cat(join(names, ", "), more > 0 ? cat(" and ", more, " more") : "");
}

// The configuration of the run that goes on.
std::optional<TaggingConfig> config_of_run(const TrainConfig& train) {
  if (!train::goes_on(train)) return std::nullopt;
  const std::vector<std::filesystem::path> checkpoints = nn::list_checkpoints(train.model);
  for (const std::filesystem::path& folder : std::views::reverse(checkpoints)) {
    try {
      const nn::CheckpointHead checkpoint = nn::read_head(folder);
      if (checkpoint.identity.task == kTask)
        return nn::config_of<TaggingConfig>(checkpoint.identity, folder / nn::kConfigFile);
    } catch (const Error&) {
      continue;  // a damaged one; the run resumes from one before it
    }
  }
  return std::nullopt;
}

void warn_of_names(const data::LabelledText& text, const metrics::OddLabels& odd, const std::string& option) {
  if (odd.count == 0) return;
  log::warn(cat(option, ": ", thousands(odd.count), odd.count == 1 ? " word has a label" : " words have labels",
                " like those of chunks or O that ", odd.names.size() == 1 ? "is" : "are",
                " read as neither: ", listed(odd.names), " (first: ", text.place(odd.sentence, odd.word),
                "); such labels count as words of their own"));
}

void tell_of_notation(const data::LabelledText& text, const metrics::FoundNotation& found) {
  const std::string form = print_label_form(found.notation.form), dialect = name_of_dialect(found.notation.dialect);
  std::set<std::string> types;
  for (const std::vector<std::string>& labels : text.labels) {
    for (const metrics::Chunk& chunk : metrics::chunks_of(labels, found.notation.form)) {
      if (!chunk.is_word) types.insert(chunk.type);
    }
  }
  log::info(cat("[data] labels mark ", thousands(found.chunks), found.chunks == 1 ? " chunk of " : " chunks of ",
                types.size(), types.size() == 1 ? " type" : " types", "; the model writes them in ", dialect, " as ",
                form, " (--label-dialect, --label-form)"));
  const metrics::OddLabels& odd = found.other_chunks;
  if (odd.count == 0) return;
  log::warn(cat("--train-sets: ", thousands(odd.count), " of ", thousands(found.chunks),
                odd.count == 1 ? " chunks is" : " chunks are", " not written in ", dialect,
                ", the dialect of most (first: ", text.labels[odd.sentence][odd.word], " in ",
                text.place(odd.sentence, odd.word), "); they are read as conlleval reads them, and written in ",
                dialect));
}

}  // namespace

void warn_of_lookalikes(const data::LabelledText& text, const metrics::LabelForm& form, const std::string& option) {
  warn_of_names(text, metrics::find_notation(text.labels, {.form = form}).lookalikes, option);
}

metrics::LabelNotation decide_notation(TaggingConfig& config, const TrainConfig& train,
                                       const data::LabelledText& text) {
  if (const std::optional<TaggingConfig> run = config_of_run(train)) {
    if (config.label_dialect == kAuto) config.label_dialect = run->label_dialect;
    if (config.label_form == kAuto) config.label_form = run->label_form;
    if (config.label_dialect != kAuto) return notation_of(config, "--");
  }
  metrics::KnownNotation known;
  if (config.label_dialect != kAuto)
    known.dialect =
        parse_choice<LabelDialect>(metrics::kLabelDialectNames, config.label_dialect, "--label-dialect: got");
  if (config.label_form != kAuto) known.form = metrics::parse_label_form(config.label_form, "--label-form");
  const metrics::FoundNotation found = metrics::find_notation(text.labels, known);
  const bool marks_chunks = found.notation.dialect != LabelDialect::kWords;
  if (known.form && found.chunks == 0)
    throw Error(cat("--label-form: no label of --train-sets has the form ", config.label_form,
                    "; expected labels such as ",
                    label_in_form('B', known.form->has_types ? "TYPE" : "", *known.form)));
  if (marks_chunks && found.chunks > 0) tell_of_notation(text, found);
  warn_of_names(text, found.lookalikes, "--train-sets");
  config.label_dialect = name_of_dialect(found.notation.dialect);
  config.label_form = marks_chunks ? print_label_form(found.notation.form) : kAuto;
  return found.notation;
}

}  // namespace fovea::tagging
