#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "fovea/spec/word_field.h"

// One struct per pattern: contains() is its definition, spans() its fast form. Parser, printer, range checks, help,
// lowering and tests follow from the list at the end: to add a pattern, write its struct and name it there.
//     kName, kHelp     as users know it
//     kPositional      compares positions of queries and keys: self-attention only
//     kDraws           reads row.stream: other pairs for every head, layer and seed
//     kFromStart       optional, true: counts positions from the first key, so the pairs change if earlier keys are cut
//                      off or added; the other patterns depend on key - query alone
//     fields()         its arguments
//     problem()        optional: the error in the arguments together, or an empty text
//     contains(row, key), 0 <= key < row.limit(); the causal limit is the caller's
//     spans(row, emit) the keys of contains() in any order; the caller cuts off keys outside [0, row.limit())
namespace fovea {

// Keys [begin, end).
struct Span {
  int64_t begin = 0, end = 0;
  bool operator==(const Span&) const = default;
};

// The properties of one query that a pattern may look at.
struct Row {
  int64_t query = 0;    // position of the query, from 0; in self-attention, its position among the keys
  int64_t keys = 0;     // number of keys; the candidates lie in [0, keys)
  bool causal = false;  // the layer allows only keys <= query
  uint64_t stream = 0;  // hash of (seed, layer, head): which random numbers
  int64_t limit() const { return causal ? std::min(query + 1, keys) : keys; }  // allowed keys are [0, limit)
};

// An argument of a pattern: its name in messages, its member, its least value.
template <class P>
struct PatternField {
  std::string_view name;
  int64_t P::*member;
  int64_t min;
};

struct Full {
  static constexpr std::string_view kName = "full", kHelp = "every key";
  static constexpr bool kPositional = false, kDraws = false;
  static constexpr auto fields() { return std::tuple<>(); }
  bool contains(const Row&, int64_t) const { return true; }
  void spans(const Row& row, auto&& emit) const { emit(Span{0, row.keys}); }
  bool operator==(const Full&) const = default;
};

// Offsets of the k places around (or, causal, up to) a query: [first, last]. Of an even number, one more lies on the
// left, as in figure 3 of Extremely Sparse Transformer, which draws {i - 1, i} for k = 2.
struct Offsets {
  int64_t first, last;
  static constexpr Offsets around(int64_t k, bool causal) {
    return causal ? Offsets{1 - k, 0} : Offsets{-(k / 2), (k - 1) / 2};
  }
  constexpr bool contain(int64_t offset) const { return first <= offset && offset <= last; }
};

struct Window {
  int64_t k = 1;
  static constexpr std::string_view
      kName = "window",
      kHelp = "the k keys around the query, of an even k one more before it; causal: the last k";
  static constexpr bool kPositional = true, kDraws = false;
  static constexpr auto fields() { return std::tuple(PatternField<Window>{"k", &Window::k, 1}); }
  bool contains(const Row& row, int64_t key) const { return Offsets::around(k, row.causal).contain(key - row.query); }
  void spans(const Row& row, auto&& emit) const {
    const Offsets o = Offsets::around(k, row.causal);
    emit(Span{row.query + o.first, row.query + o.last + 1});
  }
  bool operator==(const Window&) const = default;
};

struct Dilated {
  int64_t k = 1, r = 1;
  static constexpr std::string_view kName = "dilated", kHelp = "like window(k), with r - 1 keys left out between two";
  static constexpr bool kPositional = true, kDraws = false;
  static constexpr auto fields() {
    return std::tuple(PatternField<Dilated>{"k", &Dilated::k, 1}, PatternField<Dilated>{"r", &Dilated::r, 1});
  }
  bool contains(const Row& row, int64_t key) const {
    const int64_t offset = key - row.query;
    return offset % r == 0 && Offsets::around(k, row.causal).contain(offset / r);
  }
  void spans(const Row& row, auto&& emit) const {
    const Offsets o = Offsets::around(k, row.causal);
    const int64_t first = std::max(o.first, -(row.query / r));
    const int64_t last = std::min(o.last, (row.limit() - 1 - row.query) / r);
    if (r == 1) return emit(Span{row.query + first, row.query + last + 1});
    for (int64_t m = first; m <= last; ++m) emit(Span{row.query + m * r, row.query + m * r + 1});
  }
  bool operator==(const Dilated&) const = default;
};

struct Block {
  int64_t b = 1;
  static constexpr std::string_view kName = "block", kHelp = "the keys of the query's own block of b";
  static constexpr bool kPositional = true, kDraws = false;
  static constexpr bool kFromStart = true;
  static constexpr auto fields() { return std::tuple(PatternField<Block>{"b", &Block::b, 1}); }
  // If there are more queries than keys, the first positions are negative: blocks of their own, without keys.
  bool contains(const Row& row, int64_t key) const { return row.query >= 0 && key / b == row.query / b; }
  void spans(const Row& row, auto&& emit) const {
    const int64_t begin = row.query / b * b;
    if (row.query >= 0) emit(Span{begin, begin + b});
  }
  bool operator==(const Block&) const = default;
};

struct Blocks {
  int64_t b = 1, p = 1;
  static constexpr std::string_view kName = "blocks",
                                    kHelp = "the query's block of b and p blocks before it; not causal: also p after";
  static constexpr bool kPositional = true, kDraws = false;
  static constexpr bool kFromStart = true;
  static constexpr auto fields() {
    return std::tuple(PatternField<Blocks>{"b", &Blocks::b, 1}, PatternField<Blocks>{"p", &Blocks::p, 0});
  }
  // The causal limit cuts the blocks after the query's own. Negative positions lie in negative blocks.
  int64_t own(const Row& row) const { return row.query / b - (row.query % b < 0 ? 1 : 0); }
  bool contains(const Row& row, int64_t key) const { return std::abs(key / b - own(row)) <= p; }
  void spans(const Row& row, auto&& emit) const { emit(Span{(own(row) - p) * b, (own(row) + p + 1) * b}); }
  bool operator==(const Blocks&) const = default;
};

struct Global {
  int64_t g = 1;
  static constexpr std::string_view kName = "global",
                                    kHelp = "the first g keys; not causal: the first g queries see every key";
  static constexpr bool kPositional = true, kDraws = false;
  static constexpr bool kFromStart = true;
  static constexpr auto fields() { return std::tuple(PatternField<Global>{"g", &Global::g, 1}); }
  bool contains(const Row& row, int64_t key) const { return key < g || (!row.causal && row.query < g); }
  void spans(const Row& row, auto&& emit) const { emit(Span{0, !row.causal && row.query < g ? row.keys : g}); }
  bool operator==(const Global&) const = default;
};

// k distinct numbers of [0, limit), ascending; all of them when there are no more than k. Every subset is equally
// likely (Floyd's sampling, Bentley and Floyd 1987); a pure function of its arguments.
std::vector<int64_t> random_keys(int64_t k, int64_t limit, uint64_t stream, int64_t query);

struct Random {
  int64_t k = 1;
  static constexpr std::string_view kName = "random", kHelp = "k random keys for each query, head and layer";
  static constexpr bool kPositional = false, kDraws = true;
  static constexpr bool kFromStart = true;
  static constexpr auto fields() { return std::tuple(PatternField<Random>{"k", &Random::k, 1}); }
  bool contains(const Row& row, int64_t key) const {
    if (row.limit() <= k) return true;
    const std::vector<int64_t> keys = random_keys(k, row.limit(), row.stream, row.query);
    return std::binary_search(keys.begin(), keys.end(), key);
  }
  void spans(const Row& row, auto&& emit) const {
    if (row.limit() <= k) return emit(Span{0, row.limit()});
    for (int64_t key : random_keys(k, row.limit(), row.stream, row.query)) emit(Span{key, key + 1});
  }
  bool operator==(const Random&) const = default;
};

struct Local {
  int64_t w = 1;
  static constexpr std::string_view kName = "local", kHelp = "the query and the w - 1 keys before it";
  static constexpr bool kPositional = true, kDraws = false;
  static constexpr auto fields() { return std::tuple(PatternField<Local>{"w", &Local::w, 1}); }
  bool contains(const Row& row, int64_t key) const { return key <= row.query && row.query - key < w; }
  void spans(const Row& row, auto&& emit) const { emit(Span{row.query - w + 1, row.query + 1}); }
  bool operator==(const Local&) const = default;
};

struct Others {
  static constexpr std::string_view kName = "others", kHelp = "every key but the query's own";
  static constexpr bool kPositional = true, kDraws = false;
  static constexpr auto fields() { return std::tuple<>(); }
  bool contains(const Row& row, int64_t key) const { return key != row.query; }
  void spans(const Row& row, auto&& emit) const {
    emit(Span{0, row.query});
    emit(Span{row.query + 1, row.keys});
  }
  bool operator==(const Others&) const = default;
};

struct Strided {
  int64_t s = 1;
  static constexpr std::string_view kName = "strided", kHelp = "every s-th key back from the query";
  static constexpr bool kPositional = true, kDraws = false;
  static constexpr auto fields() { return std::tuple(PatternField<Strided>{"s", &Strided::s, 1}); }
  bool contains(const Row& row, int64_t key) const { return key <= row.query && (row.query - key) % s == 0; }
  void spans(const Row& row, auto&& emit) const {
    if (s == 1) return emit(Span{0, row.query + 1});
    for (int64_t key = row.query % s; key <= row.query; key += s) emit(Span{key, key + 1});
  }
  bool operator==(const Strided&) const = default;
};

struct Fixed {
  int64_t b = 1, c = 1;
  static constexpr std::string_view kName = "fixed",
                                    kHelp = "up to the query: its own block of b, and the last c keys of every block";
  static constexpr bool kPositional = true, kDraws = false;
  static constexpr bool kFromStart = true;
  static constexpr auto fields() {
    return std::tuple(PatternField<Fixed>{"b", &Fixed::b, 1}, PatternField<Fixed>{"c", &Fixed::c, 1});
  }
  std::string_view problem() const { return c > b ? "c must be at most b, the size of a block" : ""; }
  bool contains(const Row& row, int64_t key) const {
    return key <= row.query && (key / b == row.query / b || key % b >= b - c);
  }
  void spans(const Row& row, auto&& emit) const {
    const int64_t own = row.query / b * b;
    for (int64_t block = 0; block < own; block += b) emit(Span{block + b - c, block + b});
    emit(Span{own, row.query + 1});
  }
  bool operator==(const Fixed&) const = default;
};

// Adaptive span (Sukhbaatar et al. 2019). Which of these keys a head sees, and how much of them, is learned: the
// logarithm of a mask is a term of the scores by distance, which spec/adaptive_span.h describes.
struct AdaptiveSpan {
  int64_t limit = 1, ramp = 1;
  static constexpr std::string_view kName = "span",
                                    kHelp =
                                        "the `limit` keys before the query, of which each head learns how many to "
                                        "use; the last `ramp` of them fade out";
  static constexpr bool kPositional = true, kDraws = false;
  static constexpr auto fields() {
    return std::tuple(PatternField<AdaptiveSpan>{"limit", &AdaptiveSpan::limit, 1},
                      PatternField<AdaptiveSpan>{"ramp", &AdaptiveSpan::ramp, 1});
  }
  bool contains(const Row& row, int64_t key) const { return key < row.query && row.query - key <= limit; }
  void spans(const Row& row, auto&& emit) const { emit(Span{row.query - limit, row.query}); }
  bool operator==(const AdaptiveSpan&) const = default;
};

// Every pattern: parser, printer, help and tests follow from this list.
using Pattern =
    std::variant<Full, Window, Dilated, Block, Blocks, Global, Random, Local, Others, Strided, Fixed, AdaptiveSpan>;

}  // namespace fovea
