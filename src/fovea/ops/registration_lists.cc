#include "fovea/ops/registration_lists.h"

#include "fovea/base/strings.h"
#include "fovea/ops/step_tensors.h"

namespace fovea::ops {

CoreArguments arguments_of(const OptionalTensor& alpha, const Lists& lists, const Text& text) {
  CoreArguments a;
  const auto& [terms, offsets, layout, stream] = lists;
  if (layout.size() < kLeastLayout || layout.size() > kLayout.size() || stream.size() < kLeastStream ||
      stream.size() > kStream.size()) {
    throw Error(cat("attention: layout has ", layout.size(), " tensors and stream ", stream.size(),
                    " numbers; expected ", kLayout.size(), " and ", kStream.size()));
  }
  if ((!terms.empty() && terms.size() != kTermTensors.size()) ||
      (!offsets.empty() && offsets.size() != kOffsets.size())) {
    throw Error(cat("attention: terms has ", terms.size(), " tensors and offsets ", offsets.size(),
                    " numbers; expected ", kTermTensors.size(), " and ", kOffsets.size(), ", or none"));
  }
  for (size_t i = 0; i < layout.size(); ++i) a.*kLayout[i] = layout.get(i);
  for (size_t i = 0; i < stream.size(); ++i) a.*kStream[i] = stream[i];
  for (size_t i = 0; i < terms.size(); ++i) a.terms.*kTermTensors[i] = tensor_or_none(terms.get(i));
  for (size_t i = 0; i < offsets.size(); ++i) a.offsets.*kOffsets[i] = offsets[i];
  a.alpha = alpha;
  a.spec = text.spec, a.kind = text.kind;
  return a;
}

WantedTerms wanted_of(int64_t bits) {
  WantedTerms wanted{};
  for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = (bits >> i & 1) != 0;
  return wanted;
}
int64_t wanted_bits(const TermTensors& terms) {
  int64_t bits = 0;
  for (size_t i = 0; i < kTermTensors.size(); ++i) {
    const at::Tensor& term = terms.*kTermTensors[i];
    if (term.defined() && term.requires_grad()) bits |= int64_t{1} << i;
  }
  return bits;
}

std::vector<at::Tensor> list_of(const TermTensors& terms) {
  std::vector<at::Tensor> all;
  for (const auto member : kTermTensors) all.push_back(terms.*member);
  return all;
}
OptionalTensors optional_list_of(const TermTensors& terms) {
  OptionalTensors all;
  for (const auto member : kTermTensors) all.push_back(some_or_none(terms.*member));
  return all;
}
TermTensors terms_of(const OptionalTensors& list) {
  TermTensors terms;
  for (size_t i = 0; i < list.size() && i < kTermTensors.size(); ++i)
    terms.*kTermTensors[i] = tensor_or_none(list.get(i));
  return terms;
}

}  // namespace fovea::ops
