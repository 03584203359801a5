#include "fovea/tasks/translation/translator.h"

#include <algorithm>
#include <utility>

#include "fovea/base/empty_line.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/tasks/translation/hypothesis_links.h"

namespace fovea::translation {

Encoded encode_line(const text::Vocab& vocab, const std::string& line, int64_t max_length) {
  return with_limit(is_empty_line(line) ? Sentence() : vocab.encode(line), vocab.eos(), max_length);
}

Encoded with_limit(Sentence tokens, int64_t eos, int64_t max_length) {
  Encoded encoded{std::move(tokens), 0};
  const auto length = static_cast<int64_t>(encoded.tokens.size());
  if (length > max_length) {
    encoded.cut_from = length;
    encoded.tokens.resize(static_cast<size_t>(max_length));
  }
  encoded.tokens.push_back(eos);
  encoded.tokens.shrink_to_fit();  // thousands of lines wait together, which may have been far longer
  return encoded;
}

LineLimit line_limit(const ModelConfig& model, int64_t max_length) {
  const int64_t longest = longest_text(model, max_length);
  return {longest, longest < max_length ? "the model's learned positions" : "--max-length"};
}

std::string cut_message(const Encoded& encoded, const LineLimit& limit) {
  return cat("has ", thousands(encoded.cut_from), " tokens; cut to ", thousands(limit.tokens), " (", limit.set_by, ")");
}

void warn_of_cut_lines(int64_t count, const LineLimit& limit) {
  if (count == 0) return;
  const char* were = count == 1 ? " was" : " were";
  log::warn(cat(count_lines(count), were, " longer than ", limit.set_by, " and", were, " cut"));
}

std::string unknown_message(int64_t tokens) {
  return cat(thousands(tokens), tokens == 1 ? " token is" : " tokens are", " text that the vocabulary lacks");
}

std::string count_lines(int64_t count) { return cat(thousands(count), count == 1 ? " line" : " lines"); }

void LineWarnings::warn(int64_t line, std::string_view what) {
  constexpr int64_t kShown = 5;
  if (++count_ > kShown) return;
  log::warn(cat("line ", thousands(line), " ", what, count_ == kShown ? "; further ones are counted only" : ""));
}

Translator::Options translator_options(const DecodeConfig& config) {
  Translator::Options options;
  options.search.beam = models::beam_options(config);
  options.layers = models::step_format(config);
  options.search.beam.ends_twice = config.documents;
  options.search.max_length_factor = config.max_length_factor;
  options.limits = {config.mini_batch_words, config.mini_batch};
  options.max_length = config.max_length;
  options.allow_unk = config.allow_unk;
  if (config.alignment)
    options.alignment = LinkChoice{config.alignment_layer, config.alignment_head, config.alignment_shifted};
  if (!config.terms.empty()) options.terms = std::make_shared<const text::TermList>(text::TermList::load(config.terms));
  return options;
}

Translator::Translator(LoadedModel loaded, const Options& options)
    : loaded_(std::move(loaded)),
      options_(options),
      limit_(line_limit(loaded_.model->config(), options.max_length)),
      model_(loaded_.model, options.layers),
      term_demands_(loaded_.target) {
  if (options.terms) term_demands_.require_writable(*options.terms);
  options_.search.target_eos = loaded_.target.eos();
  if (options.alignment) require_layer_and_head(loaded_.model->config(), *options.alignment, "--alignment-");
  options_.search.beam.never = never_written(loaded_.target, options.allow_unk);
}

Translator::Translator(const DecodeConfig& config) : Translator(load_model(config), translator_options(config)) {}

Sentence Translator::encode(const std::string& line) {
  ++counts_.lines;
  Encoded encoded = encode_line(loaded_.source, line, limit_.tokens);
  if (encoded.cut_from > 0) cut_.warn(counts_.lines, cut_message(encoded, limit_));
  if (!is_valid_utf8(line))
    not_utf8_.warn(counts_.lines, "is not UTF-8; its broken bytes are read as unknown characters");
  counts_.source_tokens += static_cast<int64_t>(encoded.tokens.size());
  const int64_t unknown = std::ranges::count(encoded.tokens, loaded_.source.unk());
  counts_.unknown += unknown;
  counts_.with_unknown += unknown > 0 ? 1 : 0;
  return std::move(encoded.tokens);
}

TermDemands::Found Translator::demands_of(const std::string& line, int64_t source_tokens) const {
  if (!options_.terms) return {};
  const double factor = options_.search.max_length_factor;
  return term_demands_.find(*options_.terms, line, longest_translation(loaded_.model->config(), factor, source_tokens));
}

void Translator::warn_of_missing(int64_t line, std::span<const text::Term> missing) {
  if (missing.empty()) return;
  std::vector<std::string> targets;
  for (const text::Term& term : missing) targets.push_back(cat("'", term.target, "'"));
  lack_terms_.warn(line, cat("has no room for ", join(targets, ", "),
                             " in its longest translation; see "
                             "--max-length-factor"));
}

std::vector<Sentence> Translator::translate_tokens(std::span<const Sentence> sources) {
  std::vector<Sentence> best;
  for (auto& hypotheses : translate_all(model_, sources, options_.search, options_.limits)) {
    best.push_back(std::move(hypotheses.front().tokens));
    counts_.target_tokens += std::ssize(best.back()) + 1;
  }
  for (const Sentence& source : sources) counts_.source_tokens += std::ssize(source);
  return best;
}

// Counts what is done, and notes the terms that are missing.
void Translator::search(Window& window, const search::TakeBest& take) {
  std::vector<search::Demands> demands;
  for (const TermDemands::Found& of : window.terms) demands.push_back(of.demands);
  const auto take_counted = [&](int64_t source, std::vector<search::Hypothesis> best) {
    const auto s = static_cast<size_t>(source);
    counts_.target_tokens += std::ssize(best.front().tokens) + 1;
    counts_.ended += best.front().is_cut ? 1 : 0;
    counts_.with_terms += demands[s].empty() ? 0 : 1;
    TermDemands::Found& terms = window.terms[s];
    for (const size_t demand : demands[s].unsaid(best.front().tokens)) terms.missing.push_back(terms.terms[demand]);
    take(source, std::move(best));
  };
  translate_all(model_, {window.sources, demands}, options_.search, options_.limits, take_counted);
}

std::vector<Translation> Translator::texts_of(const std::vector<search::Hypothesis>& best) const {
  std::vector<Translation> texts;
  for (const search::Hypothesis& hypothesis : best) texts.push_back({models::written_text(loaded_.target, hypothesis)});
  return texts;
}

void Translator::translate_with_links(std::span<const std::string> lines, Window& window,
                                      const TakeTranslations& take) {
  std::vector<std::vector<Translation>> results(lines.size());
  std::vector<std::vector<Sentence>> hypotheses(lines.size());
  search(window, [&](int64_t source, const std::vector<search::Hypothesis>& best) {
    const size_t line = window.line_of[static_cast<size_t>(source)];
    results[line] = texts_of(best);
    for (const search::Hypothesis& hypothesis : best) hypotheses[line].push_back(hypothesis.tokens);
  });
  const LinkPass pass{*options_.alignment, limit_.tokens, options_.limits, "translating"};
  std::vector<std::vector<analysis::Links>> links = links_of(loaded_, lines, hypotheses, pass);
  for (const size_t line : window.line_of) {
    for (size_t i = 0; i < links[line].size(); ++i) results[line][i].links = std::move(links[line][i]);
    take(line, std::move(results[line]));
  }
}

void Translator::translate(std::span<const std::string> lines, const TakeTranslations& take) {
  Window window;
  const int64_t first_line = counts_.lines + 1;
  for (size_t i = 0; i < lines.size(); ++i) {
    Sentence source = encode(lines[i]);
    if (source.size() == 1) {
      take(i, {Translation{}});
      continue;
    }
    window.terms.push_back(demands_of(lines[i], std::ssize(source)));
    window.sources.push_back(std::move(source));
    window.line_of.push_back(i);
  }
  if (options_.alignment) {
    translate_with_links(lines, window, take);
  } else {
    search(window, [&](int64_t source, const std::vector<search::Hypothesis>& best) {
      take(window.line_of[static_cast<size_t>(source)], texts_of(best));
    });
  }
  for (size_t s = 0; s < window.terms.size(); ++s)
    warn_of_missing(first_line + static_cast<int64_t>(window.line_of[s]), window.terms[s].missing);
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
