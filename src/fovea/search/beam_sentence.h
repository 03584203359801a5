#pragma once
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "fovea/search/beam.h"

// One sentence of a beam search: its hypotheses, finished and live.
namespace fovea::search {

class SearchedSentence {
 public:
  explicit SearchedSentence(BeamSentence sentence);

  size_t rows() const { return live_.size(); }
  bool is_done() const { return live_.empty(); }
  // The best continuations of a row that advance() needs.
  int64_t candidates_per_row() const;
  // Appends the words whose log-probability it needs in addition, of row `row` among the sentence's.
  void append_asked(size_t row, std::vector<int32_t>& words) const;

  // The sentence's part of Continuations.
  struct Rows {
    int64_t first = 0;                       // its first row among all
    int64_t n = 0;                           // candidates per row
    std::span<const int64_t> asked_offsets;  // of all rows; none if nothing was asked
    std::span<const int32_t> asked;
    const Continuations& next;
  };
  // Computes the next rows: their parents among all rows of the last step, and their tokens, go to the vectors.
  void advance(const Rows& rows, std::vector<int64_t>& parents, std::vector<int64_t>& tokens);

  std::vector<Hypothesis> best() const;

 private:
  // Hypotheses share their prefixes: a node is one token and the node before it.
  struct Node {
    int64_t parent;  // -1: none
    int64_t token;
    float log_prob;
  };
  struct Live {
    int64_t node = -1;
    double log_prob = 0;
    Demands::State said = {};
    int64_t missing = 0;  // tokens that the demands need
  };
  // A continuation of one of the sentence's live hypotheses.
  struct Extension {
    double log_prob;
    int64_t token;
    int64_t row;  // among the sentence's
    float step;   // the token's own log-probability
    // Better first.
    bool operator<(const Extension& other) const {
      return std::tuple(-log_prob, token, row) < std::tuple(-other.log_prob, other.token, other.row);
    }
  };
  struct Finished {
    int64_t node;
    double log_prob, score;
    float step;  // the end's own log-probability
    bool is_cut, says_all;
  };

  void extend(const Rows& rows);
  void extend_by_end(const Rows& rows);
  void extend_by_asked(const Rows& rows, size_t row);
  void select();
  void select_with_demands();
  // Whether an end of the sentence behind `node` finishes the hypothesis.
  bool ends(int64_t node) const;
  void keep(const Extension& extension);
  void finish(const Extension& extension);
  bool is_decided() const;

  BeamSentence sentence_;
  int64_t beam_size_;  // rows, at most
  int64_t length_ = 0;
  std::vector<Live> live_, next_;
  std::vector<int64_t> origins_;  // the row that each live hypothesis continued
  std::vector<Node> nodes_;
  std::vector<Extension> extensions_;
  std::vector<Finished> finished_;  // best first
};

}  // namespace fovea::search
