#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/tasks/translation/pair_reader.h"

namespace fovea::translation {

inline constexpr int kScoreDigits = 6;

// A pair that --show prints.
struct ShownPair {
  std::string_view tenth;  // "best" or "worst"
  double score = 0;
  TextPair text;
};
std::string shown_line(const ShownPair& pair);

// Lines "[FROM, TO) 12 ###" of the scores' histogram.
std::vector<std::string> histogram_lines(std::span<const double> scores);

struct FilterSummary {
  std::string score;  // its name
  std::span<const double> scores;
  std::vector<ShownPair> shown = {};
  bool keeps = false;  // with --keep or --threshold
  int64_t kept = 0;
};
std::string filter_json(const FilterSummary& summary);

// Measures how well a score tells pairs from wrong ones.
struct Separation {
  std::string score, test;            // names
  std::span<const double> good, bad;  // equally many
  int64_t pairs = 0;                  // in the text
  // The scores by each layer alone, [layers][pairs]; empty if layers have none.
  std::vector<std::vector<double>> good_by_layer = {}, bad_by_layer = {};
};
std::string separation_text(const Separation& separation);  // begins with "AUC 0.1234"
std::string separation_json(const Separation& separation);

}  // namespace fovea::translation
