#pragma once
#include <algorithm>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "fovea/base/rng.h"

// One struct a pattern: contains() is its definition, spans() its fast form. Parser, printer, range checks, help,
// lowering and tests follow from the list at the end: to add a pattern, write its struct and name it there.
namespace fovea {

// Keys [begin, end).
struct Span {
  int64_t begin = 0, end = 0;
  bool operator==(const Span&) const = default;
};

// What a pattern may look at for one query.
struct Row {
  int64_t query = 0;    // position of the query among the keys (self-attention), from 0
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
  static constexpr bool kPositional = false;  // compares positions of queries and keys: self-attention only
  static constexpr auto fields() { return std::tuple<>(); }
  bool contains(const Row&, int64_t) const { return true; }
  void spans(const Row& row, auto&& emit) const { emit(Span{0, row.keys}); }
  bool operator==(const Full&) const = default;
};

// The one list.
using Pattern = std::variant<Full>;

}  // namespace fovea
