#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

// How a model knows where a token stands: one struct for each scheme, and one list. The parser, the help and the
// models follow from the list.
namespace fovea {

// Where a scheme acts. A model adds at most one table to its embeddings; any schemes that turn q and k may join it.
enum class PositionsAct : uint8_t { kNowhere, kOnEmbeddings, kOnQueriesAndKeys };

// A real argument in [min, max]. It may be left out: the member keeps its default.
template <class S>
struct PositionsField {
  std::string_view name;
  double S::*member;
  double min, max;
};

struct Sinusoidal {
  static constexpr PositionsAct kAct = PositionsAct::kOnEmbeddings;
  static constexpr std::string_view kName = "sinusoidal", kHelp = "sines and cosines added to the embeddings";
  static constexpr auto fields() { return std::tuple<>(); }
  bool operator==(const Sinusoidal&) const = default;
};
struct Learned {
  static constexpr PositionsAct kAct = PositionsAct::kOnEmbeddings;
  static constexpr std::string_view kName = "learned", kHelp = "learned vectors added to the embeddings";
  static constexpr auto fields() { return std::tuple<>(); }
  bool operator==(const Learned&) const = default;
};
struct NoPositions {
  static constexpr PositionsAct kAct = PositionsAct::kNowhere;
  static constexpr std::string_view kName = "none", kHelp = "no positions";
  static constexpr auto fields() { return std::tuple<>(); }
  bool operator==(const NoPositions&) const = default;
};
struct Rotary {
  double base = 10000;  // pair i of D / 2 turns by position * base^(-2 i / D)
  static constexpr PositionsAct kAct = PositionsAct::kOnQueriesAndKeys;
  static constexpr std::string_view kName = "rotary", kHelp = "queries and keys turned by their positions (Su 2021)";
  static constexpr auto fields() { return std::tuple(PositionsField<Rotary>{"base", &Rotary::base, 1, 1e12}); }
  bool operator==(const Rotary&) const = default;
};

struct ImagePositions {
  static constexpr PositionsAct kAct = PositionsAct::kOnEmbeddings;
  static constexpr std::string_view kName = "image",
                                    kHelp =
                                        "learned vectors of an image's row, column and channel, added together to "
                                        "the embeddings";
  static constexpr auto fields() { return std::tuple<>(); }
  bool operator==(const ImagePositions&) const = default;
};

// The one list.
using PositionScheme = std::variant<Sinusoidal, Learned, NoPositions, Rotary, ImagePositions>;
using PositionSchemes = std::vector<PositionScheme>;

// "learned", "sinusoidal+rotary", "rotary(1000000)": schemes joined by '+'. Throws a UsageError for an unknown name, an
// argument out of its range, a scheme that is given twice, a second one that is added, and `none` beside another.
PositionSchemes parse_positions(std::string_view text);
// The shortest text that reads back as the same schemes.
std::string print(const PositionSchemes& schemes);
// For help texts: "sinusoidal, learned, none, rotary, image".
std::string position_names();

// The scheme of one kind among `schemes`, if it is there.
template <class Scheme>
std::optional<Scheme> find_scheme(const PositionSchemes& schemes) {
  for (const PositionScheme& scheme : schemes) {
    if (const auto* found = std::get_if<Scheme>(&scheme)) return *found;
  }
  return std::nullopt;
}

}  // namespace fovea
