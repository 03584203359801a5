#include "fovea/models/beam_engine.h"

#include <algorithm>
#include <numeric>

#include "fovea/models/diverged.h"
#include "fovea/models/scorer.h"
#include "fovea/nn/index_tensor.h"

namespace fovea::models {

std::vector<BeamRequest> BeamEngine::joining() {
  std::vector<BeamRequest> joined;
  if (state_ && !state_->can_add()) return joined;
  if (should_gather()) return joined;
  int64_t rows = 0, tokens = 0;
  for (const auto& [number, running] : running_) rows += running.rows, tokens += running.tokens;
  while (!waiting_.empty()) {
    rows += waiting_.front().search.options.beam_size, tokens += std::ssize(waiting_.front().source);
    const bool alone = running_.empty() && joined.empty();
    if (!alone && (rows > limits_.max_rows || tokens > limits_.max_tokens)) break;
    joined.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return joined;
}

// Whether the waiting sentences should wait for others, with which they share a pass of the encoder: its products cost
// twice as much per token for one sentence as for several. Beside few sentences a new one joins at once.
bool BeamEngine::should_gather() {
  constexpr int64_t kMostSteps = 1, kRunningPerJoining = 8;
  if (!waiting_.empty() && gathered_steps_ < kMostSteps &&
      kRunningPerJoining * std::ssize(waiting_) < std::ssize(running_)) {
    ++gathered_steps_;
    return true;
  }
  gathered_steps_ = 0;
  return false;
}

nn::OtherSide BeamEngine::encode(const std::vector<BeamRequest>& requests) {
  std::vector<const Sentence*> sources;
  for (const BeamRequest& request : requests) sources.push_back(&request.source);
  const PackedSentences packed = pack(sources, model_.model->output_weight().device());
  return {model_.model->encode({packed.tokens, packed.offsets}, {}), packed.offsets};
}

bool BeamEngine::step() {
  std::vector<BeamRequest> joined = joining();
  rows_computed_ = 0;
  if (running_.empty() && joined.empty()) return false;
  try {
    compute(std::move(joined));
  } catch (...) {
    waiting_.clear(), running_.clear(), done_.clear(), state_.reset();
    search_ = search::BeamSearch();
    throw;
  }
  return true;
}

// The rows of the model's state become the search's.
void BeamEngine::lend_rows(const std::vector<BeamRequest>& joined) {
  const auto parents = search_.rows().parents;
  const std::vector<int64_t> kept(parents.begin(), parents.end() - std::ssize(joined));
  if (kept.empty()) {
    std::vector<int64_t> sentences(joined.size());
    std::iota(sentences.begin(), sentences.end(), 0);
    state_ = model_.model->start(encode(joined), sentences, model_.decoder);
    return;
  }
  state_->reorder(kept);
  if (!joined.empty()) state_->add_sentences(encode(joined));
}

void BeamEngine::compute(std::vector<BeamRequest> joined) {
  for (BeamRequest& request : joined) {
    request.search.options.vocabulary = model_.model->output_weight().size(0);
    const Running running{request.ticket, request.search.options.beam_size, std::ssize(request.source)};
    running_[search_.add(std::move(request.search))] = running;
  }
  lend_rows(joined);
  const search::ScoredRows rows = search_.rows();
  rows_computed_ = std::ssize(rows.parents);
  const at::Tensor hidden = state_->step(nn::index_tensor(rows.tokens).to(model_.model->output_weight().device()));
  search::Continuations next;
  const ops::PrepackedLayer::Wanted wanted{rows.n, eos_, rows.asked_offsets, rows.asked};
  if (model_.output.next_words(hidden.to(at::kFloat), wanted, next) > 0) refuse_diverged();
  search_.advance(next);
  for (search::BeamSearch::Done& done : search_.take()) {
    done_.push_back({running_.at(done.sentence).ticket, std::move(done.best)});
    running_.erase(done.sentence);
  }
  if (running_.empty()) state_.reset();
}

void BeamEngine::cancel(Ticket ticket) {
  std::erase_if(waiting_, [&](const BeamRequest& request) { return request.ticket == ticket; });
  std::erase_if(done_, [&](const Done& done) { return done.ticket == ticket; });
  const auto found = std::ranges::find_if(running_, [&](const auto& entry) { return entry.second.ticket == ticket; });
  if (found == running_.end()) return;
  search_.remove(found->first);
  running_.erase(found);
  if (running_.empty()) state_.reset();
}

EngineCounts BeamEngine::counts() const {
  EngineCounts counts;
  counts.rows = rows_computed_;
  counts.running = std::ssize(running_);
  for (const auto& [number, running] : running_) counts.running_tokens += running.tokens;
  counts.waiting = std::ssize(waiting_);
  for (const BeamRequest& request : waiting_) counts.waiting_tokens += std::ssize(request.source);
  return counts;
}

}  // namespace fovea::models
