#include "fovea/nn/attention_observer.h"

#include <utility>

namespace fovea::nn {
namespace {

thread_local const AttentionObserver* innermost = nullptr;

}  // namespace

at::Tensor SeenAttention::dense() const {
  return weights.defined() ? weights : ops::attention_weights(q, k, layer, options);
}

AttentionObserver::AttentionObserver(See see)
    : AttentionObserver(SeeCall([see = std::move(see)](const SeenAttention& seen) { see(seen.place, seen.dense()); })) {
}
AttentionObserver::AttentionObserver(SeeCall see) : see_(std::move(see)), outer_(std::exchange(innermost, this)) {}
AttentionObserver::~AttentionObserver() { innermost = outer_; }
const AttentionObserver* AttentionObserver::current() { return innermost; }

AttentionObserver::Pause::Pause() : paused_(std::exchange(innermost, nullptr)) {}
AttentionObserver::Pause::~Pause() { innermost = paused_; }

}  // namespace fovea::nn
