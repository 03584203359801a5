#include "fovea/search/beam.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fovea/search/beam_sentence.h"

namespace fovea::search {

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

std::vector<std::vector<Hypothesis>> beam_search(Scorer& scorer, std::vector<BeamSentence> sentences) {
  BeamSearch search;
  std::vector<std::vector<Hypothesis>> results(sentences.size());
  for (BeamSentence& sentence : sentences) search.add(std::move(sentence));
  Continuations next;
  while (!search.rows().parents.empty()) {
    scorer.step(search.rows(), next);
    search.advance(next);
  }
  for (BeamSearch::Done& done : search.take()) results[static_cast<size_t>(done.sentence)] = std::move(done.best);
  return results;
}

std::vector<std::vector<Hypothesis>> beam_search(Scorer& scorer, std::span<const int64_t> max_lengths,
                                                 const BeamOptions& options) {
  std::vector<BeamSentence> sentences;
  for (const int64_t max_length : max_lengths) sentences.push_back({options, max_length});
  return beam_search(scorer, std::move(sentences));
}

}  // namespace fovea::search
