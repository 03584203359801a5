#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "fovea/nn/stepper.h"

namespace fovea::models {

// The states of prompts that were read before, so that a prompt with the same beginning is not computed again. A prompt
// is read in pieces of kPromptPiece units, and a state is that of a whole piece behind the pieces before it. So a
// prompt has the same bits with and without them. The states that were not used for the longest time leave first.
class PrefixCache {
 public:
  using Piece = std::shared_ptr<const nn::StepTokens>;

  // `most_bytes` of states and units together; 0: none are kept.
  explicit PrefixCache(int64_t most_bytes) : most_bytes_(most_bytes) {}

  bool keeps_any() const { return most_bytes_ > 0; }
  // The known pieces with which the prompt begins, `most` of them at most.
  std::vector<Piece> find(std::span<const int64_t> prompt, int64_t most);
  // Whether add() would take the last piece of the units, which are whole pieces.
  bool wants(std::span<const int64_t> units) const;
  // Keeps the state of the last piece, unless it is larger than all room, or the piece before it has left.
  void add(std::span<const int64_t> units, Piece piece);

  int64_t bytes() const { return bytes_; }

 private:
  // A piece by its units and the number of the piece before it; 0: it begins a prompt.
  using Key = std::pair<int64_t, std::vector<int64_t>>;
  struct Node {
    int64_t number = 0;
    Piece piece;
    int64_t bytes = 0;
    int64_t used = 0;       // the time of the last use
    int64_t followers = 0;  // pieces behind it
  };
  // The number of the last piece of the units, or none if not all of them are known.
  std::pair<bool, int64_t> number_of(std::span<const int64_t> units) const;
  void drop_oldest();

  int64_t most_bytes_, bytes_ = 0, next_number_ = 1, now_ = 0;
  std::map<Key, Node> nodes_;
  std::map<int64_t, Key> keys_;  // by number
};

}  // namespace fovea::models
