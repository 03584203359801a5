#include "fovea/text/corpus.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/text/corpus_clean.h"
#include "fovea/text/corpus_readers.h"
#include "fovea/text/corpus_split.h"
#include "fovea/text/grammar.h"
#include "fovea/text/sentences.h"
#include "fovea/text/unicode.h"

namespace fovea::text {
namespace fs = std::filesystem;
namespace {

struct Input {
  std::string format, path, second;  // second: of aligned files and help folders
};

bool takes_two(const std::string& format) { return format == "aligned" || format == "help"; }

// "de.po.gz" -> "po".
std::string extension_of(fs::path path) {
  for (const char* packed : {".gz", ".xz", ".bz2", ".zst"})
    if (path.extension() == packed) path.replace_extension();
  const std::string extension = path.extension();
  return extension.empty() ? extension : extension.substr(1);
}

std::string format_of(const std::string& path, const CorpusOptions& options) {
  if (options.format != "auto") return options.format;
  if (fs::is_directory(path)) return "help";
  const std::string extension = extension_of(path);
  static constexpr std::array kByExtension = {
      std::pair{"po", "po"},   std::pair{"pot", "po"},    std::pair{"mo", "mo"},
      std::pair{"gmo", "mo"},  std::pair{"tsv", "tsv"},   std::pair{"tab", "tsv"},
      std::pair{"tmx", "tmx"}, std::pair{"xlf", "xliff"}, std::pair{"xliff", "xliff"}};
  for (const auto& [name, format] : kByExtension)
    if (extension == name) return format;
  return "aligned";
}

std::string source_of(const CorpusOptions& options) { return options.languages.empty() ? "" : options.languages[0]; }
std::string target_of(const CorpusOptions& options) { return options.languages.empty() ? "" : options.languages[1]; }

std::vector<Input> list_inputs(const CorpusOptions& options) {
  std::vector<Input> inputs;
  if (!options.libreoffice.empty())
    inputs.push_back({.format = "help",
                      .path = find_help(options.libreoffice, source_of(options)),
                      .second = find_help(options.libreoffice, target_of(options))});
  for (size_t i = 0; i < options.inputs.size(); ++i) {
    const std::string& path = options.inputs[i];
    Input input{.format = format_of(path, options), .path = path, .second = {}};
    if (input.format != "help") require_file(path, "corpus");
    if (input.format == "help" && !fs::is_directory(path))
      throw Error(cat("corpus: '", path, "' is not a folder; expected two folders of help pages, source and target"));
    if (takes_two(input.format)) {
      if (++i == options.inputs.size())
        throw UsageError(cat("corpus: got '", path, "' alone; expected ",
                             input.format == "help" ? "a second folder" : "a second, aligned file",
                             " after it with the translations"));
      input.second = options.inputs[i];
      if (input.format == "aligned") require_file(input.second, "corpus");
      if (input.format == "help" && !fs::is_directory(input.second))
        throw Error(cat("corpus: '", input.second, "' is not a folder, but '", path, "' before it is"));
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

Bitext read(const Input& input, const CorpusOptions& options) {
  if (input.format == "po") return read_po(input.path);
  if (input.format == "mo") return read_mo(input.path);
  if (input.format == "tsv") return read_tsv(input.path, options.source_column, options.target_column);
  if (input.format == "tmx") return read_tmx(input.path, {source_of(options), target_of(options)});
  if (input.format == "xliff") return read_xliff(input.path);
  if (input.format == "help") return read_help(input.path, input.second);
  return read_aligned(input.path, input.second);
}

bool is_catalogue(const std::string& format) { return format == "po" || format == "mo" || format == "xliff"; }

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

Kind kind_of(const std::string& format) {
  if (format == "help") return Kind::kPages;
  return is_catalogue(format) ? Kind::kInterface : Kind::kProse;
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
  const std::string wanted_source = source_of(options), wanted_target = target_of(options);
  if (fits(bitext.source_lang, wanted_source) && fits(bitext.target_lang, wanted_target)) return;
  // A gettext catalogue's source language is English by custom alone.
  const bool says = !bitext.target_lang.empty();
  if (says && fits(bitext.source_lang, wanted_target) && fits(bitext.target_lang, wanted_source)) {
    for (Pair& pair : bitext.pairs) std::swap(pair.source, pair.target);
    return;
  }
  if (!says) return;
  log::warn(cat("'", path, "' says that it is in '", bitext.source_lang, "' and '", bitext.target_lang,
                "'; it is read as '", wanted_source, "' and '", wanted_target, "', as --languages say"));
}

// All inputs, rewritten and split into sentences where that is wanted.
Bitext read_all(const CorpusOptions& options, CorpusReport& report) {
  Bitext all{.source_lang = source_of(options), .target_lang = target_of(options), .pairs = {}};
  Rewriter rewriter(options);
  for (const Input& input : list_inputs(options)) {
    throw_if_interrupted("reading the corpus");
    Bitext bitext = read(input, options);
    if (!options.languages.empty()) {
      // The suffix of aligned text is no statement, and TMX was read by these languages.
      if (is_catalogue(input.format)) turn_to_languages(bitext, options, input.path);
    } else {
      agree(all.source_lang, bitext.source_lang, input.path);
      agree(all.target_lang, bitext.target_lang, input.path);
    }
    report.read += std::ssize(bitext.pairs);
    const bool by_itself = is_catalogue(input.format) || input.format == "help";
    const bool splits = options.sentences == "split" || (options.sentences == "auto" && by_itself);
    SentenceSplitter source(all.source_lang), target(all.target_lang);
    log::Progress progress(cat("cleaning ", input.path), static_cast<double>(bitext.pairs.size()));
    int64_t done = 0;
    for (Pair& pair : bitext.pairs) {
      throw_if_interrupted("cleaning the corpus");
      if ((++done & 0xfff) == 0) progress.at(static_cast<double>(done));
      rewriter.rewrite(pair, kind_of(input.format));
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

void write_side(const std::string& path, const std::vector<Pair>& pairs, std::string Pair::*side) {
  LineWriter writer(path);
  for (const Pair& pair : pairs) writer.line(pair.*side);
  writer.close();
}

int64_t words_of(const std::vector<Pair>& pairs, std::string Pair::*side) {
  double words = 0;
  for (const Pair& pair : pairs) words += measure(pair.*side).words;
  return static_cast<int64_t>(words);
}

void write_split(const Split& split, const Bitext& languages, const CorpusOptions& options, CorpusReport& report) {
  std::error_code failed;
  fs::create_directories(options.output, failed);
  if (failed) throw Error(cat("--output: cannot make the folder '", options.output, "': ", failed.message()));
  const auto path_of = [&](size_t part, const std::string& suffix) {
    return (fs::path(options.output) / cat(kPartNames[part], ".", suffix)).string();
  };
  for (size_t part = 0; part < split.size(); ++part) {
    for (const std::string& suffix : {languages.source_lang, languages.target_lang}) {
      require_other_file("--output", path_of(part, suffix), options.inputs);
    }
  }
  for (size_t part = 0; part < split.size(); ++part) {
    const std::vector<Pair>& pairs = split[part];
    const auto write = [&](const std::string& suffix, std::string Pair::*side) {
      const std::string path = path_of(part, suffix);
      write_side(path, pairs, side);
      report.files.push_back(path);
    };
    write(languages.source_lang, &Pair::source);
    write(languages.target_lang, &Pair::target);
    if (options.generate > 0) write("align", &Pair::alignment);
    report.parts.push_back(
        {kPartNames[part], std::ssize(pairs), words_of(pairs, &Pair::source), words_of(pairs, &Pair::target)});
  }
}

void check(const CorpusOptions& options) {
  if (options.output.empty()) throw UsageError("--output: got none; expected a folder to write into");
  const bool reads = !options.inputs.empty() || !options.libreoffice.empty();
  if (!reads && options.generate == 0)
    throw UsageError(
        "corpus: got no files; expected .po, .mo, .tsv, .tmx, .xliff, two aligned files, two folders of "
        "help pages, --libreoffice FOLDER, or --generate N");
  if (reads && options.generate > 0)
    throw UsageError("--generate: got files too; expected either files or --generate N");
  const std::vector<std::string>& languages = options.languages;
  if (!languages.empty() && (languages.size() != 2 || languages[0] == languages[1]))
    throw UsageError(
        cat("--languages: got ", join(languages, " "), "; expected two different ones, from and into: en de"));
  if (!options.libreoffice.empty() && languages.empty())
    throw UsageError("--languages: got none; --libreoffice expects two, from and into: en de");
}

// Suffixes of file names: what a file says of its language is not trusted with more than letters.
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

[[noreturn]] void nothing_left(const CorpusReport& report) {
  std::vector<std::string> reasons;
  for (const auto& [what, pairs] : report.dropped)
    if (pairs > 0) reasons.push_back(cat(thousands(pairs), " ", what));
  throw Error(cat("corpus: nothing is left of ", thousands(report.read), " pairs",
                  reasons.empty() ? "; expected files with translated text" : ": " + join(reasons, ", ")));
}

}  // namespace

CorpusReport run_corpus(const CorpusOptions& options) {
  check(options);
  CorpusReport report;
  Bitext bitext;
  if (options.generate > 0) {
    bitext = generate_bitext({.pairs = options.generate, .seed = options.seed});
    if (!options.languages.empty()) bitext.source_lang = source_of(options), bitext.target_lang = target_of(options);
    report.read = std::ssize(bitext.pairs);
    report.segments = report.read;
  } else {
    bitext = read_all(options, report);
    report.segments = std::ssize(bitext.pairs);
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
