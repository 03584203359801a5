#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/inspect/report_options.h"
#include "fovea/spec/run_options.h"

namespace fovea::translation {

// `fovea report` for translation models.
struct ReportOptions : ModelOptions, inspect::ReportFields, LogOptions {
  std::string reference, target;
  int64_t beam_size = 5;

  static constexpr auto fields() {
    using C = ReportOptions;
    const auto own = std::tuple(
        named("reference", &C::reference, "translations of --input, line by line (default: the model's own)", "r"),
        field("target", &C::target, "the translation of --source (default: the model's own)"),
        number("beam-size", &C::beam_size, "beam of the model's own translations", 1, 1000));
    return std::tuple_cat(
        ModelOptions::fields(),
        inspect::report_fields<C>("source and target text to show, one sentence per line, may be compressed"), own,
        LogOptions::fields());
  }
  std::vector<std::vector<std::string>> inputs() const { return {train_sets, vocabs, {input}, {reference}}; }
};
void validate(const ReportOptions& options);

// Writes the page. Returns the number of sentences in it.
int64_t run_report(const ReportOptions& options);

}  // namespace fovea::translation
