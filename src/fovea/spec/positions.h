#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "fovea/spec/rotary_angles.h"

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
// Pair i of D / 2 turns by position * f_i, f_i = base^(-2 i / D). Longer texts than those of a first training turn by
// smaller angles: f_i / factor; with `llama3` or `yarn`, only the pairs that turn slowly over the `original` tokens of
// that training.
struct Rotary {
  double base = 10000;
  double factor = 1;
  bool llama3 = false, yarn = false;
  double original = 0;       // tokens of the first training, of llama3 and yarn
  double low = 1, high = 4;  // llama3: pairs of fewer turns than `low` have f_i / factor, those of more than `high` f_i
  double slow = 1, fast = 32;  // the same of yarn, which interpolates by the number of the pair
  bool exact = false;          // yarn: the numbers of the first and the last of these pairs are not rounded
  double gain = 0;             // yarn: multiplies q and k; 0: 0.1 ln(factor) + 1
  static constexpr PositionsAct kAct = PositionsAct::kOnQueriesAndKeys;
  static constexpr std::string_view kName = "rotary", kHelp = "queries and keys turned by their positions (Su 2021)";
  static constexpr std::string_view kExample =
      "rotary(10000), rotary(10000,factor=2) or "
      "rotary(5e5,llama3,factor=8,original=8192)";
  static constexpr auto fields() {
    using F = PositionsField<Rotary>;
    using W = PositionsWord<Rotary>;
    return std::tuple(
        F{"base", &Rotary::base, 1, 1e12}, W{"llama3", &Rotary::llama3}, W{"yarn", &Rotary::yarn},
        F{"factor", &Rotary::factor, 1, 1e6, false, true}, F{"original", &Rotary::original, 1, 1 << 30, true, true},
        F{"low", &Rotary::low, 1e-3, 1e6, false, true}, F{"high", &Rotary::high, 1e-3, 1e6, false, true},
        F{"slow", &Rotary::slow, 1e-3, 1e6, false, true}, F{"fast", &Rotary::fast, 1e-3, 1e6, false, true},
        W{"exact", &Rotary::exact}, F{"gain", &Rotary::gain, 1e-3, 1e3, false, true});
  }
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
// The turns of heads of `head_dim` numbers.
RotaryAngles angles_of(const Rotary& scheme, int64_t head_dim);
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
