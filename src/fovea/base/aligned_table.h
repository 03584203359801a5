#pragma once
#include <string>
#include <vector>

namespace fovea {

enum class CellSide { kLeft, kRight };

// Returns `rows`, which begin with the header, as lines of columns that are two spaces apart. The texts of a column
// begin below one another (kLeft) or end below one another (kRight). Control characters become spaces.
std::string aligned_table(std::vector<std::vector<std::string>> rows, CellSide side = CellSide::kLeft);

}  // namespace fovea
