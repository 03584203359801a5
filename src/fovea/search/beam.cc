#include "fovea/search/beam.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace fovea::search {
namespace {

// Hypotheses share their prefixes: a node is one token and the node before it.
struct Node {
  int64_t parent;  // -1: none
  int64_t token;
};

struct Live {
  int64_t node = -1;
  double log_prob = 0;
};

// A continuation of one of a sentence's live hypotheses.
struct Extension {
  double log_prob;
  int64_t token;
  int64_t row;  // among the sentence's
  // Better first.
  bool operator<(const Extension& other) const {
    return std::tuple(-log_prob, token, row) < std::tuple(-other.log_prob, other.token, other.row);
  }
};

struct Finished {
  int64_t node;
  double log_prob, score;
};

class Sentence {
 public:
  explicit Sentence(int64_t max_length) : max_length_(max_length), live_(1) {}

  size_t rows() const { return live_.size(); }
  bool done() const { return live_.empty(); }

  // The sentence's rows of `next` begin at `first`, with n candidates per row. The next rows go to parents and tokens.
  struct Rows {
    int64_t first, n;
    const Continuations& next;
  };
  void advance(const Rows& rows, const BeamOptions& options, std::vector<int64_t>& parents,
               std::vector<int64_t>& tokens) {
    ++length_;
    extensions_.clear();
    if (length_ > max_length_) {
      extend_by_end(rows, options);
    } else {
      extend(rows, options);
    }
    select(options);
    if (is_decided(options)) live_.clear();
    for (size_t i = 0; i < live_.size(); ++i) {
      parents.push_back(rows.first + origins_[i]);
      tokens.push_back(nodes_[static_cast<size_t>(live_[i].node)].token);
    }
  }

  std::vector<Hypothesis> best(int64_t count) const {
    std::vector<Hypothesis> result;
    for (const Finished& finished : finished_) {
      if (static_cast<int64_t>(result.size()) == count) break;
      Hypothesis hypothesis{{}, finished.log_prob, finished.score};
      for (int64_t node = finished.node; node >= 0; node = nodes_[static_cast<size_t>(node)].parent) {
        hypothesis.tokens.push_back(nodes_[static_cast<size_t>(node)].token);
      }
      std::ranges::reverse(hypothesis.tokens);
      result.push_back(std::move(hypothesis));
    }
    return result;
  }

 private:
  void extend(const Rows& rows, const BeamOptions& options) {
    for (size_t i = 0; i < live_.size(); ++i) {
      const size_t row = static_cast<size_t>(rows.first) + i;
      const Candidate* best = &rows.next.best[row * static_cast<size_t>(rows.n)];
      for (int64_t j = 0; j < rows.n; ++j) {
        if (best[j].token == options.never) continue;
        extensions_.push_back({live_[i].log_prob + best[j].log_prob, best[j].token, static_cast<int64_t>(i)});
      }
    }
  }

  void extend_by_end(const Rows& rows, const BeamOptions& options) {
    for (size_t i = 0; i < live_.size(); ++i) {
      const float end = rows.next.eos_log_prob[static_cast<size_t>(rows.first) + i];
      extensions_.push_back({live_[i].log_prob + end, options.eos, static_cast<int64_t>(i)});
    }
  }

  void select(const BeamOptions& options) {
    // At most beam_size of the 2 beam_size extensions end the sentence: one for each live hypothesis.
    const auto beam = static_cast<size_t>(options.beam_size), considered = std::min(2 * beam, extensions_.size());
    std::partial_sort(extensions_.begin(), extensions_.begin() + static_cast<std::ptrdiff_t>(considered),
                      extensions_.end());
    next_.clear();
    origins_.clear();
    for (size_t rank = 0; rank < considered && next_.size() < beam; ++rank) {
      const Extension& extension = extensions_[rank];
      const int64_t parent = live_[static_cast<size_t>(extension.row)].node;
      if (extension.token == options.eos && ends(parent, options)) {
        if (rank < beam) finish({parent, extension.log_prob, 0}, options);
        continue;
      }
      nodes_.push_back({parent, extension.token});
      next_.push_back({static_cast<int64_t>(nodes_.size()) - 1, extension.log_prob});
      origins_.push_back(extension.row);
    }
    live_.swap(next_);
  }

  // Whether an end of the sentence behind `node` finishes the hypothesis.
  bool ends(int64_t node, const BeamOptions& options) const {
    if (!options.ends_twice || length_ > max_length_) return true;
    return node >= 0 && nodes_[static_cast<size_t>(node)].token == options.eos;
  }

  void finish(Finished finished, const BeamOptions& options) {
    finished.score = finished.log_prob / length_penalty(options.penalty, options.normalize, length_);
    // Behind those of equal score, which came first.
    const auto place = std::ranges::upper_bound(finished_, finished.score, std::ranges::greater(), &Finished::score);
    finished_.insert(place, finished);
  }

  bool is_decided(const BeamOptions& options) const {
    const auto count = static_cast<int64_t>(finished_.size());
    if (live_.empty() || count >= options.beam_size) return true;
    if (count < options.num_best) return false;
    // log p only falls, so the best that a live hypothesis can reach is its log p over the greatest penalty to come.
    const double greatest = std::max(length_penalty(options.penalty, options.normalize, max_length_ + 1),
                                     length_penalty(options.penalty, options.normalize, length_ + 1));
    const double reachable = live_.front().log_prob / greatest;
    return reachable <= finished_[static_cast<size_t>(options.num_best - 1)].score;
  }

  int64_t max_length_, length_ = 0;
  std::vector<Live> live_, next_;
  std::vector<int64_t> origins_;  // the row that each live hypothesis continued
  std::vector<Node> nodes_;
  std::vector<Extension> extensions_;
  std::vector<Finished> finished_;  // best first
};

}  // namespace

double length_penalty(LengthPenalty form, double x, int64_t length) {
  const auto tokens = static_cast<double>(length);
  return std::pow(form == LengthPenalty::kPower ? tokens : (5 + tokens) / 6, x);
}

std::vector<std::vector<Hypothesis>> beam_search(Scorer& scorer, std::span<const int64_t> max_lengths,
                                                 const BeamOptions& options) {
  std::vector<Sentence> sentences(max_lengths.begin(), max_lengths.end());
  std::vector<int64_t> parents(sentences.size()), tokens(sentences.size(), options.start);
  std::vector<int64_t> next_parents, next_tokens;
  for (size_t s = 0; s < sentences.size(); ++s) parents[s] = static_cast<int64_t>(s);
  // More than the beam: the end of the sentence and the excluded token may be among a row's best, and beam_size others
  // must remain.
  const int64_t n = std::min(options.beam_size + (options.never ? 2 : 1), options.vocabulary);
  Continuations next;
  while (!parents.empty()) {
    scorer.step(parents, tokens, n, next);
    next_parents.clear();
    next_tokens.clear();
    int64_t row = 0;
    for (Sentence& sentence : sentences) {
      if (sentence.done()) continue;
      const auto rows = static_cast<int64_t>(sentence.rows());
      sentence.advance({row, n, next}, options, next_parents, next_tokens);
      row += rows;
    }
    parents.swap(next_parents);
    tokens.swap(next_tokens);
  }
  std::vector<std::vector<Hypothesis>> results;
  results.reserve(sentences.size());
  for (const Sentence& sentence : sentences) results.push_back(sentence.best(options.num_best));
  return results;
}

}  // namespace fovea::search
