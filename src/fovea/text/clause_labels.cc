#include "fovea/text/clause_labels.h"

#include <algorithm>
#include <vector>

#include "fovea/base/empty_line.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/text/unicode.h"

namespace fovea::text {
namespace {

std::vector<std::string> known_labels() {
  std::vector<std::string> labels(kSignalLabels.begin(), kSignalLabels.end());
  labels.emplace_back(kNoSignalLabel);
  return labels;
}

}  // namespace

Corrections read_corrections(const std::string& path) {
  Corrections corrections;
  if (path.empty()) return corrections;
  require_file(path, "--corrections");
  LineReader input(path);
  const std::vector<std::string> labels = known_labels();
  for (std::string line; input.next_text(line);) {
    const std::vector<std::string> columns = split_words(line);
    if (is_empty_line(line) || line.starts_with('#')) continue;
    const std::string place = cat("'", path, "' line ", input.line_number());
    if (columns.size() != 3)
      throw Error(cat(place, ": got ", columns.size(), columns.size() == 1 ? " column" : " columns",
                      "; expected three: a word, its tag or *, and a label"));
    if (std::ranges::find(labels, columns[2]) == labels.end())
      throw Error(cat(place, ": got the label '", columns[2], "'; expected one of ", join(labels, ", "),
                      did_you_mean(columns[2], labels)));
    corrections[{lower_case(columns[0]), columns[1]}] = columns[2];
  }
  return corrections;
}

std::string label_of(const ClauseDictionary::Tagged& signal, const std::string& word, const std::string& tag,
                     const Corrections& corrections) {
  const std::string folded = lower_case(word);
  for (const std::string& wanted : {tag, std::string("*")})
    if (const auto found = corrections.find({folded, wanted}); found != corrections.end()) return found->second;
  if (signal.role == ClauseDictionary::Role::kOther) return std::string(kNoSignalLabel);
  return std::string(kSignalLabels[static_cast<size_t>(signal.signal)]);
}

}  // namespace fovea::text
