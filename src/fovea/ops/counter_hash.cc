#include "fovea/ops/counter_hash.h"

#include <ATen/TensorOperators.h>

#include <bit>

#include "fovea/base/rng.h"

namespace fovea::ops {
namespace {

constexpr int64_t as_signed(uint64_t bits) { return std::bit_cast<int64_t>(bits); }

// x >> shift as of unsigned numbers: a tensor's shift copies the sign.
at::Tensor shifted_right(const at::Tensor& x, int shift) {
  return x.__rshift__(shift).bitwise_and((int64_t{1} << (64 - shift)) - 1);
}

// mix64; products wrap around.
at::Tensor mix64_of(const at::Tensor& given) {
  at::Tensor x = given + as_signed(0x9e3779b97f4a7c15ULL);
  x = x.bitwise_xor(shifted_right(x, 30)).mul_(as_signed(0xbf58476d1ce4e5b9ULL));
  x = x.bitwise_xor(shifted_right(x, 27)).mul_(as_signed(0x94d049bb133111ebULL));
  return x.bitwise_xor(shifted_right(x, 31));
}

}  // namespace

at::Tensor hash_combine_of(const at::Tensor& seed, const at::Tensor& value) {
  return mix64_of(mix64_of(value).bitwise_xor(seed));
}

at::Tensor hash32_of(const at::Tensor& key, const at::Tensor& counter) {
  constexpr int64_t kLow = 0xffffffff;
  // Products keep the low 32 bits right in 64-bit lanes.
  const auto round = [](const at::Tensor& x, int shift, int64_t factor) {
    return x.bitwise_xor(x.__rshift__(shift)).mul_(factor).bitwise_and_(kLow);
  };
  at::Tensor x = counter.bitwise_xor(key);
  x = round(round(x, 16, kHash32First), 15, kHash32Second);
  x = x.bitwise_xor(x.__rshift__(16)).bitwise_xor_(key.mul(int64_t{kHash32Key}).bitwise_and_(kLow));
  x = round(round(x, 16, kHash32First), 15, kHash32Second);
  return x.bitwise_xor(x.__rshift__(16));
}

}  // namespace fovea::ops
