// No include guard: ends what isa_begin-inl.h began.
#if FOVEA_ISA > 0 && FOVEA_ISA != 6
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
