#pragma once
#include <cstdint>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "fovea/base/fields.h"
#include "fovea/metrics/bleu.h"
#include "fovea/metrics/bootstrap.h"
#include "fovea/metrics/tokenize.h"

namespace fovea::metrics {

std::string_view metrics_help();  // of --metrics, from the list of them in metric.cc

struct EvaluateOptions {
  std::vector<std::string> reference, baseline;
  std::string input = "-";
  std::vector<std::string> metrics = {"bleu"};
  std::string tokenize = "13a", smooth_method = "exp";
  double smooth_value = -1;
  bool lowercase = false, chrf_whitespace = false, compound_split = false, sentence_level = false, confidence = false;
  bool ter_case_sensitive = false, ter_normalized = false, ter_no_punct = false, ter_asian_support = false;
  bool documents = false;
  int64_t bands = 0;
  std::string bands_by;
  int64_t confidence_n = 1000, seed = kBootstrapSeed, width = 2;
  bool json = false, score_only = false;
  std::string meteor_jar;

  static auto fields() {
    using O = EvaluateOptions;
    return std::tuple(
        named("reference", &O::reference, "file of references, one line per segment; several files: several references",
              "r,references"),
        named("input", &O::input, "file of translations, - for standard input", "i"),
        field("baseline", &O::baseline,
              "translations of another system to compare with, by paired bootstrap resampling; several files: several "
              "systems"),
        named("metrics", &O::metrics, metrics_help(), "m"), named("tokenize", &O::tokenize, tokenizers_help(), "tok"),
        choice("smooth-method", &O::smooth_method, "what BLEU takes for a precision of zero", smooth_choices()),
        number("smooth-value", &O::smooth_value, smooth_value_help(), -1, 1e9),
        named("lowercase", &O::lowercase, "compare without case", "lc"),
        field("chrf-whitespace", &O::chrf_whitespace, "let chrF count white space"),
        field("ter-case-sensitive", &O::ter_case_sensitive, "let TER tell upper from lower case"),
        field("ter-normalized", &O::ter_normalized,
              "before TER, read entities such as &quot; as characters and set marks apart from words"),
        field("ter-no-punct", &O::ter_no_punct, "before TER, remove . , ? : ; ! \" ( )"),
        field("ter-asian-support", &O::ter_asian_support,
              "with --ter-normalized, split Chinese characters too; with --ter-no-punct, remove East Asian marks too"),
        field(
            "compound-split", &O::compound_split,
            "before multi-bleu, split a-b into a ##AT##-##AT## b in both texts, as published English-German scores do"),
        named("sentence-level", &O::sentence_level, "print one score per line, by one metric", "sl"),
        field(
            "documents", &O::documents,
            "score whole documents (d-BLEU) and lines; a line <d> or an empty line of the reference begins a document"),
        number("bands", &O::bands,
               "also score N groups of equally many segments, from the shortest to the longest (0: none)", 0, 1e6),
        field(
            "bands-by", &O::bands_by,
            "file whose lines' lengths make the groups of --bands, such as the source (default: the first reference)"),
        named("confidence", &O::confidence, "95% confidence interval by bootstrap resampling", "ci"),
        number("confidence-n", &O::confidence_n, "resamples of the bootstrap", 2, 1e7),
        number("seed", &O::seed, "random seed of the bootstrap; sacreBLEU's is the default", 0, 4294967295),
        named(number("width", &O::width, "digits after the decimal point", 0, 15), "w"),
        field("meteor-jar", &O::meteor_jar, "program of METEOR 1.5, a file that Java runs; adds METEOR to the metrics"),
        field("json", &O::json, "print JSON as sacreBLEU does"),
        named("score-only", &O::score_only, "print nothing but the score", "b"));
  }
};

using Lines = std::vector<std::string>;

struct NamedLines {
  std::string name;  // the file, for messages and for the report's baselines; may be empty
  Lines lines;
};

// Returns the report on a system's translations against one or several lists of references, and against baselines, all
// of the same length; it ends with a newline. With `documents`, each metric comes twice: of documents, whose lines are
// joined by blanks, with "d-" before its name, and of lines. The lengths of --bands are those of `measured`, or of
// the first reference.
std::string report(const EvaluateOptions& options, const NamedLines& system, std::span<const NamedLines> references,
                   std::span<const NamedLines> baselines = {}, const std::optional<NamedLines>& measured = {});

// Reads the files of the options and writes the report.
void evaluate(const EvaluateOptions& options, std::ostream& out);

}  // namespace fovea::metrics
