#include "fovea/kernels/simd/isa.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <vector>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::kernels {
namespace {

constexpr std::array<std::string_view, 9> kNames = {"portable",     "avx2", "avx512",   "avx512-bf16", "avx512-amx",
                                                    "amx-emulated", "neon", "neon-dot", "neon-bf16"};
// The levels of this architecture, each before the better ones; the emulated tiles, for tests alone, come last.
#if defined(__x86_64__)
constexpr std::array kLevels = {Isa::kPortable,   Isa::kAvx2,      Isa::kAvx512,
                                Isa::kAvx512Bf16, Isa::kAvx512Amx, Isa::kAmxEmulated};
#elif defined(__aarch64__)
constexpr std::array kLevels = {Isa::kPortable, Isa::kNeon, Isa::kNeonDot, Isa::kNeonBf16};
#else
constexpr std::array kLevels = {Isa::kPortable, Isa::kAmxEmulated};
#endif

#if defined(__x86_64__)
// Linux saves tiles of a process at its switches only after the process asked for it, as they are large.
bool tiles_permitted() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // of arch_prctl(2)
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}
#endif

Isa best_vectors() {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512 && __builtin_cpu_supports("avx512bf16")) return Isa::kAvx512Bf16;
  if (avx512) return Isa::kAvx512;
  if (avx2) return Isa::kAvx2;
#elif defined(__aarch64__) && defined(__linux__)
  constexpr unsigned long kDotProducts = 1UL << 20, kBf16 = 1UL << 14;  // HWCAP_ASIMDDP, HWCAP2_BF16
  if ((getauxval(AT_HWCAP) & kDotProducts) == 0) return Isa::kNeon;
  return (getauxval(AT_HWCAP2) & kBf16) != 0 ? Isa::kNeonBf16 : Isa::kNeonDot;
#elif defined(__aarch64__)
  return Isa::kNeon;
#endif
  return Isa::kPortable;
}

#if defined(__x86_64__)
// amx-bf16, amx-tile and amx-int8 of CPUID's leaf 7; clang 14's __builtin_cpu_supports() does not know them.
bool has_tile_instructions() {
  constexpr unsigned kBf16 = 1U << 22, kTile = 1U << 24, kInt8 = 1U << 25, kAll = kBf16 | kTile | kInt8;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & kAll) == kAll;
}
#endif

// The highest level, whether it is the fastest or not.
Isa find_highest() {
  const Isa vectors = best_vectors();
#if defined(__x86_64__)
  const bool amx = has_tile_instructions() && __builtin_cpu_supports("avx512vnni");
  if (vectors == Isa::kAvx512Bf16 && amx && tiles_permitted()) return Isa::kAvx512Amx;
#endif
  return vectors;
}

Isa highest() {
  static const Isa kLevel = find_highest();
  return kLevel;
}

// Products of pairs of bfloat16 are Intel's slowest: two of them take as long as four of floats, measured where tiles
// are (110 against 218 GFLOP/s a core); a training step in bfloat16 took 428 ms, by products of floats 324.
bool has_slow_bf16_pairs() {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

bool is_built(Isa level) {
  return level == Isa::kAmxEmulated ? FOVEA_EMULATED_TILES != 0
                                    : (FOVEA_LEVEL_MASK >> static_cast<int>(level) & 1) != 0;
}

bool runs(Isa level) { return is_built(level) && (level == Isa::kAmxEmulated || level <= highest()); }

// The names of this architecture's levels that `has` is true of.
template <class Has>
std::string names_of(const Has& has) {
  std::vector<std::string> names;
  for (const Isa level : kLevels) {
    if (has(level)) names.emplace_back(name(level));
  }
  return join(names, ", ");
}

Isa asked() {
  const char* text = std::getenv("FOVEA_CPU");
  if (text == nullptr || *text == 0) return best_isa();
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] != text) continue;
    const auto level = static_cast<Isa>(i);
    if (std::find(kLevels.begin(), kLevels.end(), level) == kLevels.end()) {
      throw Error(
          cat("FOVEA_CPU=", text, " is a level of other processors; expected one of this machine's: ", names_of(runs)));
    }
    if (level == Isa::kAmxEmulated && !runs(level)) {
      throw Error(cat("FOVEA_CPU=", text,
                      ": this Fovea was built without tests, which alone use emulated tiles; unset "
                      "it or name another level"));
    }
    if (!is_built(level)) {
      throw Error(cat("FOVEA_CPU=", text, ": this Fovea was built for ", names_of(is_built),
                      "; unset it, name one of these, or build with ./fovea.sh build --all"));
    }
    if (!runs(level)) {
      throw Error(cat("FOVEA_CPU=", text, ": this machine's best is ", name(best_isa()), "; unset it or name that"));
    }
    return level;
  }
  throw Error(cat("FOVEA_CPU=", text, " is not a level; known: ", names_of([](Isa) { return true; })));
}

Isa& current() {
  static Isa level = asked();
  return level;
}

}  // namespace

Isa best_isa() {
  Isa best = Isa::kPortable;
  for (const Isa level : kLevels) {
    const bool is_slow = level == Isa::kAvx512Bf16 && has_slow_bf16_pairs() && is_built(Isa::kAvx512);
    if (runs(level) && level != Isa::kAmxEmulated && !is_slow) best = level;
  }
  return best;
}

std::vector<Isa> runnable_isas() {
  std::vector<Isa> levels;
  for (const Isa level : kLevels) {
    if (runs(level)) levels.push_back(level);
  }
  return levels;
}

Isa isa() { return current(); }

Isa vector_isa() {
  // The emulated tiles, which only builds of all levels have, stand beside the best vectors of the machine.
  static const Isa kBest = std::min(highest(), Isa::kAvx512Bf16);
  return has_tiles() ? kBest : isa();
}

bool has_tiles() { return isa() == Isa::kAvx512Amx || isa() == Isa::kAmxEmulated; }

bool has_int8_product() {
#if defined(__x86_64__)
  return vector_isa() >= Isa::kAvx512 && __builtin_cpu_supports("avx512vnni") != 0;
#else
  return vector_isa() >= Isa::kNeonDot;
#endif
}

bool has_bf16_pairs() { return isa() == Isa::kAvx512Bf16 || isa() == Isa::kNeonBf16; }

bool has_fast_bf16() { return has_bf16_pairs() || isa() == Isa::kAvx512Amx; }

std::string missing_forms() {
  std::vector<std::string> missing;
  if (vector_isa() == Isa::kPortable) missing.emplace_back("vectors (the compiler makes some of plain code)");
  if (!has_tiles() && !has_int8_product()) missing.emplace_back("products of four bytes (by wider numbers)");
  if (!has_fast_bf16()) missing.emplace_back("products of bfloat16 (as float32)");
  return join(missing, ", ");
}

void set_isa(Isa level) {
  if (!runs(level)) throw Error(cat("set_isa: ", name(level), " is above this machine's ", name(best_isa())));
  current() = level;
}

std::string_view name(Isa level) { return kNames[static_cast<size_t>(level)]; }

}  // namespace fovea::kernels
