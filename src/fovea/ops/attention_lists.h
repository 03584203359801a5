#pragma once
#include <ATen/core/List.h>
#include <ATen/core/ivalue.h>

#include <array>
#include <optional>
#include <string_view>

#include "fovea/ops/attention_core.h"

// The inputs of an attention call as the operators take them. fovea::attention takes each input by its name.
// attention_forward and attention_backward take most inputs in lists, so that a new input does not change their
// schemas.
namespace fovea::ops {

using OptionalTensor = std::optional<at::Tensor>;
using OptionalTensors = c10::List<OptionalTensor>;

// Reads and writes one input of a call. `name` is its name in fovea::attention, or empty.
struct CallInput {
  std::string_view name;
  c10::IValue (*get)(const GroupCall& call);
  void (*set)(GroupCall& call, const c10::IValue& value);
};

namespace input_field {

template <class Owner, class Field>
Owner owner_of(Field Owner::*);

// Follows a path of members from `call` to a field.
template <auto kMember, auto... kRest>
auto& field(auto& call) {
  if constexpr (sizeof...(kRest) == 0) {
    return call.*kMember;
  } else {
    return field<kRest...>(call.*kMember);
  }
}

inline c10::IValue value_of(const at::Tensor& field) { return field.defined() ? c10::IValue(field) : c10::IValue(); }
inline c10::IValue value_of(AttentionKind field) { return std::string(name_of(field)); }
template <class T>
c10::IValue value_of(const T& field) {
  return field;
}

inline void assign(at::Tensor& field, const c10::IValue& value) {
  field = value.isNone() ? at::Tensor() : value.toTensor();
}
inline void assign(AttentionKind& field, const c10::IValue& value) { field = parse_kind(value.toStringView()); }
template <class T>
void assign(T& field, const c10::IValue& value) {
  field = value.to<T>();
}

}  // namespace input_field

// The input at a path of members: call_input<&AttentionOptions::offsets, &OffsetTerms::rows>("offset_rows").
template <auto kMember, auto... kRest>
constexpr CallInput call_input(std::string_view name) {
  using Owner = decltype(input_field::owner_of(kMember));
  return {name,
          [](const GroupCall& call) {
            return input_field::value_of(input_field::field<kMember, kRest...>(static_cast<const Owner&>(call)));
          },
          [](GroupCall& call, const c10::IValue& value) {
            input_field::assign(input_field::field<kMember, kRest...>(static_cast<Owner&>(call)), value);
          }};
}

// The operators' lists. To add an input, write a line at the end of one of them. A user can pass the input once the
// schema of fovea::attention (registration_user.cc) has its name too.
inline constexpr std::array kTerms{
    call_input<&AttentionOptions::offsets, &OffsetTerms::by_head>(""),
    call_input<&AttentionOptions::offsets, &OffsetTerms::by_query>(""),
    call_input<&AttentionOptions::offsets, &OffsetTerms::queries>("offset_queries"),
    call_input<&AttentionOptions::offsets, &OffsetTerms::rows>("offset_rows"),
};
inline constexpr std::array kOffsets{
    call_input<&AttentionOptions::offsets, &OffsetTerms::by_head_first>(""),
    call_input<&AttentionOptions::offsets, &OffsetTerms::by_query_first>(""),
    call_input<&AttentionOptions::offsets, &OffsetTerms::rows_first>("offset_rows_first"),
    call_input<&AttentionOptions::offsets, &OffsetTerms::values_first>("offset_values_first"),
    call_input<&GroupCall::value_offsets>(""),
};
inline constexpr std::array kLayout{
    call_input<&AttentionOptions::q_offsets>("q_offsets"),
    call_input<&AttentionOptions::k_offsets>("k_offsets"),
    call_input<&AttentionOptions::k_begins>("k_begins"),
    call_input<&AttentionOptions::k_tokens>("k_tokens"),
    call_input<&AttentionOptions::q_lengths>("q_lengths"),
    call_input<&AttentionOptions::k_lengths>("k_lengths"),
    call_input<&AttentionOptions::drawn_seed>("drawn_seed"),
    call_input<&AttentionOptions::pairs, &PairLists::lists>(""),
    call_input<&AttentionOptions::screen, &KeyScreen::rows>(""),
    call_input<&AttentionOptions::screen, &KeyScreen::steps>(""),
    call_input<&AttentionOptions::screen, &KeyScreen::extents>(""),
};
inline constexpr std::array kStream{
    call_input<&AttentionOptions::seed>("seed"),
    call_input<&AttentionOptions::layer>("layer"),
    call_input<&GroupCall::first_head>(""),
    call_input<&GroupCall::heads_per_key>(""),
    call_input<&AttentionOptions::pairs, &PairLists::block>(""),
};
static_assert(kTerms.size() == kTermTensors.size());
// The inputs of a layer that are in none of these lists.
inline constexpr std::array kLayerInputs{
    call_input<&AttentionOptions::kind>("kind"),
    call_input<&AttentionOptions::alpha>("alpha"),
    call_input<&AttentionOptions::gain>("gain"),
    call_input<&AttentionOptions::gate>("gate"),
    call_input<&AttentionOptions::bias>("bias"),
    call_input<&AttentionOptions::scale>("scale"),
    call_input<&AttentionOptions::dropout>("dropout"),
    call_input<&AttentionOptions::dropout_seed>("dropout_seed"),
    call_input<&AttentionOptions::offsets, &OffsetTerms::values>("offset_values"),
    call_input<&AttentionOptions::enable_gqa>("enable_gqa"),
};

struct ListViews {
  const OptionalTensors& terms;
  at::IntArrayRef offsets;
  const OptionalTensors& layout;
  at::IntArrayRef stream;
};
struct CallLists {
  explicit CallLists(const GroupCall& call);
  // Throws an Error if a list does not have an entry for each of its inputs.
  explicit CallLists(const ListViews& given);
  OptionalTensors terms, layout;
  std::array<int64_t, kOffsets.size()> offsets;
  std::array<int64_t, kStream.size()> stream;
};
// Fills in the inputs of the lists. The dimensions of q tell the two kinds of pairs apart.
void set_lists(GroupCall& call, const at::Tensor& q, const CallLists& lists);

}  // namespace fovea::ops
