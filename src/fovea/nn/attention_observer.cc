#include "fovea/nn/attention_observer.h"

#include <utility>

namespace fovea::nn {
namespace {

thread_local const AttentionObserver* innermost = nullptr;

}  // namespace

AttentionObserver::AttentionObserver(See see, SeeMembers see_members)
    : see_(std::move(see)), see_members_(std::move(see_members)), outer_(std::exchange(innermost, this)) {}
AttentionObserver::~AttentionObserver() { innermost = outer_; }
const AttentionObserver* AttentionObserver::current() { return innermost; }

AttentionObserver::Pause::Pause() : paused_(std::exchange(innermost, nullptr)) {}
AttentionObserver::Pause::~Pause() { innermost = paused_; }

}  // namespace fovea::nn
