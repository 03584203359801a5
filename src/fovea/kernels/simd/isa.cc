#include "fovea/kernels/simd/isa.h"

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::kernels {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"portable", "avx2", "avx512", "avx512-bf16"};

Isa asked() {
  const char* text = std::getenv("FOVEA_CPU");
  if (text == nullptr || *text == 0) return best_isa();
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] != text) continue;
    if (static_cast<Isa>(i) > best_isa()) {
      throw Error(cat("FOVEA_CPU=", text, ": this machine's best is ", name(best_isa()), "; unset it or name that"));
    }
    return static_cast<Isa>(i);
  }
  throw Error(cat("FOVEA_CPU=", text,
                  " is not a level; known: ", join(std::vector<std::string>(kNames.begin(), kNames.end()), ", ")));
}

Isa& current() {
  static Isa level = asked();
  return level;
}

}  // namespace

Isa best_isa() {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512 && __builtin_cpu_supports("avx512bf16")) return Isa::kAvx512Bf16;
  if (avx512) return Isa::kAvx512;
  if (avx2) return Isa::kAvx2;
#endif
  return Isa::kPortable;
}

Isa isa() { return current(); }

bool has_int8_product() {
#if defined(__x86_64__)
  return isa() >= Isa::kAvx512 && __builtin_cpu_supports("avx512vnni") != 0;
#else
  return false;
#endif
}

void set_isa(Isa level) {
  if (level > best_isa()) throw Error(cat("set_isa: ", name(level), " is above this machine's ", name(best_isa())));
  current() = level;
}

std::string_view name(Isa level) { return kNames[static_cast<size_t>(level)]; }

}  // namespace fovea::kernels
