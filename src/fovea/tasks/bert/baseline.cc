#include "fovea/tasks/bert/baseline.h"

#include <array>
#include <optional>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/numbers.h"
#include "fovea/base/strings.h"

namespace fovea::bert {

BertScore parse_baseline(std::span<const std::string> lines, const std::string& path, int64_t layer) {
  const auto row = static_cast<size_t>(layer) + 1;  // behind the line of names
  if (row >= lines.size())
    throw Error(cat("--bertscore-baseline: '", path, "' has ", lines.empty() ? 0 : lines.size() - 1,
                    " rows; expected one for layer ", layer, " (LAYER,P,R,F)"));
  const std::vector<std::string> columns = split(lines[row], ',');
  BertScore baseline;
  const std::array<double*, 3> values = {&baseline.precision, &baseline.recall, &baseline.f1};
  bool fits = columns.size() == 4 && number_in<int64_t>(trim(columns[0])) == layer;
  for (size_t i = 0; fits && i < values.size(); ++i) {
    const std::optional<double> value = number_in<double>(trim(columns[i + 1]), -1.0, 1.0);  // a mean of cosines
    fits = value && *value < 1;
    *values[i] = value.value_or(0);
  }
  if (fits) return baseline;
  throw Error(cat("--bertscore-baseline: '", path, "', line ", row + 1, ": got '", lines[row].substr(0, 60),
                  "'; expected ", layer, ",P,R,F with numbers from -1 to below 1"));
}

}  // namespace fovea::bert
