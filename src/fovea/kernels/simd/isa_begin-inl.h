// No include guard: textual. From here to isa_end-inl.h functions are compiled for the level FOVEA_ISA (isa.h). Headers
// of the standard library must come before, or their inline functions would carry this level to the linker.
#if FOVEA_ISA > 0
#if defined(__clang__)
#if FOVEA_ISA == 1
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
#if FOVEA_ISA == 1
#pragma GCC target("avx2,fma,f16c")
#elif FOVEA_ISA == 2
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#else
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,prefer-vector-width=512")
#endif
#endif
#endif
