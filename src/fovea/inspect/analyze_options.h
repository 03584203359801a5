#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "fovea/base/strings.h"
#include "fovea/spec/config_problems.h"

namespace fovea::inspect {

// The options of `fovea analyze` for models of every task.
struct AnalysisOptions {
  std::vector<std::string> models, train_sets, sweep;
  std::string output = "-", source;
  bool json = false, cost = false;
  std::vector<double> tau = {1};
  std::vector<int64_t> lengths = {32, 128, 512};
  int64_t draws = 10, seed = 1;

  template <class C>
  static constexpr auto fields(std::string_view train_sets_help) {
    return std::tuple(
        named("train-sets", &C::train_sets, train_sets_help, "t"),
        field("sweep", &C::sweep,
              "measure the model under these mechanisms instead, without training: SPEC, or encoder=SPEC, decoder=SPEC "
              "or cross=SPEC for one sort of attention"),
        field(
            "cost", &C::cost,
            "print operations and bytes of the model's mechanisms, or of those of --sweep; with --train-sets, tokens a "
            "second too"),
        at_most(64, field("lengths", &C::lengths, "lengths for --cost, in tokens")),
        at_most(16, field("tau", &C::tau, "powers of unnormalised weights (ReLA's) in the diversity")),
        number("draws", &C::draws, "drawn pairs of heads for the divergence of sorts of heads", 1, 1e6),
        number("seed", &C::seed, "random seed of these draws", 0, 9e15),
        field("json", &C::json, "print one JSON object instead of tables"),
        named("output", &C::output,
              "where the result goes, - is standard output; with --sweep, the picture, a name that ends in .svg; of a "
              "picture of --source, such a name gets an SVG file, another one the text",
              "o"));
  }
};

// The parts of a call of `fovea analyze`, one bit each.
enum class AnalysisMode : uint8_t { kPicture = 1, kFigures = 2, kSweep = 4, kCost = 8, kSpeeds = 16 };
inline constexpr uint8_t operator|(AnalysisMode a, AnalysisMode b) {
  return static_cast<uint8_t>(static_cast<uint8_t>(a) | static_cast<uint8_t>(b));
}
inline constexpr uint8_t operator|(uint8_t a, AnalysisMode b) {
  return static_cast<uint8_t>(a | static_cast<uint8_t>(b));
}

// The mode by the options of every task, without a picture.
inline AnalysisMode mode_of(const AnalysisOptions& options) {
  if (options.cost) return options.train_sets.empty() ? AnalysisMode::kCost : AnalysisMode::kSpeeds;
  return options.sweep.empty() ? AnalysisMode::kFigures : AnalysisMode::kSweep;
}

// The names of the modes in help and messages, in the order of their bits.
inline constexpr std::array<std::string_view, 5> kAnalysisModeNames = {"the picture of --source", "figures", "--sweep",
                                                                       "--cost", "--cost with --train-sets"};

// An option, and the modes that read it. An option outside of all lists is read by all modes.
struct AnalysisUse {
  std::string_view option;
  uint8_t modes;
};
inline constexpr std::array kCommonAnalysisUses = {
    AnalysisUse{"tau", static_cast<uint8_t>(AnalysisMode::kFigures)},
    AnalysisUse{"draws", static_cast<uint8_t>(AnalysisMode::kFigures)},
    AnalysisUse{"seed", static_cast<uint8_t>(AnalysisMode::kFigures)},
    AnalysisUse{"unit", static_cast<uint8_t>(AnalysisMode::kFigures)},
    AnalysisUse{"lengths", AnalysisMode::kCost | AnalysisMode::kSpeeds},
    AnalysisUse{"source", AnalysisMode::kPicture | AnalysisMode::kFigures},
};

// Adds options that were given, and that the mode would not read. `own_uses` is the list of the task's options.
template <class C>
void add_unread_problems(const C& options, AnalysisMode mode, std::span<const AnalysisUse> own_uses,
                         Problems& problems) {
  const std::vector<std::string_view> given = changed_fields(options);
  const auto names_of = [](uint8_t modes) {
    std::vector<std::string> names;
    for (size_t bit = 0; bit < kAnalysisModeNames.size(); ++bit)
      if ((modes >> bit & 1U) != 0) names.emplace_back(kAnalysisModeNames[bit]);
    return join(names, ", ");
  };
  for (const std::span<const AnalysisUse> uses : {std::span<const AnalysisUse>(kCommonAnalysisUses), own_uses}) {
    for (const AnalysisUse& use : uses) {
      const bool is_read = (use.modes & static_cast<uint8_t>(mode)) != 0;
      if (is_read || std::ranges::find(given, use.option) == given.end()) continue;
      problems.add(cat("--", use.option, ": is for ", names_of(use.modes), "; got it with ",
                       names_of(static_cast<uint8_t>(mode)), "; leave it out"));
    }
  }
}

// Adds that standard input cannot be read several times.
inline void add_rereading_problem(const AnalysisOptions& options, Problems& problems) {
  const bool reads_input = std::ranges::count(options.train_sets, "-") > 0;
  problems.add_if(reads_input && (options.models.size() > 1 || options.sweep.size() > 1),
                  "--train-sets: the text is read once for each model or mechanism; expected files, not '-'");
}

// Adds an --output whose ending promises a picture that is not drawn. Text may have any other ending. --sweep has a
// rule of its own.
inline void add_picture_problem(const AnalysisOptions& options, AnalysisMode mode, Problems& problems) {
  if (mode == AnalysisMode::kSweep) return;
  const bool draws = mode == AnalysisMode::kPicture;
  constexpr std::array<std::string_view, 6> kImages = {".svg", ".png", ".pdf", ".jpg", ".jpeg", ".html"};
  const auto found = std::ranges::find_if(kImages, [&](std::string_view end) { return options.output.ends_with(end); });
  if (found == kImages.end() || (draws && *found == ".svg")) return;
  problems.add(cat("--output: got '", options.output, "'; ",
                   draws ? "pictures are SVG, expected a name that ends in .svg; fovea report writes HTML"
                         : "this call writes text or JSON, expected a name without the ending of a picture"));
}

inline void add_analysis_problems(const AnalysisOptions& options, Problems& problems) {
  for (const double tau : options.tau)
    problems.add_if(!(tau > 0 && tau <= 100), "--tau: expected numbers above 0, at most 100");
  problems.add_if(options.tau.empty(), "--tau: got no number; expected one at least");
  for (const int64_t length : options.lengths)
    problems.add_if(length < 1 || length > (int64_t{1} << 20), "--lengths: expected lengths of 1 to 1048576 tokens");
  problems.add_if(
      !options.sweep.empty() && !options.cost && options.output != "-" && !options.output.ends_with(".svg"),
      cat("--output: got '", options.output, "'; --sweep draws a picture, expected a name that ends in .svg"));
  const bool one_model = options.models.size() <= 1;
  problems.add_if(!one_model && (!options.sweep.empty() || options.cost),
                  "--sweep and --cost compare the mechanisms of one model; give one --model");
  problems.add_if(options.sweep.empty() && !options.cost && options.train_sets.empty() && options.source.empty(),
                  "--source is missing; expected a sentence, or text files in --train-sets");
  problems.add_if(!options.train_sets.empty() && !options.source.empty(),
                  "--source and --train-sets: expected one of them");
}

}  // namespace fovea::inspect
