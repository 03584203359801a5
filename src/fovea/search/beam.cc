#include "fovea/search/beam.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

namespace fovea::search {
namespace {

// ---- dynamic beam allocation (Post and Vilar 2018) ----

// The rows of a sentence are shared out among banks of hypotheses that have as many demanded tokens still to say. A
// candidate is a continuation of one of them.

struct BankCandidate {
  static constexpr int64_t kNoBank = std::numeric_limits<int64_t>::max();
  int64_t bank = 0;   // tokens still to say; kNoBank: never chosen, unless no candidate has a bank
  bool ends = false;  // it finishes a hypothesis and takes no row
  bool is_chosen = false;
};

struct Bank {
  int64_t share = 0, seen = 0;  // rows, and candidates so far, ends too
};

// The rows of a sentence with `banks` banks: one for each bank, at least the beam and at most twice the beam.
int64_t rows_for_banks(int64_t beam_size, int64_t banks) { return std::max(beam_size, std::min(banks, 2 * beam_size)); }

// Chooses among candidates, best first, so that at most `rows` of them go on. Every bank that has candidates gets an
// equal share, the banks with the least to say first; what a bank does not need goes to the best of the others. An end
// is chosen if it is as good as the continuations that its bank's share lets go on.
void choose_by_banks(std::span<BankCandidate> candidates, int64_t rows) {
  std::map<int64_t, Bank> banks;
  for (const BankCandidate& candidate : candidates) {
    if (candidate.bank != BankCandidate::kNoBank) banks[candidate.bank];
  }
  if (banks.empty()) {
    // No candidate can say everything in time: they go on as they are, and their ends do not say everything.
    for (BankCandidate& candidate : candidates) candidate.is_chosen = !candidate.ends && rows-- > 0;
    return;
  }
  const auto count = std::ssize(banks);
  int64_t extra = rows % count;
  for (auto& [missing, bank] : banks) bank.share = rows / count + (extra-- > 0 ? 1 : 0);
  int64_t left = rows;
  for (BankCandidate& candidate : candidates) {
    if (candidate.bank == BankCandidate::kNoBank) continue;
    Bank& bank = banks[candidate.bank];
    candidate.is_chosen = bank.seen++ < bank.share;
    if (candidate.is_chosen && !candidate.ends) --left;
  }
  // Rows that are left, because of banks with few candidates and of ends, go to the best of the others.
  for (BankCandidate& candidate : candidates) {
    if (left == 0) return;
    if (candidate.is_chosen || candidate.ends || candidate.bank == BankCandidate::kNoBank) continue;
    candidate.is_chosen = true;
    --left;
  }
}

}  // namespace

// ---- a sentence ----

// One sentence of a beam search: its hypotheses, finished and live.
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
    // Better first.
    bool operator<(const Extension& other) const {
      return std::tuple(-log_prob, token, row) < std::tuple(-other.log_prob, other.token, other.row);
    }
  };
  struct Finished {
    int64_t node;
    double log_prob, score;
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

SearchedSentence::SearchedSentence(BeamSentence sentence)
    : sentence_(std::move(sentence)), beam_size_(sentence_.options.beam_size), live_(1) {
  if (sentence_.demands.empty()) return;
  live_.front().missing = sentence_.demands.missing({});
  beam_size_ = rows_for_banks(beam_size_, live_.front().missing + 1);
}

// More than the beam: the end of the sentence and the excluded tokens may be among a row's best, and beam_size others
// must remain.
int64_t SearchedSentence::candidates_per_row() const { return beam_size_ + 1 + std::ssize(sentence_.options.never); }

void SearchedSentence::append_asked(size_t row, std::vector<int32_t>& words) const {
  if (length_ < sentence_.max_length) sentence_.demands.append_wanted(live_[row].said, words);
}

void SearchedSentence::advance(const Rows& rows, std::vector<int64_t>& parents, std::vector<int64_t>& tokens) {
  ++length_;
  extensions_.clear();
  if (length_ > sentence_.max_length) {
    extend_by_end(rows);
  } else if (length_ == 1 && sentence_.options.first) {
    extensions_.push_back({0, *sentence_.options.first, 0});
  } else {
    extend(rows);
  }
  next_.clear();
  origins_.clear();
  sentence_.demands.empty() || length_ > sentence_.max_length ? select() : select_with_demands();
  live_.swap(next_);
  if (is_decided()) live_.clear();
  for (size_t i = 0; i < live_.size(); ++i) {
    parents.push_back(rows.first + origins_[i]);
    tokens.push_back(nodes_[static_cast<size_t>(live_[i].node)].token);
  }
}

std::vector<Hypothesis> SearchedSentence::best() const {
  std::vector<Hypothesis> result;
  for (const Finished& finished : finished_) {
    if (std::ssize(result) == sentence_.options.num_best) break;
    Hypothesis hypothesis{{}, finished.log_prob, finished.score, finished.is_cut, finished.says_all};
    for (int64_t node = finished.node; node >= 0; node = nodes_[static_cast<size_t>(node)].parent)
      hypothesis.tokens.push_back(nodes_[static_cast<size_t>(node)].token);
    std::ranges::reverse(hypothesis.tokens);
    result.push_back(std::move(hypothesis));
  }
  return result;
}

void SearchedSentence::extend(const Rows& rows) {
  const int64_t n = std::min(candidates_per_row(), rows.n);
  const std::vector<int64_t>& never = sentence_.options.never;
  for (size_t i = 0; i < live_.size(); ++i) {
    const size_t row = static_cast<size_t>(rows.first) + i;
    const Candidate* best = &rows.next.best[row * static_cast<size_t>(rows.n)];
    for (int64_t j = 0; j < n; ++j) {
      if (std::ranges::find(never, best[j].token) != never.end()) continue;
      extensions_.push_back({live_[i].log_prob + best[j].log_prob, best[j].token, static_cast<int64_t>(i)});
    }
    if (!rows.asked_offsets.empty()) extend_by_asked(rows, i);
  }
}

void SearchedSentence::extend_by_asked(const Rows& rows, size_t row) {
  const auto own =
      std::span(extensions_)
          .last(static_cast<size_t>(std::ranges::count(extensions_, static_cast<int64_t>(row), &Extension::row)));
  const std::vector<Extension> best(own.begin(), own.end());
  const size_t of_all = static_cast<size_t>(rows.first) + row;
  for (auto a = static_cast<size_t>(rows.asked_offsets[of_all]);
       a < static_cast<size_t>(rows.asked_offsets[of_all + 1]); ++a) {
    const int64_t word = rows.asked[a];
    if (std::ranges::find(best, word, &Extension::token) != best.end()) continue;
    extensions_.push_back({live_[row].log_prob + rows.next.asked_log_probs[a], word, static_cast<int64_t>(row)});
  }
}

void SearchedSentence::extend_by_end(const Rows& rows) {
  for (size_t i = 0; i < live_.size(); ++i) {
    const float end = rows.next.eos_log_prob[static_cast<size_t>(rows.first) + i];
    extensions_.push_back({live_[i].log_prob + end, sentence_.options.eos, static_cast<int64_t>(i)});
  }
}

void SearchedSentence::select() {
  // At most beam_size of the 2 beam_size extensions end the sentence: one for each live hypothesis.
  const auto beam = static_cast<size_t>(beam_size_), considered = std::min(2 * beam, extensions_.size());
  std::partial_sort(extensions_.begin(), extensions_.begin() + static_cast<std::ptrdiff_t>(considered),
                    extensions_.end());
  for (size_t rank = 0; rank < considered && next_.size() < beam; ++rank) {
    const Extension& extension = extensions_[rank];
    if (extension.token == sentence_.options.eos && ends(live_[static_cast<size_t>(extension.row)].node)) {
      if (rank < beam) finish(extension);
    } else {
      keep(extension);
    }
  }
}

void SearchedSentence::select_with_demands() {
  const Demands& demands = sentence_.demands;
  std::sort(extensions_.begin(), extensions_.end());
  // The bank of an extension is what it has still to say, which must fit the longest length.
  std::vector<BankCandidate> candidates;
  for (const Extension& extension : extensions_) {
    const Live& parent = live_[static_cast<size_t>(extension.row)];
    if (extension.token == sentence_.options.eos) {
      candidates.push_back({.bank = parent.missing == 0 ? 0 : BankCandidate::kNoBank, .ends = true});
      continue;
    }
    const int64_t missing = demands.missing(demands.next(parent.said, extension.token));
    const bool fits = length_ + missing <= sentence_.max_length;
    candidates.push_back({.bank = fits ? missing : BankCandidate::kNoBank, .ends = false});
  }
  choose_by_banks(candidates, beam_size_);
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!candidates[i].is_chosen) continue;
    candidates[i].ends ? finish(extensions_[i]) : keep(extensions_[i]);
  }
}

