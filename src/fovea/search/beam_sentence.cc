#include "fovea/search/beam_sentence.h"

#include <algorithm>
#include <utility>

#include "fovea/search/bank_shares.h"

namespace fovea::search {

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
    Hypothesis hypothesis{{}, finished.log_prob, finished.score, {finished.step}, finished.is_cut, finished.says_all};
    for (int64_t node = finished.node; node >= 0; node = nodes_[static_cast<size_t>(node)].parent) {
      hypothesis.tokens.push_back(nodes_[static_cast<size_t>(node)].token);
      hypothesis.log_probs.push_back(nodes_[static_cast<size_t>(node)].log_prob);
    }
    std::ranges::reverse(hypothesis.tokens);
    std::ranges::reverse(hypothesis.log_probs);
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
      extensions_.push_back(
          {live_[i].log_prob + best[j].log_prob, best[j].token, static_cast<int64_t>(i), best[j].log_prob});
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
    const float log_prob = rows.next.asked_log_probs[a];
    extensions_.push_back({live_[row].log_prob + log_prob, word, static_cast<int64_t>(row), log_prob});
  }
}

void SearchedSentence::extend_by_end(const Rows& rows) {
  for (size_t i = 0; i < live_.size(); ++i) {
    const float end = rows.next.eos_log_prob[static_cast<size_t>(rows.first) + i];
    extensions_.push_back({live_[i].log_prob + end, sentence_.options.eos, static_cast<int64_t>(i), end});
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
  nodes_.push_back({parent.node, extension.token, extension.step});
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
  const Finished finished{parent.node,        extension.log_prob, score, extension.step, length_ > sentence_.max_length,
                          parent.missing == 0};
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

}  // namespace fovea::search
