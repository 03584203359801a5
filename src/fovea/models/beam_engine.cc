#include "fovea/models/beam_engine.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <numeric>

#include "fovea/models/diverged.h"
#include "fovea/nn/index_tensor.h"

namespace fovea::models {

std::vector<BeamRequest> BeamEngine::joining() {
  std::vector<BeamRequest> joined;
  if (state_ && !state_->can_add()) return joined;
  const int64_t fitting = count_fitting();
  if (should_gather(fitting)) return joined;
  for (int64_t i = 0; i < fitting; ++i) {
    joined.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return joined;
}

// The waiting sentences that the limits let join the running ones.
int64_t BeamEngine::count_fitting() const {
  int64_t rows = 0, tokens = 0, count = 0;
  for (const auto& [number, running] : running_) rows += running.rows, tokens += running.tokens;
  for (const BeamRequest& request : waiting_) {
    rows += request.search.options.beam_size, tokens += request.source.size(0);
    const bool alone = running_.empty() && count == 0;
    if (!alone && (rows > limits_.max_rows || tokens > limits_.max_tokens)) break;
    ++count;
  }
  return count;
}

// Whether the waiting sentences should wait for others, with which they share a pass of the encoder: its products cost
// twice as much per token for one sentence as for several. Beside few sentences a new one joins at once. Where some
// have no room, the others come when running ones are done; else they may never come.
bool BeamEngine::should_gather(int64_t fitting) {
  constexpr int64_t kMostSteps = 1, kRunningPerJoining = 8;
  const bool more_have_no_room = fitting < std::ssize(waiting_);
  const bool few = kRunningPerJoining * fitting < std::ssize(running_);
  if (fitting > 0 && few && (more_have_no_room || gathered_steps_ < kMostSteps)) {
    ++gathered_steps_;
    return true;
  }
  gathered_steps_ = 0;
  return false;
}

// The encoder's output for the sources.
nn::OtherSide BeamEngine::encode(const std::vector<BeamRequest>& requests) {
  std::vector<at::Tensor> sources;
  std::vector<int64_t> bounds = {0};
  for (const BeamRequest& request : requests) {
    sources.push_back(request.source);
    bounds.push_back(bounds.back() + request.source.size(0));
  }
  const at::Tensor weight = model_.model->output_weight(), offsets = nn::index_tensor(std::move(bounds));
  const at::Tensor all = at::cat(sources);
  const at::Tensor input = all.is_floating_point() ? all.to(weight.options()) : all.to(weight.device());
  return {model_.model->encode({input, offsets}, {}), offsets};
}

bool BeamEngine::step() {
  std::vector<BeamRequest> joined = joining();
  rows_computed_ = 0;
  if (running_.empty() && joined.empty()) return false;
  try {
    compute(std::move(joined));
  } catch (...) {
    clear();
    throw;
  }
  return true;
}

void BeamEngine::clear() {
  waiting_.clear(), running_.clear(), done_.clear(), state_.reset();
  search_ = search::BeamSearch();
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
    const Running running{request.ticket, request.search.options.beam_size, request.source.size(0)};
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
  for (const BeamRequest& request : waiting_) counts.waiting_tokens += request.source.size(0);
  return counts;
}

}  // namespace fovea::models
