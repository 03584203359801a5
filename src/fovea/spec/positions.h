#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

// The ways in which a model knows where a token stands: one struct for each scheme, and one list. The parser, the help
// and the models follow from the list.
namespace fovea {

// The place where a scheme acts. A model adds at most one table to its embeddings; any schemes that turn q and k, or
// add to scores, may join it.
enum class PositionsAct : uint8_t { kNowhere, kOnEmbeddings, kOnQueriesAndKeys, kOnScores };

// A real argument in [min, max]. It may be left out: the member keeps its default.
template <class S>
struct PositionsField {
  std::string_view name;
  double S::*member;
  double min, max;
  bool is_whole = false;  // a whole number
  bool is_named = false;  // written as name=value
};
// A word that switches something on.
template <class S>
struct PositionsWord {
  std::string_view name;
  bool S::*member;
};

struct Sinusoidal {
  double first = 1;    // number of the first position: 2 in fairseq, 1 in OpenNMT-tf, 0 in Marian and the paper
  bool paper = false;  // frequencies 10000^(-2 i / M) as in Vaswani 2017; else 10000^(-i / (M / 2 - 1))
  static constexpr PositionsAct kAct = PositionsAct::kOnEmbeddings;
  static constexpr std::string_view kName = "sinusoidal", kHelp = "sines and cosines added to the embeddings";
  static constexpr std::string_view kExample = "sinusoidal(first=0) or sinusoidal(first=0,paper)";
  static constexpr auto fields() {
    return std::tuple(PositionsField<Sinusoidal>{"first", &Sinusoidal::first, 0, 2, true, true},
                      PositionsWord<Sinusoidal>{"paper", &Sinusoidal::paper});
  }
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
  static constexpr std::string_view kExample = "rotary(10000)";
  static constexpr auto fields() { return std::tuple(PositionsField<Rotary>{"base", &Rotary::base, 1, 1e12}); }
  bool operator==(const Rotary&) const = default;
};
struct Shaw {
  double distance = 16;  // greater ones count as this
  bool values = false;   // adds vectors to the values, too
  static constexpr PositionsAct kAct = PositionsAct::kOnScores;
  static constexpr std::string_view kName = "shaw",
                                    kHelp = "learned vectors for distances, added to the keys (Shaw 2018)";
  static constexpr std::string_view kExample = "shaw(16) or shaw(16,values)";
  static constexpr auto fields() {
    return std::tuple(PositionsField<Shaw>{"distance", &Shaw::distance, 1, 65536, true},
                      PositionsWord<Shaw>{"values", &Shaw::values});
  }
  int64_t reach() const { return static_cast<int64_t>(distance); }
  bool operator==(const Shaw&) const = default;
};
struct TransformerXl {
  double clamp = 0;  // greater distances count as this; 0: none does
  static constexpr PositionsAct kAct = PositionsAct::kOnScores;
  static constexpr std::string_view kName = "transformer-xl",
                                    kHelp = "sines and cosines of distances in the scores (Dai 2019)";
  static constexpr std::string_view kExample = "transformer-xl(clamp=400)";
  static constexpr auto fields() {
    return std::tuple(PositionsField<TransformerXl>{"clamp", &TransformerXl::clamp, 0, 1e6, true, true});
  }
  bool operator==(const TransformerXl&) const = default;
};
struct Alibi {
  static constexpr PositionsAct kAct = PositionsAct::kOnScores;
  static constexpr std::string_view kName = "alibi", kHelp = "scores fall with the distance (Press 2021)";
  static constexpr auto fields() { return std::tuple<>(); }
  bool operator==(const Alibi&) const = default;
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
using PositionScheme =
    std::variant<Sinusoidal, Learned, NoPositions, Rotary, Shaw, TransformerXl, Alibi, ImagePositions>;
using PositionSchemes = std::vector<PositionScheme>;

// "learned", "sinusoidal+rotary", "rotary(1000000)", "shaw(16,values)+alibi": schemes joined by '+'. Throws a
// UsageError for an unknown name, an argument out of its range, a scheme or an argument that is given twice, a second
// scheme that is added, and `none` beside another.
PositionSchemes parse_positions(std::string_view text);
// The shortest text that reads back as the same schemes.
std::string print(const PositionSchemes& schemes);
// For help texts: "sinusoidal, learned, none, rotary, ...".
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