bool SearchedSentence::ends(int64_t node) const {
  if (!sentence_.options.ends_twice || length_ > sentence_.max_length) return true;
  return node >= 0 && nodes_[static_cast<size_t>(node)].token == sentence_.options.eos;
}

void SearchedSentence::keep(const Extension& extension) {
  const Live& parent = live_[static_cast<size_t>(extension.row)];
  nodes_.push_back({parent.node, extension.token});
  Live live{std::ssize(nodes_) - 1, extension.log_prob};
  if (!sentence_.demands.empty()) {
    live.said = sentence_.demands.next(parent.said, extension.token);
    live.missing = sentence_.demands.missing(live.said);
  }
  next_.push_back(live);
  origins_.push_back(extension.row);
}

void SearchedSentence::finish(const Extension& extension) {
  const BeamOptions& options = sentence_.options;
  const Live& parent = live_[static_cast<size_t>(extension.row)];
  const double score = extension.log_prob / length_penalty(options.penalty, options.normalize, length_);
  const Finished finished{parent.node, extension.log_prob, score, length_ > sentence_.max_length, parent.missing == 0};
  // Behind those of equal score, which came first.
  const auto place = std::ranges::upper_bound(finished_, score, std::ranges::greater(), &Finished::score);
  finished_.insert(place, finished);
}

