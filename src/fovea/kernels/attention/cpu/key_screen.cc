#include "fovea/kernels/attention/cpu/key_screen.h"

#include <algorithm>
#include <variant>

namespace fovea::kernels {

bool reads_key_screen(const AttentionSpec& spec) {
  if (!spec.select || spec.select->keep || !spec.pairs().is_full()) return false;
  return !std::holds_alternative<Sparsemax>(spec.transform) && !std::holds_alternative<Entmax>(spec.transform);
}

KeyScreenSums key_screen_sums() {
  if (has_int8_product()) return &key_screen_sums_int8;
  return with_isa([](auto tag) -> KeyScreenSums { return &KeyScreenRows<decltype(tag)::kIsa>::sums; });
}

void pack_key_screen(const KeyScreenCall& call, Executor& executor) {
  constexpr int64_t kRowsOfTask = 256;
  const bool is_bf16 = call.dtype == DType::kBFloat16;
  const auto of_head = [&](int64_t head) {
    const int64_t element = is_bf16 ? 2 : 4;
    return KeyScreenPack{.keys = static_cast<const char*>(call.keys.data) + head * call.keys.head_stride * element,
                         .stride = call.keys.token_stride,
                         .is_bf16 = is_bf16,
                         .head_dim = call.head_dim,
                         .centre = call.centre.data + head * call.centre.head_stride,
                         .rows = call.rows.data + head * call.rows.head_stride,
                         .row_stride = call.rows.token_stride,
                         .steps = call.steps.data + head * call.steps.head_stride,
                         .extents = call.extents + head * kKeyScreenExtents};
  };
  const auto pack = [&](int64_t head) {
    with_isa([&](auto tag) {
      KeyScreenRows<decltype(tag)::kIsa>::pack(of_head(head), call.tokens, call.first, call.count);
    });
  };
  if (call.count * call.num_heads <= kRowsOfTask) {  // a step of decoding: starting threads takes longer
    for (int64_t head = 0; head < call.num_heads; ++head) pack(head);
    return;
  }
  executor.run(call.num_heads, [&](int64_t head, int) { pack(head); });
}

}  // namespace fovea::kernels
