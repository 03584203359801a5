#pragma once
#include <cstdint>
#include <string_view>

// Instruction sets of the CPU kernels. A file named *_isa.cc is compiled once for each level, with FOVEA_ISA set to the
// level's number; everything in it and in the *-inl.h headers it includes lies in unnamed namespaces, so that the
// linker never merges code of two levels. Such a file includes isa_begin-inl.h after its ordinary headers and
// isa_end-inl.h at its end, and exports explicit instantiations of a class template over Isa.
namespace fovea::kernels {

enum class Isa : uint8_t { kPortable, kAvx2, kAvx512, kAvx512Bf16 };

template <Isa kLevel>
struct IsaTag {
  static constexpr Isa kIsa = kLevel;
};

// The best level this machine runs. FOVEA_CPU=portable|avx2|avx512|avx512-bf16 lowers it, for tests; an unknown name or
// one above the machine's is an Error.
Isa isa();
// isa() from now on, for tests within one process. Not to be called while kernels run.
void set_isa(Isa level);
Isa best_isa();
// Whether vectors of that level have products of bytes (VNNI).
bool has_int8_product();
std::string_view name(Isa level);

// work(IsaTag<isa()>{}).
template <class Work>
decltype(auto) with_isa(Work&& work) {
#if defined(__x86_64__)
  switch (isa()) {
    case Isa::kAvx512Bf16:
      return work(IsaTag<Isa::kAvx512Bf16>{});
    case Isa::kAvx512:
      return work(IsaTag<Isa::kAvx512>{});
    case Isa::kAvx2:
      return work(IsaTag<Isa::kAvx2>{});
    case Isa::kPortable:
      break;
  }
#endif
  return work(IsaTag<Isa::kPortable>{});
}

}  // namespace fovea::kernels
