#include "fovea/analysis/picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/text/unicode.h"

namespace fovea::analysis {
namespace {

constexpr size_t kLongestLabel = 16;  // characters

// The characters of a label, each with the marks on it.
std::vector<std::string> characters(const std::string& text) {
  const std::string label = one_line(text);
  std::vector<std::string> out;
  for (size_t i = 0, end = 0; i < label.size(); i = end) {
    for (end = i + 1; end < label.size() && (static_cast<unsigned char>(label[end]) & 0xC0U) == 0x80U;) ++end;
    const std::string character = label.substr(i, end - i);
    if (!out.empty() && text::terminal_columns(character) == 0) {
      out.back() += character;
    } else {
      out.push_back(character);
    }
  }
  if (out.size() > kLongestLabel) {
    out.resize(kLongestLabel);
    out.back() = "…";
  }
  return out;
}

// Blanks that make the label as many columns wide as the terminal is to give it.
std::string padding(const std::string& label, int64_t columns) {
  return std::string(static_cast<size_t>(std::max<int64_t>(columns - text::terminal_columns(label), 0)), ' ');
}

constexpr std::array<const char*, 4> kShades = {"░", "▒", "▓", "█"};

// greatest: of the picture, in magnitude.
std::string shade(float weight, float greatest) {
  if (std::isnan(weight)) return "??";
  if (weight == 0) return "· ";
  const float quarter = 4 * (std::abs(weight) / greatest);
  const std::string shade = kShades[quarter < 4 ? static_cast<size_t>(quarter) : 3];  // infinite weights are the last
  return (weight < 0 ? "-" : shade) + shade;
}

std::string legend(std::span<const float> weights, float greatest) {
  if (greatest == 0) return "";
  const bool has_negative = std::ranges::any_of(weights, [](float weight) { return weight < 0; });
  return cat("\n", join(std::vector<std::string>(kShades.begin(), kShades.end()), " "),
             " quarters of the greatest weight", has_negative ? " in magnitude" : "", ", ",
             fixed(greatest, greatest < 0.1F ? 4 : 2), "\n");
}

}  // namespace

std::string draw(const AttentionPicture& picture) {
  std::vector<std::vector<std::string>> sources;
  size_t height = 0;
  for (const std::string& label : picture.sources) {
    sources.push_back(characters(label));
    height = std::max(height, sources.back().size());
  }
  std::vector<std::string> targets;
  int64_t width = 0;
  for (const std::string& label : picture.targets) {
    targets.push_back(join(characters(label), ""));
    width = std::max(width, text::terminal_columns(targets.back()));
  }

  std::string out;
  for (size_t line = 0; line < height; ++line) {
    out += padding("", width + 1);
    for (const auto& source : sources) {
      const size_t skipped = height - source.size();  // labels end just above their columns
      const std::string character = line < skipped ? "" : source[line - skipped];
      out += character + padding(character, 2);
    }
    out += '\n';
  }
  const size_t num_sources = sources.size();
  float greatest = 0;
  for (const float weight : picture.weights) greatest = std::max(greatest, std::abs(weight));
  for (size_t row = 0; row < targets.size(); ++row) {
    out += padding(targets[row], width) + targets[row] + ' ';
    for (const float weight : std::span(picture.weights).subspan(row * num_sources, num_sources))
      out += shade(weight, greatest);
    out += '\n';
  }
  return out + legend(picture.weights, greatest);
}

}  // namespace fovea::analysis
