#pragma once
#include <span>
#include <vector>

#include "fovea/nn/routing_steps.h"
#include "fovea/nn/stack.h"

namespace fovea::nn {

// The other side of a Stepper's rows: keys and values of its sentences for all layers, projected once and shared by
// the rows of a sentence.
class CrossSteps {
 public:
  // sentences[r] is the sentence of `other` that row r reads, in ascending order, here and after inherit().
  CrossSteps(const Stack& stack, const OtherSide& other, const std::vector<int64_t>& sentences);
  // The newest token of each row: q [R, H, D], and what it was projected from [R, M].
  struct Queries {
    at::Tensor q, input;
  };
  // Returns [R, H, D]. lengths[r] counts row r's tokens, this one included.
  at::Tensor mix(size_t layer, const Queries& queries, std::span<const int64_t> lengths) const;
  void inherit(std::span<const int64_t> parents);
  // Whether sentences can be added: routed heads lay out the keys of all sentences at once.
  bool can_add() const;
  // Adds sentences, each with one row behind the others. Keys of sentences that no row reads any more make room.
  void add(const OtherSide& other);

 private:
  struct Layer {
    const Attention* attention;
    Projected keys;                         // of all sentences, [tokens, H, D]; q undefined
    ops::AttentionOptions options;          // queries and keys by sentence, or by row
    std::shared_ptr<RoutingSteps> routing;  // null without routed heads
  };
  void index_rows();
  // Appends the sentences of `other` to the places, the first of whose tokens is at `first`.
  void append_places(const OtherSide& other, int64_t first);
  // Makes room for `count` more tokens: moves the sentences that rows read to new buffers, and forgets the others.
  void make_room(int64_t count);

  std::vector<int64_t> sentences_;  // of the rows
  bool by_row_ = false;             // each row is a sequence of its own, not one query of its sentence's
  struct Place {
    int64_t begin, length;
  };
  std::vector<Place> places_;  // of each sentence's tokens among the keys
  int64_t used_ = 0;           // tokens of the keys; behind them is room
  std::vector<Layer> layers_;
};

}  // namespace fovea::nn
