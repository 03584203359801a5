#pragma once

// tiles-inl.h by Intel's AMX. Instructions as they are: the compiler's intrinsics take numbers of tiles as macros only.
namespace fovea::kernels {
namespace {

// Configures this thread's tiles, and gives them back: what is left of them would be saved at every switch of threads.
class TileSession {
 public:
  TileSession() {
    static constexpr Configuration kAllWhole;
    asm volatile("ldtilecfg %0" : : "m"(kAllWhole));
  }
  ~TileSession() { asm volatile("tilerelease" : : : "memory"); }
  TileSession(const TileSession&) = delete;
  TileSession& operator=(const TileSession&) = delete;

 private:
  struct alignas(64) Configuration {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };
};

template <int kTile>
[[gnu::always_inline]] inline void load_tile(const void* rows, int64_t row_bytes) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(rows), "r"(row_bytes), "i"(kTile) : "memory");
}
template <int kTile>
[[gnu::always_inline]] inline void store_tile(void* rows, int64_t row_bytes) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(rows), "r"(row_bytes), "i"(kTile) : "memory");
}
template <int kTile>
[[gnu::always_inline]] inline void zero_tile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}
template <int kSum, int kLeft, int kRight>
[[gnu::always_inline]] inline void multiply_bf16_tiles() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kLeft), "i"(kRight));
}
template <int kSum, int kLeft, int kRight>
[[gnu::always_inline]] inline void multiply_int8_tiles() {
  asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kLeft), "i"(kRight));
}

}  // namespace
}  // namespace fovea::kernels
