#include "fovea/base/aligned_table.h"

#include <algorithm>
#include <cstddef>

#include "fovea/base/error.h"

namespace fovea {
namespace {

// The characters of UTF-8.
size_t width_of(const std::string& cell) {
  return static_cast<size_t>(std::ranges::count_if(cell, [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::string aligned_table(std::vector<std::vector<std::string>> rows, CellSide side) {
  std::vector<size_t> widths(rows.front().size(), 0);
  for (auto& row : rows) {
    std::ranges::transform(row, row.begin(), one_line);
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width_of(row[c]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string space(widths[c] - width_of(row[c]) + 2, ' ');
      line += side == CellSide::kLeft ? row[c] + space : space + row[c];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace fovea
