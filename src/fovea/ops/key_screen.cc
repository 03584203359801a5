#include "fovea/ops/key_screen.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/zeros.h>

#include "fovea/base/strings.h"
#include "fovea/kernels/attention/cpu/key_screen.h"
#include "fovea/ops/attention_checks.h"
#include "fovea/ops/executor.h"

namespace fovea::ops {
namespace {

bool is_cpu(const at::Tensor& x, at::ScalarType type) { return x.scalar_type() == type && x.device().is_cpu(); }

// Throws an Error unless the screen has the heads and the width of keys [.., H_kv, D].
void check_screen(const at::Tensor& keys, const KeyScreen& screen) {
  const auto& [rows, steps, extents] = screen;
  const bool defined = rows.defined() && steps.defined() && extents.defined();
  const int64_t heads = keys.size(1), bytes = kernels::key_screen_bytes(keys.size(2));
  const bool fits = defined && is_cpu(rows, at::kByte) && is_cpu(steps, at::kFloat) && is_cpu(extents, at::kFloat) &&
                    rows.dim() == 3 && steps.dim() == 2 && extents.dim() == 2 && rows.size(1) == heads &&
                    rows.size(2) == bytes && rows.stride(2) == 1 && steps.size(0) == rows.size(0) &&
                    steps.size(1) == heads && (steps.size(0) < 2 || steps.stride(0) == 1) && extents.size(0) == heads &&
                    extents.size(1) == kernels::kKeyScreenExtents && extents.is_contiguous();
  if (fits) return;
  throw Error(cat("attention: the copy of the keys has rows ", defined ? shape(rows) : "none", ", steps ",
                  defined ? shape(steps) : "none", " and extents ", defined ? shape(extents) : "none",
                  "; expected uint8 [T, ", heads, ", ", bytes, "], float32 [T, ", heads, "] and float32 [", heads, ", ",
                  kernels::kKeyScreenExtents, "] on the CPU, as empty_key_screen() makes them"));
}

}  // namespace

bool reads_key_screen(const AttentionSpec& spec) { return kernels::reads_key_screen(spec); }

KeyScreen empty_key_screen(int64_t tokens, int64_t num_heads, int64_t head_dim) {
  // A head's rows lie one after the other: a step reads them all.
  const at::Tensor rows = at::empty({num_heads, tokens, kernels::key_screen_bytes(head_dim)}, at::kByte);
  return {rows.transpose(0, 1), at::empty({num_heads, tokens}, at::kFloat).t(),
          at::zeros({num_heads, kernels::kKeyScreenExtents}, at::kFloat)};
}

void pack_key_screen(const at::Tensor& keys, const KeyScreen& screen, const at::Tensor& centre,
                     const std::optional<at::Tensor>& places, int64_t first) {
  if (keys.dim() != 3 || !(is_cpu(keys, at::kFloat) || is_cpu(keys, at::kBFloat16))) {
    throw Error(cat("pack_key_screen: keys are ", keys.scalar_type(), ' ', shape(keys), " on ", keys.device().str(),
                    "; expected float32 or bfloat16 [T, H, D] on the CPU"));
  }
  check_screen(keys, screen);
  if (!is_cpu(centre, at::kFloat) || centre.sizes() != keys.sizes().slice(1)) {
    throw Error(cat("pack_key_screen: centre is ", centre.scalar_type(), ' ', shape(centre), "; expected float32 [",
                    keys.size(1), ", ", keys.size(2), "] on the CPU"));
  }
  const at::Tensor rows = keys.stride(2) == 1 ? keys : keys.contiguous(), of_heads = centre.contiguous();
  at::Tensor list;
  int64_t least = first, most = first + keys.size(0) - 1;
  if (places && keys.size(0) > 0) {
    list = places->contiguous();
    if (!is_cpu(list, at::kLong) || list.dim() != 1 || list.size(0) != keys.size(0)) {
      throw Error(cat("pack_key_screen: places are ", list.scalar_type(), ' ', shape(list), "; expected int64 [",
                      keys.size(0), "] on the CPU"));
    }
    least = list.min().item<int64_t>(), most = list.max().item<int64_t>();
  }
  if (keys.size(0) > 0 && (least < 0 || most >= screen.rows.size(0))) {
    throw Error(cat("pack_key_screen: keys go to the rows ", least, " to ", most, "; expected rows of the copy, 0 to ",
                    screen.rows.size(0) - 1));
  }
  kernels::pack_key_screen(
      {.keys = {rows.const_data_ptr(), rows.stride(0), rows.stride(1)},
       .dtype = rows.scalar_type() == at::kFloat ? kernels::DType::kFloat32 : kernels::DType::kBFloat16,
       .num_heads = rows.size(1),
       .head_dim = rows.size(2),
       .count = rows.size(0),
       .centre = {of_heads.const_data_ptr<float>(), 0, of_heads.stride(0)},
       .tokens = list.defined() ? list.const_data_ptr<int64_t>() : nullptr,
       .first = first,
       .rows = {screen.rows.mutable_data_ptr<uint8_t>(), screen.rows.stride(0), screen.rows.stride(1)},
       .steps = {screen.steps.mutable_data_ptr<float>(), 1, screen.steps.stride(1)},
       .extents = screen.extents.mutable_data_ptr<float>()},
      torch_executor());
}

at::Tensor key_screen_centre(const at::Tensor& keys) {
  constexpr int64_t kFewest = 16;
  if (keys.size(0) < kFewest) return at::zeros({keys.size(1), keys.size(2)}, at::kFloat);
  const at::Tensor mean = keys.mean(0, false, at::kFloat);
  return mean.isfinite().all().item<bool>() ? mean : at::zeros_like(mean);
}

KeyScreen checked_screen(const at::Tensor& k, const AttentionOptions& options) {
  const KeyScreen& screen = options.screen;
  if (!screen.rows.defined()) return {};
  if (!options.k_begins) throw Error("attention: a copy of the keys goes with k_begins and k_lengths");
  check_screen(k, screen);
  if (screen.rows.size(0) >= k.size(0)) return screen;
  throw Error(cat("attention: the copy of the keys has ", screen.rows.size(0), " rows for ", k.size(0),
                  " keys; expected as many"));
}

kernels::KeyScreen kernel_screen(const KeyScreen& screen) {
  return {{screen.rows.const_data_ptr<uint8_t>(), screen.rows.stride(0), screen.rows.stride(1)},
          {screen.steps.const_data_ptr<float>(), 1, screen.steps.stride(1)},
          screen.extents.const_data_ptr<float>()};
}

}  // namespace fovea::ops
