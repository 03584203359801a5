#pragma once
#include <ATen/core/List.h>

#include <array>
#include <optional>
#include <vector>

#include "fovea/ops/attention_core.h"

// Lists in the schemas of the operators: a new tensor or number makes a list longer and leaves the schema as it is.
namespace fovea::ops {

using OptionalTensor = std::optional<at::Tensor>;
using OptionalTensors = c10::List<OptionalTensor>;

// The members that the operators' `layout`, `offsets` and `stream` hold, in this order; `terms` are kTermTensors. A
// graph that was stored before a list got longer leaves out its end; the least lengths are these.
inline constexpr size_t kLeastLayout = 7, kLeastStream = 4;
inline constexpr std::array kLayout{&CoreArguments::q_offsets,  &CoreArguments::k_offsets, &CoreArguments::k_begins,
                                    &CoreArguments::k_tokens,   &CoreArguments::q_lengths, &CoreArguments::k_lengths,
                                    &CoreArguments::drawn_seed, &CoreArguments::given};
inline constexpr std::array kOffsets{&TermOffsets::by_head, &TermOffsets::by_query, &TermOffsets::rows,
                                     &TermOffsets::sums, &TermOffsets::sum_count};
inline constexpr std::array kStream{&CoreArguments::seed, &CoreArguments::layer, &CoreArguments::first_head,
                                    &CoreArguments::heads_per_key, &CoreArguments::given_block};

struct Text {
  std::string_view spec, kind;
};
struct Lists {
  const OptionalTensors& terms;
  at::IntArrayRef offsets;
  const OptionalTensors& layout;
  at::IntArrayRef stream;
};
// Throws an Error if a list has another length; terms and offsets may be empty: none.
CoreArguments arguments_of(const OptionalTensor& alpha, const Lists& lists, const Text& text);

// A bit for each of kTermTensors.
WantedTerms wanted_of(int64_t bits);
// The bits of the terms that require gradients.
int64_t wanted_bits(const TermTensors& terms);

std::vector<at::Tensor> list_of(const TermTensors& terms);
OptionalTensors optional_list_of(const TermTensors& terms);
TermTensors terms_of(const OptionalTensors& list);

}  // namespace fovea::ops
