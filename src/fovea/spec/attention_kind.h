#pragma once
#include <cstdint>
#include <string_view>

#include "fovea/base/choices.h"

namespace fovea {

// The keys that a query may see before any pattern: every key of its own side, only those up to itself, or every key of
// the other side.
enum class AttentionKind : uint8_t { kSelf, kCausal, kCross };

inline constexpr std::string_view kAttentionKinds = "self|causal|cross";  // in the order of the enumeration
static_assert(choice_at(kAttentionKinds, static_cast<size_t>(AttentionKind::kCross)) == "cross");

constexpr std::string_view name_of(AttentionKind kind) { return choice_at(kAttentionKinds, static_cast<size_t>(kind)); }
inline AttentionKind parse_kind(std::string_view name) {
  return parse_choice<AttentionKind>(kAttentionKinds, name, "attention: unknown kind");
}

}  // namespace fovea
