// No include guard: textual. From here to isa_end-inl.h functions are compiled for the level FOVEA_ISA (isa.h). Headers
// of the standard library must come before, or their inline functions would carry this level to the linker.
// FOVEA_AVX512: 512-bit vectors of x86; FOVEA_NEON: 64-bit ARM's. Its level kNeon has what every such processor has.
#define FOVEA_AVX512 (FOVEA_ISA == 2 || FOVEA_ISA == 3)
#define FOVEA_NEON (FOVEA_ISA >= 6)
#if FOVEA_ISA > 0 && FOVEA_ISA != 6
#if defined(__clang__)
#if FOVEA_ISA == 8
#pragma clang attribute push(__attribute__((target("dotprod,bf16"))), apply_to = function)
#elif FOVEA_ISA == 7
#pragma clang attribute push(__attribute__((target("dotprod"))), apply_to = function)
#elif FOVEA_ISA == 1
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#elif FOVEA_ISA == 2
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl"))), \
                             apply_to = function)
#else
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16"))), \
                             apply_to = function)
#endif
#else
#pragma GCC push_options
#if FOVEA_ISA == 8
#pragma GCC target("arch=armv8.2-a+dotprod+bf16")
#elif FOVEA_ISA == 7
#pragma GCC target("arch=armv8.2-a+dotprod")
#elif FOVEA_ISA == 1
#pragma GCC target("avx2,fma,f16c")
#elif FOVEA_ISA == 2
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#else
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,prefer-vector-width=512")
#endif
#endif
#endif
