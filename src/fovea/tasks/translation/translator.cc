#include "fovea/tasks/translation/translator.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "fovea/base/strings.h"
#include "fovea/models/beam_options.h"
#include "fovea/tasks/translation/cross_attention.h"

namespace fovea::translation {

Translator::Options translator_options(const DecodeConfig& config) {
  Translator::Options options;
  EngineRequest& line = options.line;
  line.beam = models::beam_options(config);
  line.beam.ends_twice = config.documents;
  line.max_length_factor = config.max_length_factor;
  line.allow_unk = config.allow_unk;
  line.source_lang = config.source_lang, line.target_lang = config.target_lang;
  if (config.alignment)
    line.alignment = LinkChoice{config.alignment_layer, config.alignment_head, config.alignment_shifted};
  if (!config.terms.empty()) line.terms = std::make_shared<const text::TermList>(text::TermList::load(config.terms));
  options.engine = {.layers = models::step_format(config),
                    .limits = {config.mini_batch * config.beam_size, config.mini_batch_words},
                    .max_length = config.max_length,
                    .link_batch = models::BatchLimits{config.mini_batch_words, config.mini_batch},
                    .work = "translating"};
  return options;
}

Translator::Translator(LoadedModel loaded, const Options& options)
    : line_(options.line),
      engine_(std::move(loaded), options.engine),
      marks_(language_marks(engine_.model(), {line_.source_lang, line_.target_lang})) {
  if (line_.terms) engine_.require_writable(*line_.terms);
  if (line_.alignment) require_layer_and_head(engine_.model().model->config(), *line_.alignment, "--alignment-");
}

Translator::Translator(const DecodeConfig& config) : Translator(load_model(config), translator_options(config)) {}

Sentence Translator::encode(const std::string& line) {
  ++counts_.lines;
  const std::string marked = marked_line(engine_.model(), Side::kSource, marks_, line);
  Encoded encoded = encode_line(source_vocab(), marked, limit().tokens);
  if (encoded.cut_from > 0) cut_.warn(counts_.lines, cut_message(encoded, limit()));
  if (!is_valid_utf8(line))
    not_utf8_.warn(counts_.lines, "is not UTF-8; its broken bytes are read as unknown characters");
  const int64_t unknown = std::ranges::count(encoded.tokens, source_vocab().unk());
  counts_.unknown += unknown;
  counts_.with_unknown += unknown > 0 ? 1 : 0;
  return std::move(encoded.tokens);
}

void Translator::warn_of_missing(int64_t line, std::span<const text::Term> missing) {
  if (missing.empty()) return;
  std::vector<std::string> targets;
  for (const text::Term& term : missing) targets.push_back(cat("'", term.target, "'"));
  lack_terms_.warn(line, cat("has no room for ", join(targets, ", "),
                             " in its longest translation; see "
                             "--max-length-factor"));
}

void Translator::run(std::span<const std::string> lines, std::vector<Sentence> sources, const TakeResult& take) {
  try {
    finish(add(lines, std::move(sources)), take);
  } catch (...) {
    engine_.clear();
    throw;
  }
}

std::map<Ticket, size_t> Translator::add(std::span<const std::string> lines, std::vector<Sentence> sources) {
  // Long ones first: the largest memory is asked for first, and the last ones to run are soon done.
  std::vector<size_t> order(sources.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t i) { return sources[i].size(); });
  std::map<Ticket, size_t> places;
  const bool reads_text = line_.terms || line_.alignment;
  for (const size_t i : order) {
    EngineRequest request = line_;
    if (reads_text) request.text = lines[i];
    sources[i].pop_back();  // the engine adds </s>
    request.tokens = std::move(sources[i]);
    places[engine_.add(std::move(request))] = i;
  }
  return places;
}

void Translator::finish(const std::map<Ticket, size_t>& places, const TakeResult& take) {
  for (bool works = true; works;) {
    works = engine_.step();
    for (auto& [ticket, result] : engine_.take()) {
      counts_.source_tokens += result.source_tokens;
      counts_.target_tokens += result.target_tokens;
      counts_.ended += result.best.front().is_cut ? 1 : 0;
      counts_.with_terms += result.has_terms ? 1 : 0;
      take(places.at(ticket), std::move(result));
    }
  }
}

std::vector<Sentence> Translator::translate_tokens(std::span<const Sentence> sources) {
  std::vector<Sentence> best(sources.size());
  run({}, {sources.begin(), sources.end()},
      [&](size_t source, EngineResult result) { best[source] = std::move(result.best.front().tokens); });
  return best;
}

void Translator::translate(std::span<const std::string> lines, const TakeTranslations& take) {
  const int64_t first_line = counts_.lines + 1;
  std::vector<Sentence> sources;
  for (const std::string& line : lines) sources.push_back(encode(line));
  std::map<size_t, std::vector<text::Term>> missing;
  run(lines, std::move(sources), [&](size_t line, EngineResult result) {
    if (!result.missing.empty()) missing[line] = std::move(result.missing);
    take(line, std::move(result.best));
  });
  for (const auto& [line, terms] : missing) warn_of_missing(first_line + static_cast<int64_t>(line), terms);
  counts_.cut = cut_.count();
  counts_.not_utf8 = not_utf8_.count();
  counts_.lack_terms = lack_terms_.count();
}

std::vector<std::vector<Translation>> Translator::translate(std::span<const std::string> lines) {
  std::vector<std::vector<Translation>> results(lines.size());
  translate(lines, [&](size_t line, std::vector<Translation> best) { results[line] = std::move(best); });
  return results;
}

}  // namespace fovea::translation
