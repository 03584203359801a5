#include "fovea/tasks/language/report.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <utility>

#include "fovea/base/empty_line.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/inspect/report.h"
#include "fovea/models/whole_segments.h"
#include "fovea/nn/index_tensor.h"
#include "fovea/spec/config_problems.h"
#include "fovea/tasks/language/load_model.h"

namespace fovea::language {
namespace {

struct ShownText {
  std::string text;
  int64_t line = 0;  // from 1, over all files
};

std::vector<ShownText> read_shown_texts(const ReportOptions& options) {
  if (!options.source.empty()) return {{options.source, 1}};
  std::vector<ShownText> texts;
  int64_t number = 0;
  bool has_more = false;
  for (const std::string& path : options.train_sets.empty() ? std::vector{options.input} : options.train_sets) {
    LineReader reader(path);
    for (std::string line; !has_more && reader.next(line);) {
      ++number;
      has_more = std::ssize(texts) == options.sentences;
      if (!has_more && !is_empty_line(line)) texts.push_back({line, number});
    }
  }
  if (has_more) log::info(cat("the text has more lines; --sentences N shows more than ", options.sentences));
  if (texts.empty()) inspect::refuse_empty_text(options);
  return texts;
}

// A byte that does not stand alone as a character is shown by its number.
std::string label_of(const text::Units& units, int64_t unit) {
  if (unit == units.eos()) return "</s>";
  if (units.vocab() != nullptr) return unit < units.vocab()->size() ? units.vocab()->piece(unit) : "<unused>";
  if (unit == units.begin()) return "<s>";
  const std::string text = units.surface(unit);
  if (text.empty()) return "<unused>";
  if (text.size() > 1 && is_valid_utf8(text)) return text;
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string label;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_shown = (byte >= 0x20 && byte < 0x7f) || byte == '\n';
    label += is_shown ? std::string(1, c) : cat("<", kDigits[byte / 16], kDigits[byte % 16], ">");
  }
  return label;
}

std::vector<int64_t> shown_units(const text::Units& units, const ShownText& text, const std::string& place) {
  if (!units.is_bytes() && !is_valid_utf8(text.text))
    throw Error(cat(place, ": got bytes that are not UTF-8; the model reads ", units.unit_name(),
                    "s; convert the text to UTF-8"));
  std::vector<int32_t> ids;
  units.encode(text.text + "\n", ids);
  return {ids.begin(), ids.end()};
}

class TextReport {
 public:
  static constexpr std::string_view kUnit = "unit";
  explicit TextReport(const std::vector<ShownText>& texts) : texts_(texts) {}

  static LoadedModel load(const ReportOptions& options, std::string_view option) { return load_model(options, option); }

  static std::vector<analysis::ReportText> details(const LoadedModel& loaded) {
    const LanguageConfig& config = loaded.config;
    return {{"Model", cat(config.dec_depth, " layers of ", config.transformer_heads, " heads, width ", config.dim_emb)},
            {"Mechanism", inspect::mechanisms_text(config, Sublayer::kDecoder, config.dec_depth)}};
  }

  // Row t reads inputs[t] and predicts unit t of the text: the unit that begins every text comes first.
  void add_pass(const ReportOptions& options, LoadedModel& loaded, size_t i, analysis::Report& report) const {
    const c10::InferenceMode guard;
    const text::Units& units = loaded.units;
    const int64_t positions = has_learned_positions(loaded.config) ? loaded.config.max_positions : options.max_length;
    const std::string place = inspect::report_place(options, texts_[i].line);
    std::vector<int64_t> ids = shown_units(units, texts_[i], place);
    const int64_t length = std::ssize(ids);
    inspect::require_report_length(place, length, {options.max_length, positions});
    analysis::ReportTokens tokens;
    for (const int64_t id : ids) tokens.outputs.push_back(label_of(units, id));
    std::rotate(ids.begin(), ids.end() - 1, ids.end());
    ids.front() = units.begin();
    for (const int64_t id : ids) tokens.inputs.push_back(label_of(units, id));
    report.begin_pass(i, tokens);
    const inspect::ReportObserver observer(report);
    loaded.model->decode({nn::index_tensor(std::move(ids)).to(loaded.model->output_weight().device()),
                          nn::index_tensor(std::vector<int64_t>{0, length})},
                         {});
  }

  // The loss of the texts, each read as its page's pass reads it.
  models::GivenScore loss(const ReportOptions& options) const {
    const c10::InferenceMode guard;
    LoadedModel loaded = load_model(options);
    const at::Device device = loaded.model->output_weight().device();
    models::warn_of_whole_segments(loaded.model->config());
    models::GivenScore score;
    for (const ShownText& text : texts_) {
      throw_if_interrupted("the report");
      std::vector<int64_t> outputs = shown_units(loaded.units, text, inspect::report_place(options, text.line));
      std::vector<int64_t> inputs = {loaded.units.begin()};
      inputs.insert(inputs.end(), outputs.begin(), outputs.end() - 1);
      const int64_t length = std::ssize(outputs);
      const at::Tensor hidden = loaded.model->decode(
          {nn::index_tensor(std::move(inputs)).to(device), nn::index_tensor(std::vector<int64_t>{0, length})}, {});
      score.add(loaded.model, hidden, nn::index_tensor(std::move(outputs)).to(device));
    }
    return score;
  }

 private:
  const std::vector<ShownText>& texts_;
};

}  // namespace

void validate(const ReportOptions& options) {
  Problems problems;
  problems.add_ranges(options);
  add_model_problems(options, problems);
  inspect::add_report_problems(options, problems);
  problems.add_if(std::ranges::count(options.train_sets, "-") > 1,
                  "--train-sets: got '-', standard input, more than once; give it once");
  problems.throw_if_any();
}

int64_t run_report(const ReportOptions& options) {
  validate(options);
  for (const std::string& path : options.train_sets) {
    if (path != "-") require_file(path, "--train-sets");
  }
  if (!options.input.empty() && options.input != "-") require_file(options.input, "--input");
  require_writable("--output", options.output);
  const std::vector<ShownText> texts = read_shown_texts(options);
  std::vector<analysis::ReportSentence> sentences;
  for (const ShownText& text : texts) sentences.push_back({text.line, {{"Text", text.text}}});
  inspect::require_decoder_entries(options.sweep);
  for (const std::string& entry : options.sweep) load_model(inspect::with_mechanism(options, entry));
  return inspect::write_report(TextReport(texts), options, load_model(options), std::move(sentences));
}

}  // namespace fovea::language
