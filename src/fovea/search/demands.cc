#include "fovea/search/demands.h"

#include <algorithm>
#include <limits>

namespace fovea::search {

Demands::Demands(const std::vector<std::vector<Phrase>>& demands,
                 std::shared_ptr<const std::vector<bool>> continues_word)
    : size_(demands.size()), nodes_(2), continues_word_(std::move(continues_word)) {
  for (size_t d = 0; d < demands.size(); ++d) {
    int64_t shortest = std::numeric_limits<int64_t>::max();
    for (const Phrase& phrase : demands[d]) {
      insert(kStart, phrase, static_cast<int32_t>(d));
      if (phrase.only_first) continue;
      insert(kRoot, phrase, static_cast<int32_t>(d));
      shortest = std::min(shortest, std::ssize(phrase.tokens));
    }
    lengths_.push_back(shortest);
  }
}

void Demands::insert(int32_t root, const Phrase& phrase, int32_t demand) {
  int32_t node = root;
  auto left = static_cast<int32_t>(phrase.tokens.size());
  for (const int64_t token : phrase.tokens) {
    auto& leads = nodes_[static_cast<size_t>(node)].leads;
    const auto known = std::ranges::find(leads, demand, &std::pair<int32_t, int32_t>::first);
    if (known == leads.end()) {
      leads.emplace_back(demand, left);
    } else {
      known->second = std::min(known->second, left);
    }
    --left;
    int32_t next = child(node, token);
    if (next == kNone) {
      next = static_cast<int32_t>(nodes_.size());
      nodes_.emplace_back();
      auto& children = nodes_[static_cast<size_t>(node)].children;
      children.insert(std::ranges::lower_bound(children, std::pair(token, next)), {token, next});
    }
    node = next;
  }
  nodes_[static_cast<size_t>(node)].ends.emplace_back(demand, phrase.ends_word);
}

int32_t Demands::child(int32_t node, int64_t token) const {
  const auto& children = nodes_[static_cast<size_t>(node)].children;
  const auto place = std::ranges::lower_bound(children, token, {}, &std::pair<int64_t, int32_t>::first);
  return place != children.end() && place->first == token ? place->second : kNone;
}

bool Demands::leads_on(const State& state, int32_t node) const {
  const auto is_open = [&](int32_t demand) { return !is_said(state, demand) && demand != state.held; };
  const Node& of = nodes_[static_cast<size_t>(node)];
  return std::ranges::any_of(of.leads, is_open, &std::pair<int32_t, int32_t>::first) ||
         std::ranges::any_of(of.ends, is_open, &std::pair<int32_t, bool>::first);
}

void Demands::enter(State& state, int32_t node) const {
  state.node = node;
  for (const auto& [demand, ends_word] : nodes_[static_cast<size_t>(node)].ends) {
    if (is_said(state, demand) || demand == state.held) continue;
    state.held = demand, state.held_node = node;
    return;
  }
}

Demands::State Demands::next(const State& state, int64_t token) const {
  State result = state;
  if (empty()) return result;
  if (state.held != kNone && state.node == state.held_node && continues_word_ != nullptr &&
      (*continues_word_)[static_cast<size_t>(token)]) {
    const auto& ends = nodes_[static_cast<size_t>(state.node)].ends;
    if (std::ranges::find(ends, state.held, &std::pair<int32_t, bool>::first)->second) result.held = kNone;
  }
  const int32_t further = child(state.node, token);
  if (further != kNone && leads_on(result, further)) {
    enter(result, further);
    return result;
  }
  if (result.held != kNone) result.said.set(static_cast<size_t>(result.held));
  result.held = kNone, result.node = kRoot;
  const int32_t first = child(kRoot, token);
  if (first != kNone && leads_on(result, first)) enter(result, first);
  return result;
}

int64_t Demands::missing(const State& state) const {
  int64_t all = 0;
  for (size_t d = 0; d < size_; ++d) {
    if (!is_said(state, static_cast<int32_t>(d)) && static_cast<int32_t>(d) != state.held) all += lengths_[d];
  }
  if (empty() || state.node == kRoot) return all;
  const int64_t held = state.held == kNone ? 0 : lengths_[static_cast<size_t>(state.held)];
  int64_t least = all;
  for (const auto& [demand, left] : nodes_[static_cast<size_t>(state.node)].leads) {
    if (is_said(state, demand) || demand == state.held) continue;
    least = std::min(least, all + held - lengths_[static_cast<size_t>(demand)] + left);
  }
  return least;
}

std::vector<size_t> Demands::unsaid(std::span<const int64_t> tokens) const {
  State state;
  for (const int64_t token : tokens) state = next(state, token);
  std::vector<size_t> all;
  for (size_t d = 0; d < size_; ++d) {
    if (!is_said(state, static_cast<int32_t>(d)) && static_cast<int32_t>(d) != state.held) all.push_back(d);
  }
  return all;
}

void Demands::append_children(const State& state, int32_t node, std::vector<int32_t>& tokens) const {
  for (const auto& [token, next] : nodes_[static_cast<size_t>(node)].children) {
    if (leads_on(state, next)) tokens.push_back(static_cast<int32_t>(token));
  }
}

void Demands::append_wanted(const State& state, std::vector<int32_t>& tokens) const {
  if (empty()) return;
  const auto begin = std::ssize(tokens);
  append_children(state, state.node, tokens);
  // A phrase that has begun goes on, unless another one is as near to the end.
  State elsewhere = state;
  elsewhere.node = kRoot;
  if (state.node != kRoot && missing(state) >= missing(elsewhere)) append_children(state, kRoot, tokens);
  std::sort(tokens.begin() + begin, tokens.end());
  tokens.erase(std::unique(tokens.begin() + begin, tokens.end()), tokens.end());
}

}  // namespace fovea::search