bool SearchedSentence::is_decided() const {
  const BeamOptions& options = sentence_.options;
  const int64_t count = std::ssize(finished_);
  if (live_.empty() || count >= options.beam_size) return true;
  if (count < options.num_best) return false;
  // log p only falls, so the best that a live hypothesis can reach is its log p over the greatest penalty to come.
  const double greatest = std::max(length_penalty(options.penalty, options.normalize, sentence_.max_length + 1),
                                   length_penalty(options.penalty, options.normalize, length_ + 1));
  const double reachable = live_.front().log_prob / greatest;
  return reachable <= finished_[static_cast<size_t>(options.num_best - 1)].score;
}

// ---- the search ----

struct BeamSearch::Running {
  int64_t number;
  SearchedSentence sentence;
};

BeamSearch::BeamSearch() = default;
BeamSearch::~BeamSearch() = default;
BeamSearch::BeamSearch(BeamSearch&& other) noexcept = default;
BeamSearch& BeamSearch::operator=(BeamSearch&& other) noexcept = default;

int64_t BeamSearch::add(BeamSentence sentence) {
  const int64_t start = sentence.options.start, vocabulary = sentence.options.vocabulary;
  running_.push_back({next_number_, SearchedSentence(std::move(sentence))});
  parents_.push_back(-1);
  tokens_.push_back(start);
  vocabulary_ = vocabulary;
  list_rows();
  return next_number_++;
}

void BeamSearch::remove(int64_t sentence) {
  size_t row = 0;
  for (auto place = running_.begin(); place != running_.end(); ++place) {
    const size_t rows = place->sentence.rows();
    if (place->number == sentence) {
      const auto first = static_cast<std::ptrdiff_t>(row), last = static_cast<std::ptrdiff_t>(row + rows);
      parents_.erase(parents_.begin() + first, parents_.begin() + last);
      tokens_.erase(tokens_.begin() + first, tokens_.begin() + last);
      running_.erase(place);
      return list_rows();
    }
    row += rows;
  }
}

// Collects the candidates and the words that the sentences want of their rows.
void BeamSearch::list_rows() {
  n_ = 1;
  asked_.clear();
  asked_offsets_ = {0};
  for (const Running& running : running_) {
    n_ = std::max(n_, running.sentence.candidates_per_row());
    for (size_t row = 0; row < running.sentence.rows(); ++row) {
      running.sentence.append_asked(row, asked_);
      asked_offsets_.push_back(std::ssize(asked_));
    }
  }
  n_ = std::min(n_, vocabulary_);
  if (asked_.empty()) asked_offsets_.clear();
}

ScoredRows BeamSearch::rows() const { return {parents_, tokens_, n_, asked_offsets_, asked_}; }

void BeamSearch::advance(const Continuations& next) {
  parents_.clear();
  tokens_.clear();
  int64_t row = 0;
  for (Running& running : running_) {
    const auto rows = static_cast<int64_t>(running.sentence.rows());
    running.sentence.advance({row, n_, asked_offsets_, asked_, next}, parents_, tokens_);
    row += rows;
    if (running.sentence.is_done()) done_.push_back({running.number, running.sentence.best()});
  }
  std::erase_if(running_, [](const Running& running) { return running.sentence.is_done(); });
  list_rows();
}

std::vector<BeamSearch::Done> BeamSearch::take() { return std::exchange(done_, {}); }

double length_penalty(LengthPenalty form, double x, int64_t length) {
  const auto tokens = static_cast<double>(length);
  return std::pow(form == LengthPenalty::kPower ? tokens : (5 + tokens) / 6, x);
}

}  // namespace fovea::search
