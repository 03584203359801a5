#include "fovea/text/corpus.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "fovea/base/error.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/spec/config_problems.h"
#include "fovea/text/corpus_clean.h"
#include "fovea/text/corpus_documents.h"
#include "fovea/text/corpus_formats.h"
#include "fovea/text/corpus_readers.h"
#include "fovea/text/corpus_split.h"
#include "fovea/text/corpus_write.h"
#include "fovea/text/grammar.h"
#include "fovea/text/sentences.h"
#include "fovea/text/unicode.h"

namespace fovea::text {
namespace {

// A paragraph's sentences, where both sides have as many; else the paragraph.
void split_sentences(Pair pair, SentenceSplitter& source, SentenceSplitter& target, std::vector<Pair>& out) {
  std::vector<std::string> from, to;
  if (is_valid_utf8(pair.source) && is_valid_utf8(pair.target)) {
    from = source.split(pair.source);
    to = target.split(pair.target);
  }
  if (from.size() < 2 || from.size() != to.size()) {
    out.push_back(std::move(pair));
    return;
  }
  for (size_t i = 0; i < from.size(); ++i) out.push_back({std::move(from[i]), std::move(to[i])});
}

// A language that all inputs must share; empty where one does not say.
void agree(std::string& language, const std::string& found, const std::string& path) {
  if (language.empty()) language = found;
  if (!found.empty() && found != language)
    throw Error(cat("corpus: '", path, "' is in '", found, "', but the files before it in '", language,
                    "'; expected one language pair; if they are the same, say --languages"));
}

// The sides in the order of --languages, as far as the input says which is which.
void turn_to_languages(Bitext& bitext, const CorpusOptions& options, const std::string& path) {
  const auto fits = [](const std::string& found, const std::string& wanted) {
    return found.empty() || same_language(found, wanted);
  };
  const std::string wanted_source = options.source(), wanted_target = options.target();
  if (fits(bitext.source_lang, wanted_source) && fits(bitext.target_lang, wanted_target)) return;
  const bool says = !bitext.source_by_custom || !bitext.target_lang.empty();
  if (says && fits(bitext.source_lang, wanted_target) && fits(bitext.target_lang, wanted_source)) {
    for (Pair& pair : bitext.pairs) std::swap(pair.source, pair.target);
    return;
  }
  if (!says) return;
  std::vector<std::string> found = {bitext.source_lang, bitext.target_lang};
  std::erase(found, "");
  log::warn(cat("'", path, "' says that it is in '", join(found, "' and '"), "'; it is read as '", wanted_source,
                "' and '", wanted_target, "', as --languages say"));
}

// Made-up sentences need no cleaning, and are not read in any format.
void require_generated_options(const CorpusOptions& options) {
  static constexpr std::array<std::string_view, 6> kRead = {"output", "languages", "valid", "test", "seed", "generate"};
  for (const std::string_view name : changed_fields(options))
    if (std::ranges::find(kRead, name) == kRead.end())
      throw UsageError(cat("--", name, ": is for text that is read; got it with --generate; leave one of them out"));
}

void require_columns_to_read(const CorpusOptions& options, const std::vector<CorpusInput>& inputs) {
  const CorpusOptions usual;
  const bool has_table = std::ranges::any_of(inputs, [](const CorpusInput& i) { return i.format->name == "tsv"; });
  const auto refuse = [&](bool is_given, const char* option) {
    if (is_given && !has_table) throw UsageError(cat(option, ": is for TSV files; got none; leave it out"));
  };
  refuse(options.source_column != usual.source_column, "--source-column");
  refuse(options.target_column != usual.target_column, "--target-column");
}

// All inputs, rewritten and split into sentences where that is wanted.
Bitext read_all(const CorpusOptions& options, CorpusReport& report) {
  Bitext all{.source_lang = options.source(), .target_lang = options.target(), .pairs = {}};
  Rewriter rewriter(options);
  const std::vector<CorpusInput> inputs = list_corpus_inputs(options);
  require_columns_to_read(options, inputs);
  for (const CorpusInput& input : inputs) {
    throw_if_interrupted("reading the corpus");
    Bitext bitext = input.format->read(input, options);
    if (!options.languages.empty()) {
      // The suffix of aligned text does not state a language, and TMX was read by these languages.
      if (input.format->is_catalogue()) turn_to_languages(bitext, options, input.path);
    } else {
      agree(all.source_lang, bitext.source_lang, input.path);
      agree(all.target_lang, bitext.target_lang, input.path);
    }
    report.read += std::ssize(bitext.pairs) + bitext.unfinished;
    all.unfinished += bitext.unfinished;
    const bool by_itself = input.format->kind != Kind::kProse;
    const bool splits = options.sentences == "split" || (options.sentences == "auto" && by_itself);
    SentenceSplitter source(all.source_lang), target(all.target_lang);
    log::Progress progress(cat("cleaning ", input.path), static_cast<double>(bitext.pairs.size()));
    int64_t done = 0;
    for (Pair& pair : bitext.pairs) {
      throw_if_interrupted("cleaning the corpus");
      if ((++done & 0xfff) == 0) progress.at(static_cast<double>(done));
      rewriter.rewrite(pair, input.format->kind);
      if (splits) {
        split_sentences(std::move(pair), source, target, all.pairs);
      } else {
        all.pairs.push_back(std::move(pair));
      }
    }
  }
  report.changed = rewriter.counts();
  return all;
}

void check(const CorpusOptions& options) {
  if (options.output.empty()) throw UsageError("--output: got none; expected a folder to write into");
  if (options.documents) check_document_options(options);
  const bool reads = !options.inputs.empty();
  if (!reads && options.generate == 0)
    throw UsageError(cat("corpus: got no files; expected ", corpus_inputs_in_words(), "; or --generate N"));
  if (reads && options.generate > 0)
    throw UsageError("--generate: got files too; expected either files or --generate N");
  if (options.generate > 0) require_generated_options(options);
  const std::vector<std::string>& languages = options.languages;
  if (!languages.empty() && (languages.size() != 2 || languages[0] == languages[1]))
    throw UsageError(
        cat("--languages: got ", join(languages, " "), "; expected two different ones, from and into: en de"));
}

}  // namespace

void name_languages(Bitext& bitext) {
  const auto clean = [](std::string& name) {
    const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '@';
    });
    if (!plain || name.size() > 40) name.clear();
  };
  clean(bitext.source_lang);
  clean(bitext.target_lang);
  if (bitext.source_lang.empty()) bitext.source_lang = "src";
  if (bitext.target_lang.empty() || bitext.target_lang == bitext.source_lang)
    bitext.target_lang = bitext.source_lang == "trg" ? "trg2" : "trg";
}

