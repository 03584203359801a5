#include "fovea/tasks/translation/report.h"

#include <c10/core/InferenceMode.h>

#include <optional>
#include <span>
#include <utility>

#include "fovea/analysis/report.h"
#include "fovea/base/empty_line.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/inspect/analyze_report.h"
#include "fovea/inspect/report_pass.h"
#include "fovea/inspect/report_sweep.h"
#include "fovea/spec/config_problems.h"
#include "fovea/spec/score_config.h"
#include "fovea/tasks/translation/report_text.h"
#include "fovea/tasks/translation/score_pairs.h"
#include "fovea/tasks/translation/translator.h"

namespace fovea::translation {
namespace {

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

std::vector<analysis::ReportText> details_of(const ModelConfig& config) {
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

// Passes over the pairs with the target given, one by one, so that nothing is padded.
void add_passes(LoadedModel& loaded, const ReportOptions& options, const std::vector<ShownLine>& lines,
                analysis::Report& report) {
  const c10::InferenceMode guard;
  const inspect::ReportLimit limit = limit_of(loaded, options);
  const at::Device device = loaded.model->output_weight().device();
  log::Progress progress("reading attention, sentences", static_cast<double>(lines.size()));
  for (size_t i = 0; i < lines.size(); ++i) {
    throw_if_interrupted("the report");
    const TextPair& text = lines[i].text;
    const std::string place = inspect::report_place(options, text.line);
    const std::string target_place =
        options.source.empty() || !lines[i].has_target ? cat(place, ", its translation") : "--target";
    SentencePair pair = {shown_tokens(loaded.source, text.source, place, limit),
                         shown_tokens(loaded.target, text.target, target_place, limit)};
    analysis::ReportTokens tokens = {
        piece_labels(loaded.source, pair.source), {}, piece_labels(loaded.target, pair.target)};
    tokens.inputs = {loaded.target.piece(loaded.target.eos())};
    tokens.inputs.insert(tokens.inputs.end(), tokens.outputs.begin(), tokens.outputs.end() - 1);
    report.begin_pass(i, tokens);
    constexpr int64_t kOnly = 0;
    const ForcedBatch batch(std::span(&pair, 1), std::span(&kOnly, 1), device);
    const inspect::ReportObserver observer(report);
    const at::Tensor memory = loaded.model->encode({batch.source.tokens, batch.source.offsets}, {});
    loaded.model->decode({batch.input.tokens, batch.input.offsets, memory, batch.source.offsets}, {});
    progress.at(static_cast<double>(i + 1));
  }
  progress.finish();
}

ReportOptions swept(const ReportOptions& options, const std::string& entry) {
  ReportOptions own = options;
  static_cast<AttentionOverride&>(own) = inspect::override_by(own, entry);
  return own;
}

models::GivenScore loss_of(const ReportOptions& options, const std::vector<ShownLine>& lines) {
  LoadedModel loaded = load_model(options);
  const inspect::ReportLimit limit = limit_of(loaded, options);
  std::vector<SentencePair> pairs;
  models::GivenScore loss;
  for (const ShownLine& line : lines) {
    const std::string place = inspect::report_place(options, line.text.line);
    pairs.push_back({shown_tokens(loaded.source, line.text.source, place, limit),
                     shown_tokens(loaded.target, line.text.target, place, limit)});
    loss.tokens += std::ssize(pairs.back().target);
  }
  constexpr BatchLimits kLimits = {4096, 256};
  for (const double log_probability : score_pairs(loaded.model, pairs, kLimits)) loss.nll -= log_probability;
  return loss;
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
  std::optional<LoadedModel> loaded(load_model(options));
  check_sources(*loaded, options, lines);
  for (const std::string& entry : options.sweep) load_model(swept(options, entry));
  add_own_translations(*loaded, options, lines);
  analysis::Report report(cat("Attention of ", options.model), sentences_of(lines));
  report.begin_model(options.model, details_of(loaded->model->config()));
  add_passes(*loaded, options, lines, report);
  loaded.reset();  // before others take memory
  inspect::add_report_sweep(
      options.sweep, "target token", [&](const std::string& entry) { return loss_of(swept(options, entry), lines); },
      report);
  if (inspect::compares(options)) {
    ReportOptions other = inspect::compared(options);
    if (!options.compare.empty()) other.vocabs.clear();
    loaded.emplace(load_model(other, options.compare.empty() ? "--model" : "--compare"));
    report.begin_model(inspect::compared_name(options, options.model), details_of(loaded->model->config()));
    add_passes(*loaded, other, lines, report);
  }
  write_file(options.output, report.html());
  log::info(cat("wrote ", options.output, ": ", thousands(std::ssize(lines)),
                lines.size() == 1 ? " sentence" : " sentences"));
  return std::ssize(lines);
}

}  // namespace fovea::translation
