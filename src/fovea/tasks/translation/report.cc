#include "fovea/tasks/translation/report.h"

#include <c10/core/InferenceMode.h>

#include <span>
#include <utility>

#include "fovea/base/empty_line.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/inspect/report.h"
#include "fovea/spec/config_problems.h"
#include "fovea/spec/score_config.h"
#include "fovea/tasks/translation/pair_reader.h"
#include "fovea/tasks/translation/score_pairs.h"
#include "fovea/tasks/translation/translator.h"

namespace fovea::translation {
namespace {

// A pair whose target may still be to come from the model.
struct ShownLine {
  TextPair text;
  bool has_target = false;
};

// Keeps the first lines with a source text.
class LineChoice {
 public:
  explicit LineChoice(const ReportOptions& options) : options_(options) {}
  bool is_full() const { return std::ssize(lines_) == options_.sentences; }
  void add(TextPair pair, bool has_target) {
    if (is_empty_line(pair.source) || (has_target && is_empty_line(pair.target))) {
      ++blank_;
    } else {
      lines_.push_back({std::move(pair), has_target});
    }
  }
  std::vector<ShownLine> take(bool has_more) {
    if (blank_ > 0) log::warn(cat(count_lines(blank_), " without words ", blank_ == 1 ? "was" : "were", " left out"));
    if (has_more) log::info(cat("the text has more lines; --sentences N shows more than ", options_.sentences));
    return std::move(lines_);
  }

 private:
  const ReportOptions& options_;
  std::vector<ShownLine> lines_;
  int64_t blank_ = 0;
};

std::vector<ShownLine> lines_of_pairs(const ReportOptions& options, const std::vector<std::string>& files) {
  LineChoice lines(options);
  PairReader reader(files);
  std::vector<TextPair> next = reader.next(1);
  for (; !next.empty() && !lines.is_full(); next = reader.next(1)) lines.add(std::move(next.front()), true);
  const bool has_more = !next.empty();
  // To the end, because files with different numbers of lines are not translations of each other.
  constexpr size_t kRest = 10'000;
  while (!next.empty()) {
    throw_if_interrupted("the report");
    next = reader.next(kRest);
  }
  return lines.take(has_more);
}

std::vector<ShownLine> lines_of_input(const ReportOptions& options) {
  LineChoice lines(options);
  LineReader reader(options.input);
  std::string line;
  bool has_more = reader.next_text(line);
  for (; has_more && !lines.is_full(); has_more = reader.next_text(line))
    lines.add({line, "", reader.line_number()}, false);
  return lines.take(has_more);
}

// The first lines with words of what the options name. Throws an Error if there are none, and for source and target
// text with different numbers of lines.
std::vector<ShownLine> read_shown_lines(const ReportOptions& options) {
  if (!options.source.empty()) return {{{options.source, options.target, 1}, !options.target.empty()}};
  std::vector<ShownLine> lines;
  if (!options.train_sets.empty()) {
    lines = lines_of_pairs(options, options.train_sets);
  } else if (!options.reference.empty()) {
    lines = lines_of_pairs(options, {options.input, options.reference});
  } else {
    lines = lines_of_input(options);
  }
  if (lines.empty()) inspect::refuse_empty_text(options);
  return lines;
}

// The tokens of a text, </s> included.
Sentence shown_tokens(const text::Vocab& vocab, const std::string& text, const std::string& place,
                      const inspect::ReportLimit& limit) {
  Encoded encoded = encode_line(vocab, text, limit.most());
  inspect::require_report_length(place, encoded.cut_from, limit);
  return std::move(encoded.tokens);
}

inspect::ReportLimit limit_of(const LoadedModel& loaded, const ReportOptions& options) {
  return {options.max_length, longest_text(loaded.model->config(), options.max_length)};
}

void add_own_translations(const LoadedModel& loaded, const ReportOptions& options, std::vector<ShownLine>& lines) {
  std::vector<std::string> sources;
  for (const ShownLine& line : lines) {
    if (!line.has_target) sources.push_back(line.text.source);
  }
  if (sources.empty()) return;
  DecodeConfig decode;
  decode.beam_size = options.beam_size;
  Translator translator(loaded, translator_options(decode));
  const auto translations = translator.translate(sources);
  size_t next = 0;
  for (ShownLine& line : lines) {
    if (!line.has_target) line.text.target = translations[next++].front().text;
  }
}

std::vector<std::string> piece_labels(const text::Vocab& vocab, const Sentence& tokens) {
  std::vector<std::string> out;
  for (const int64_t token : tokens) out.push_back(vocab.piece(token));
  return out;
}

// Checks before a search that may take long that the model can read all sources.
void check_sources(const LoadedModel& loaded, const ReportOptions& options, const std::vector<ShownLine>& lines) {
  for (const ShownLine& line : lines)
    shown_tokens(loaded.source, line.text.source, inspect::report_place(options, line.text.line),
                 limit_of(loaded, options));
}

std::vector<analysis::ReportSentence> sentences_of(const std::vector<ShownLine>& lines) {
  std::vector<analysis::ReportSentence> out;
  for (const ShownLine& line : lines) {
    out.push_back(
        {line.text.line,
         {{"Source", line.text.source}, {line.has_target ? "Target" : "The model's translation", line.text.target}}});
  }
  return out;
}

class PairReport {
 public:
  static constexpr std::string_view kUnit = "target token";
  explicit PairReport(const std::vector<ShownLine>& lines) : lines_(lines) {}