void nothing_left(const CorpusReport& report) {
  std::vector<std::string> reasons;
  for (const auto& [what, pairs] : report.dropped)
    if (pairs > 0) reasons.push_back(cat(thousands(pairs), " ", what));
  throw Error(cat("corpus: nothing is left of ", thousands(report.read), " pairs",
                  reasons.empty() ? "; expected files with translated text" : ": " + join(reasons, ", ")));
}

CorpusReport run_corpus(const CorpusOptions& options) {
  check(options);
  const CorpusFolder folder(options.output);
  CorpusReport report;
  if (options.documents) {
    write_documents(read_documents(options, report), options, report);
    return report;
  }
  Bitext bitext;
  if (options.generate > 0) {
    bitext = generate_bitext({.pairs = options.generate, .seed = options.seed});
    if (!options.languages.empty()) bitext.source_lang = options.source(), bitext.target_lang = options.target();
    report.read = std::ssize(bitext.pairs);
    report.segments = report.read;
  } else {
    bitext = read_all(options, report);
    report.segments = std::ssize(bitext.pairs) + bitext.unfinished;
    report.dropped.push_back({"marked as unfinished", bitext.unfinished});
    drop_unusable(bitext.pairs, options, report.dropped);
  }
  if (bitext.pairs.empty()) nothing_left(report);
  name_languages(bitext);
  const int64_t kept = std::ssize(bitext.pairs);
  const Split split = split_corpus(std::move(bitext.pairs), options);
  const auto placed = static_cast<int64_t>(split[0].size() + split[1].size() + split[2].size());
  report.dropped.push_back({"further translations of a source set aside", kept - placed});
  write_split(split, bitext, options, report);
  return report;
}

std::string describe(const CorpusReport& report) {
  std::string text;
  const auto row = [&text](const std::string& what, int64_t count, const std::string& more = {}) {
    const std::string number = thousands(count);
    text += cat(what, std::string(what.size() < 48 ? 48 - what.size() : 1, ' '),
                std::string(number.size() < 12 ? 12 - number.size() : 0, ' '), number, more, "\n");
  };
  row("pairs read", report.read);
  if (report.segments != report.read) row("  as sentences", report.segments);
  for (const auto& [what, pairs] : report.changed)
    if (pairs > 0) row("  " + what, pairs);
  for (const auto& [what, pairs] : report.dropped)
    if (pairs > 0) row("  dropped: " + what, -pairs);
  for (const auto& part : report.parts)
    row(part.name, part.pairs,
        cat("   ", thousands(part.source_words), " and ", thousands(part.target_words), " words"));
  return text;
}

}  // namespace fovea::text
