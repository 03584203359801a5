#pragma once
#include <span>
#include <string>
#include <vector>

// The languages that the names of files say: train.en.gz is English.
namespace fovea::text {

// The code of each file's language, which stands behind the last dot of its name, or before the ending of a
// compression. Empty if a file's name has none.
std::vector<std::string> languages_of_files(std::span<const std::string> files);

// Whether these are the same two texts, or the same two languages by their names, with the sides swapped.
bool are_swapped_sides(std::span<const std::string> files, std::span<const std::string> others);

}  // namespace fovea::text
