#pragma once
#include <bitset>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace fovea::search {

// Tokens that a text says side by side.
struct Phrase {
  std::vector<int64_t> tokens;
  bool only_first = false;  // they count only as the text's first tokens
  bool ends_word = false;   // they do not count if the next token continues their last word
};

// The phrases that the hypotheses of one sentence must say: one of each demand. A token counts for one demand only. A
// text that says everything has all phrases; a text may have a phrase that does not count, if phrases overlap.
class Demands {
 public:
  static constexpr size_t kMost = 256;  // demands

  Demands() = default;
  // `demands`: of each the phrases of which one must be said, not empty. continues_word[t] says whether token t
  // continues the word before it; null: none does.
  Demands(const std::vector<std::vector<Phrase>>& demands, std::shared_ptr<const std::vector<bool>> continues_word);

  bool empty() const { return size_ == 0; }

  // How much of the demands a text has said.
  struct State {
    std::bitset<kMost> said;
    int32_t node = kStart;  // of the phrases that the last tokens began
    int32_t held = kNone;   // a demand that is said unless a longer phrase, or a word that goes on, takes its tokens
    int32_t held_node = kNone;
  };
  State next(const State& state, int64_t token) const;
  // The least number of tokens that are still to be said; 0: the text may end.
  int64_t missing(const State& state) const;
  // The demands that a text that ends does not say, by their numbers.
  std::vector<size_t> unsaid(std::span<const int64_t> tokens) const;
  // Appends the tokens that bring the text on, in rising order.
  void append_wanted(const State& state, std::vector<int32_t>& tokens) const;

 private:
  static constexpr int32_t kNone = -1, kStart = 0, kRoot = 1;
  // A node of the tree of all phrases. Phrases of a text's beginning hang on kStart, others on both.
  struct Node {
    std::vector<std::pair<int64_t, int32_t>> children;  // token and node, by rising token
    std::vector<std::pair<int32_t, bool>> ends;         // demands that end here, and whether with a word
    std::vector<std::pair<int32_t, int32_t>> leads;     // demands that end below, and in how many tokens at least
  };
  void insert(int32_t root, const Phrase& phrase, int32_t demand);
  int32_t child(int32_t node, int64_t token) const;
  bool is_said(const State& state, int32_t demand) const { return state.said[static_cast<size_t>(demand)]; }
  void enter(State& state, int32_t node) const;
  // Whether a demand that is not said, nor `held`, ends below the node.
  bool leads_on(const State& state, int32_t node) const;
  void append_children(const State& state, int32_t node, std::vector<int32_t>& tokens) const;

  size_t size_ = 0;
  std::vector<int64_t> lengths_;  // of each demand's shortest phrase
  std::vector<Node> nodes_;
  std::shared_ptr<const std::vector<bool>> continues_word_;
};

}  // namespace fovea::search
