#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Bit i: the level i of Isa is built, those of the target's architecture or, with FOVEA_LEVELS, some of them. Only the
// sources that call with_isa() or with_tiled_isa() are told, so that a level's own code does not depend on it.
#ifndef FOVEA_LEVEL_MASK
#if defined(__aarch64__)
#define FOVEA_LEVEL_MASK 0x1c1
#else
#define FOVEA_LEVEL_MASK 0x1f
#endif
#endif

// Instruction sets of the CPU kernels. A file named *_isa.cc is compiled once for each level, with FOVEA_ISA set to the
// level's number; everything in it and in the *-inl.h headers it includes lies in unnamed namespaces, so that the
// linker never merges code of two levels. Such a file includes isa_begin-inl.h after its ordinary headers and
// isa_end-inl.h at its end, and exports explicit instantiations of a class template over Isa. Files with tiles, few,
// are compiled for the levels that have them too: with FOVEA_TILES 1 for Intel's and 0 for emulated ones
// (simd/tiles-inl.h).
namespace fovea::kernels {

// kAvx512Amx: the vectors of kAvx512Bf16 and Intel's matrix units, tiles. kAmxEmulated: the best vectors of the machine
// and tiles in plain C++, which only builds with tests have (FOVEA_EMULATED_TILES 1). kNeon: any 64-bit ARM. kNeonDot:
// with the products of bytes of ARMv8.2 (sdot). kNeonBf16: and with those of pairs of bfloat16 (bfdot).
enum class Isa : uint8_t {
  kPortable,
  kAvx2,
  kAvx512,
  kAvx512Bf16,
  kAvx512Amx,
  kAmxEmulated,
  kNeon,
  kNeonDot,
  kNeonBf16
};

template <Isa kLevel>
struct IsaTag {
  static constexpr Isa kIsa = kLevel;
};

// The fastest level that this build has and this machine runs.
// FOVEA_CPU=portable|avx2|avx512|avx512-bf16|avx512-amx|amx-emulated, or portable|neon|neon-dot|neon-bf16 on ARM, sets
// another one; an unknown name or a level that the build or the machine lacks is an Error.
Isa isa();
// isa() from now on, for tests within one process. Not to be called while kernels run.
void set_isa(Isa level);
// The fastest one. The first call asks the system for the use of tiles.
Isa best_isa();
// All that this build has and this machine runs.
std::vector<Isa> runnable_isas();
// The level of isa()'s vectors, which is another one where isa() has tiles.
Isa vector_isa();
// Whether vectors of that level have products of bytes: VNNI or sdot.
bool has_int8_product();
// Whether isa()'s vectors multiply pairs of bfloat16, and faster than floats; levels with tiles have these in their
// place.
bool has_bf16_pairs();
// Whether isa() multiplies bfloat16 faster than floats: by pairs or by tiles. Elsewhere bfloat16 becomes float first.
bool has_fast_bf16();
// Names what isa() has no form of its own for, for a person to read: "" if there is nothing.
std::string missing_forms();
std::string_view name(Isa level);

// work(IsaTag<vector_isa()>{}).
template <class Work>
decltype(auto) with_isa(Work&& work) {
#if defined(__x86_64__)
  switch (vector_isa()) {
#if FOVEA_LEVEL_MASK & 8
    case Isa::kAvx512Amx:
    case Isa::kAmxEmulated:
    case Isa::kAvx512Bf16:
      return work(IsaTag<Isa::kAvx512Bf16>{});
#endif
#if FOVEA_LEVEL_MASK & 4
    case Isa::kAvx512:
      return work(IsaTag<Isa::kAvx512>{});
#endif
#if FOVEA_LEVEL_MASK & 2
    case Isa::kAvx2:
      return work(IsaTag<Isa::kAvx2>{});
#endif
    default:
      break;
  }
#elif defined(__aarch64__)
  switch (vector_isa()) {
#if FOVEA_LEVEL_MASK & 256
    case Isa::kNeonBf16:
      return work(IsaTag<Isa::kNeonBf16>{});
#endif
#if FOVEA_LEVEL_MASK & 128
    case Isa::kNeonDot:
      return work(IsaTag<Isa::kNeonDot>{});
#endif
#if FOVEA_LEVEL_MASK & 64
    case Isa::kNeon:
      return work(IsaTag<Isa::kNeon>{});
#endif
    default:
      break;
  }
#endif
  return work(IsaTag<Isa::kPortable>{});
}

// Whether isa() has tiles.
bool has_tiles();

// work(IsaTag<isa()>{}), for files that are compiled for the levels with tiles too.
template <class Work>
decltype(auto) with_tiled_isa(Work&& work) {
#if defined(__x86_64__) && FOVEA_LEVEL_MASK & 16
  if (isa() == Isa::kAvx512Amx) return work(IsaTag<Isa::kAvx512Amx>{});
#endif
#if FOVEA_EMULATED_TILES
  if (isa() == Isa::kAmxEmulated) return work(IsaTag<Isa::kAmxEmulated>{});
#endif
  return with_isa(work);
}

}  // namespace fovea::kernels