  // A second model has vocabularies of its own.
  static LoadedModel load(ReportOptions options, std::string_view option) {
    if (!options.compare.empty()) options.vocabs.clear();
    return load_model(options, option);
  }

  static std::vector<analysis::ReportText> details(const LoadedModel& loaded) {
    const ModelConfig& config = loaded.model->config();
    std::vector<analysis::ReportText> details = {
        {"Model", cat(config.enc_depth, " + ", config.dec_depth, " layers of ", config.transformer_heads,
                      " heads, width ", config.dim_emb)}};
    const std::string encoder = inspect::mechanisms_text(config, Sublayer::kEncoder, config.enc_depth),
                      decoder = has_recurrent_decoder(config)
                                    ? "recurrent (ssru), no self-attention"
                                    : inspect::mechanisms_text(config, Sublayer::kDecoder, config.dec_depth),
                      cross = inspect::mechanisms_text(config, Sublayer::kCross, config.dec_depth);
    if (encoder == decoder && encoder == cross) {
      details.push_back({"Mechanism", encoder});
    } else {
      details.push_back({"Encoder", encoder});
      details.push_back({"Decoder", decoder});
      details.push_back({"Cross", cross});
    }
    return details;
  }

  // A pass with the target given, over one pair, so that nothing is padded.
  void add_pass(const ReportOptions& options, LoadedModel& loaded, size_t i, analysis::Report& report) const {
    const c10::InferenceMode guard;
    const inspect::ReportLimit limit = limit_of(loaded, options);
    const ShownLine& line = lines_[i];
    const TextPair& text = line.text;
    const std::string place = inspect::report_place(options, text.line);
    const std::string target_place =
        options.source.empty() || !line.has_target ? cat(place, ", its translation") : "--target";
    SentencePair pair = {shown_tokens(loaded.source, text.source, place, limit),
                         shown_tokens(loaded.target, text.target, target_place, limit)};
    analysis::ReportTokens tokens = {
        piece_labels(loaded.source, pair.source), {}, piece_labels(loaded.target, pair.target)};
    tokens.inputs = {loaded.target.piece(loaded.target.eos())};
    tokens.inputs.insert(tokens.inputs.end(), tokens.outputs.begin(), tokens.outputs.end() - 1);
    report.begin_pass(i, tokens);
    constexpr int64_t kOnly = 0;
    const ForcedBatch batch(std::span(&pair, 1), std::span(&kOnly, 1), loaded.model->output_weight().device());
    const inspect::ReportObserver observer(report);
    const at::Tensor memory = loaded.model->encode({batch.source.tokens, batch.source.offsets}, {});
    loaded.model->decode({batch.input.tokens, batch.input.offsets, memory, batch.source.offsets}, {});
  }

  models::GivenScore loss(const ReportOptions& options) const {
    LoadedModel loaded = load_model(options);
    const inspect::ReportLimit limit = limit_of(loaded, options);
    std::vector<SentencePair> pairs;
    models::GivenScore loss;
    for (const ShownLine& line : lines_) {
      const std::string place = inspect::report_place(options, line.text.line);
      pairs.push_back({shown_tokens(loaded.source, line.text.source, place, limit),
                       shown_tokens(loaded.target, line.text.target, place, limit)});
      loss.tokens += std::ssize(pairs.back().target);
    }
    constexpr BatchLimits kLimits = {4096, 256};
    for (const double log_probability : score_pairs(loaded.model, pairs, kLimits)) loss.nll -= log_probability;
    return loss;
  }

 private:
  const std::vector<ShownLine>& lines_;
};

}  // namespace

void validate(const ReportOptions& options) {
  Problems problems;
  problems.add_ranges(options);
  add_model_problems(options, problems);
  inspect::add_report_problems(options, problems);
  if (!options.train_sets.empty()) add_parallel_text_problems(options.train_sets, problems);
  problems.add_if(!options.reference.empty() && options.input.empty(),
                  "--reference needs --input, whose lines it translates");
  problems.add_if(!options.target.empty() && options.source.empty(), "--target needs --source, which it translates");
  problems.add_if(options.input == "-" && options.reference == "-",
                  "--reference: '-', standard input, is --input already");
  for (const auto& [name, text] : {std::pair("--source", options.source), std::pair("--target", options.target)})
    problems.add_if(!is_valid_utf8(text), cat(name, ": got bytes that are not UTF-8; expected UTF-8 text"));
  problems.add_if(!options.source.empty() && is_empty_line(options.source),
                  "--source: got no words; expected a sentence");
  problems.throw_if_any();
}

int64_t run_report(const ReportOptions& options) {
  validate(options);
  require_parallel_text(options.train_sets);
  for (const auto& [name, path] : {std::pair("--input", options.input), std::pair("--reference", options.reference)}) {
    if (!path.empty() && path != "-") require_file(path, name);
  }
  require_writable("--output", options.output);
  std::vector<ShownLine> lines = read_shown_lines(options);
  LoadedModel loaded = load_model(options);
  check_sources(loaded, options, lines);
  for (const std::string& entry : options.sweep) load_model(inspect::with_mechanism(options, entry));
  add_own_translations(loaded, options, lines);
  return inspect::write_report(PairReport(lines), options, std::move(loaded), sentences_of(lines));
}

}  // namespace fovea::translation
