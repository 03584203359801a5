#include "fovea/analysis/picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace fovea::analysis {
namespace {

constexpr size_t kLongestLabel = 16;  // characters

std::vector<std::string> characters(const std::string& text) {
  std::vector<std::string> out;
  for (const char c : text) {
    const bool continues = (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
    if (continues && !out.empty()) {
      out.back() += c;
    } else {
      out.emplace_back(1, c);
    }
  }
  if (out.size() > kLongestLabel) {
    out.resize(kLongestLabel);
    out.back() = "…";
  }
  return out;
}

// greatest: of the row, in magnitude.
std::string shade(float weight, float greatest) {
  static constexpr std::array<const char*, 4> kShades = {"░", "▒", "▓", "█"};
  if (std::isnan(weight)) return "??";
  if (weight == 0) return "· ";
  const std::string shade = kShades[std::min<size_t>(static_cast<size_t>(4 * std::abs(weight) / greatest), 3)];
  return (weight < 0 ? "-" : shade) + shade;
}

}  // namespace

std::string draw(const AttentionPicture& picture) {
  std::vector<std::vector<std::string>> columns;
  size_t height = 0, width = 0;
  for (const std::string& label : picture.sources) {
    columns.push_back(characters(label));
    height = std::max(height, columns.back().size());
  }
  for (const std::string& label : picture.targets) width = std::max(width, characters(label).size());

  std::string out;
  for (size_t line = 0; line < height; ++line) {
    out.append(width + 1, ' ');
    for (const auto& column : columns) {
      const size_t skipped = height - column.size();  // labels end just above their columns
      out += line < skipped ? " " : column[line - skipped];
      out += ' ';
    }
    out += '\n';
  }
  const size_t num_sources = picture.sources.size();
  for (size_t row = 0; row < picture.targets.size(); ++row) {
    const std::vector<std::string> label = characters(picture.targets[row]);
    out.append(width - label.size(), ' ');
    for (const std::string& character : label) out += character;
    out += ' ';
    const std::span<const float> weights(picture.weights.data() + row * num_sources, num_sources);
    float greatest = 0;
    for (const float weight : weights) greatest = std::max(greatest, std::abs(weight));
    for (const float weight : weights) out += shade(weight, greatest);
    out += '\n';
  }
  return out;
}

}  // namespace fovea::analysis
