#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "fovea/base/fields.h"
#include "fovea/base/strings.h"
#include "fovea/spec/attention_spec.h"
#include "fovea/spec/config_problems.h"
#include "fovea/spec/run_options.h"

namespace fovea::inspect {

// The options of `fovea report` for every task.
struct ReportFields {
  std::string output, input, source, compare, compare_attention;
  std::vector<std::string> train_sets, sweep;
  int64_t sentences = 20, max_length = 512;
};

template <class C>
constexpr auto report_fields(std::string_view train_sets_help) {
  return std::tuple(
      named("output", &C::output, "page to write, a name that ends in .html", "o"),
      named("input", &C::input, "text to show, one sentence per line, may be compressed; - is standard input", "i"),
      field("source", &C::source, "one sentence to show"), named("train-sets", &C::train_sets, train_sets_help, "t"),
      number("sentences", &C::sentences, "sentences to show, from the first", 1, 1000),
      number("max-length", &C::max_length, "longest sentence that is accepted, in tokens", 1, 2000),
      field("compare", &C::compare, "second model to show beside the first: folder of a run or of a checkpoint"),
      field("compare-attention", &C::compare_attention,
            "show the same model beside it with this mechanism in every attention"),
      at_most(64, field("sweep", &C::sweep,
                        "draw the loss of the sentences under these mechanisms too, without training: SPEC, or "
                        "encoder=SPEC, decoder=SPEC or cross=SPEC for one sort of attention")));
}

inline void add_report_problems(const ReportFields& fields, Problems& problems) {
  problems.add_if(!fields.output.ends_with(".html"),
                  fields.output.empty()
                      ? std::string("--output is missing; expected a name that ends in .html")
                      : cat("--output: got '", fields.output, "'; expected a name that ends in .html"));
  const int inputs =
      (fields.input.empty() ? 0 : 1) + (fields.source.empty() ? 0 : 1) + (fields.train_sets.empty() ? 0 : 1);
  problems.add_if(inputs == 0, "no text to show; give --input FILE, --source TEXT or --train-sets");
  problems.add_if(inputs > 1, "--input, --source and --train-sets are three ways to give the text; choose one");
  problems.add_if(!fields.compare.empty() && !fields.compare_attention.empty(),
                  "--compare and --compare-attention both name what stands beside the model; choose one");
  if (!fields.compare_attention.empty())
    problems.add_thrown_by("compare-attention", [&] { parse_layer_spec(fields.compare_attention); });
}

// The options for what --compare or --compare-attention names. `Options` has ReportFields and TrainedModelOptions.
template <class Options>
Options compared(Options options) {
  static_cast<AttentionOverride&>(options) = {.attention = options.compare_attention};
  if (!options.compare.empty()) options.model = options.compare;
  return options;
}
inline bool compares(const ReportFields& fields) {
  return !fields.compare.empty() || !fields.compare_attention.empty();
}

inline std::string compared_name(const ReportFields& fields, const std::string& model) {
  return fields.compare.empty() ? cat(model, " with ", fields.compare_attention) : fields.compare;
}

// The name of line `line` of the text in messages.
inline std::string report_place(const ReportFields& fields, int64_t line) {
  if (!fields.source.empty()) return "--source";
  return cat(fields.input.empty() ? "--train-sets" : "--input", ", line ", thousands(line));
}

[[noreturn]] inline void refuse_empty_text(const ReportFields& fields) {
  throw Error(cat(fields.input.empty() ? "--train-sets" : "--input",
                  ": the text has no line with words; expected a sentence per line"));
}

// Throws an Error for a sentence of `tokens` tokens that is too long for the page or for the model, whose learned
// positions end at `positions`.
struct ReportLimit {
  int64_t page = 0, positions = 0;
  int64_t most() const { return page < positions ? page : positions; }
};
inline void require_report_length(const std::string& place, int64_t tokens, const ReportLimit& limit) {
  if (tokens <= limit.most()) return;
  throw Error(cat(place, ": got ", thousands(tokens), " tokens; expected at most ", thousands(limit.most()),
                  limit.positions < limit.page ? ", the positions that the model has learned; shorten the sentence"
                                               : "; shorten the sentence or raise --max-length"));
}

}  // namespace fovea::inspect
