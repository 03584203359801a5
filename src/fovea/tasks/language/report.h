#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/inspect/report_options.h"
#include "fovea/tasks/language/model_options.h"

namespace fovea::language {

// `fovea report` for language models.
struct ReportOptions : LanguageModelOptions, inspect::ReportFields, LogOptions {
  static constexpr auto fields() {
    using C = ReportOptions;
    return std::tuple_cat(model_fields<C>("float32|bfloat16"),
                          inspect::report_fields<C>("text to show, line by line, may be compressed"),
                          LogOptions::fields());
  }
  std::vector<std::vector<std::string>> inputs() const { return {train_sets, {input}}; }
};
void validate(const ReportOptions& options);

// Writes the page; each line of the text is a sentence that stands alone. Returns the number of sentences in it.
int64_t run_report(const ReportOptions& options);

}  // namespace fovea::language
