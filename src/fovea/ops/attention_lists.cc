#include "fovea/ops/attention_lists.h"

#include <algorithm>

#include "fovea/base/strings.h"

namespace fovea::ops {
namespace {

template <size_t N>
OptionalTensors tensors_of(const GroupCall& call, const std::array<CallInput, N>& inputs) {
  OptionalTensors list;
  list.reserve(N);
  for (const CallInput& input : inputs) {
    const c10::IValue value = input.get(call);
    list.push_back(value.toOptional<at::Tensor>());
  }
  return list;
}

template <size_t N>
std::array<int64_t, N> numbers_of(const GroupCall& call, const std::array<CallInput, N>& inputs) {
  std::array<int64_t, N> list{};
  std::ranges::transform(inputs, list.begin(), [&](const CallInput& input) { return input.get(call).toInt(); });
  return list;
}

template <size_t N>
void check_length(size_t length, const std::array<CallInput, N>&, const char* name) {
  if (length != N) throw Error(cat("attention: the list ", name, " has ", length, " entries; expected ", N));
}

}  // namespace

CallLists::CallLists(const GroupCall& call)
    : terms(tensors_of(call, kTerms)),
      layout(tensors_of(call, kLayout)),
      offsets(numbers_of(call, kOffsets)),
      stream(numbers_of(call, kStream)) {}

CallLists::CallLists(const ListViews& given) : terms(given.terms), layout(given.layout), offsets(), stream() {
  check_length(terms.size(), kTerms, "terms"), check_length(given.offsets.size(), kOffsets, "offsets");
  check_length(layout.size(), kLayout, "layout"), check_length(given.stream.size(), kStream, "stream");
  std::ranges::copy(given.offsets, offsets.begin());
  std::ranges::copy(given.stream, stream.begin());
}

void set_lists(GroupCall& call, const at::Tensor& q, const CallLists& lists) {
  const auto& [terms, layout, offsets, stream] = lists;
  for (size_t i = 0; i < terms.size(); ++i) kTerms[i].set(call, terms.get(i));
  for (size_t i = 0; i < layout.size(); ++i) kLayout[i].set(call, layout.get(i));
  for (size_t i = 0; i < offsets.size(); ++i) kOffsets[i].set(call, offsets[i]);
  for (size_t i = 0; i < stream.size(); ++i) kStream[i].set(call, stream[i]);
  const at::Tensor& pairs = call.pairs.lists;
  call.pairs.by_key_head = pairs.defined() && pairs.dim() == q.dim();
}

}  // namespace fovea::ops
