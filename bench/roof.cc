// The machine's measured peaks as JSON: operations a second in float32, in bfloat16 and in the format that top-k's
// screening takes here (a multiply-add counts two), and in products of bfloat16 inputs with weights, which tiles take
// as two numbers; bytes a second from memory. With one thread, a second is one of the processor's time, so that other
// work on the machine does not count; else of the wall's. Usage: roof [threads]
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <functional>
#include <vector>

#include "arguments.h"
#include "fovea/base/executor.h"
#include "fovea/kernels/attention/cpu/screen_ops.h"
#include "fovea/kernels/simd/isa.h"
#include "tile_peak.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

constexpr int64_t kRounds = 20'000'000;
constexpr int kChains = 12;  // independent, more than latency times units; what an inner product has at hand

// Operations of one call. The empty assembly makes every chain's value needed in every round.
#if defined(__x86_64__)
__attribute__((target("avx512f"))) double multiply_add_512() {
  __m512 sums[kChains], x = _mm512_set1_ps(1.0F), y = _mm512_set1_ps(1e-9F);
#pragma GCC unroll 12
  for (int j = 0; j < kChains; ++j) sums[j] = _mm512_setzero_ps();
  for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < kChains; ++j) {
      sums[j] = _mm512_fmadd_ps(x, y, sums[j]);
      asm volatile("" : "+v"(sums[j]));
    }
  }
  return 2.0 * 16 * kChains * kRounds;
}

__attribute__((target("avx512f,avx512bf16"))) double bfloat16_pairs_512() {
  __m512 sums[kChains];
  const __m512bh x = (__m512bh)_mm512_set1_epi32(0x3f803f80);
#pragma GCC unroll 12
  for (int j = 0; j < kChains; ++j) sums[j] = _mm512_setzero_ps();
  for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < kChains; ++j) {
      sums[j] = _mm512_dpbf16_ps(sums[j], x, x);
      asm volatile("" : "+v"(sums[j]));
    }
  }
  return 2.0 * 32 * kChains * kRounds;
}

__attribute__((target("avx512f,avx512vnni"))) double byte_products_512() {
  __m512i sums[kChains];
  const __m512i x = _mm512_set1_epi8(1);
#pragma GCC unroll 12
  for (int j = 0; j < kChains; ++j) sums[j] = _mm512_setzero_si512();
  for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < kChains; ++j) {
      sums[j] = _mm512_dpbusd_epi32(sums[j], x, x);
      asm volatile("" : "+v"(sums[j]));
    }
  }
  return 2.0 * 64 * kChains * kRounds;
}

// A product and a sum are two instructions here; x passes the assembly too, or one product would serve all.
__attribute__((target("avx2"))) double int16_pairs_256() {
  __m256i sums[kChains], x = _mm256_set1_epi16(1);
#pragma GCC unroll 12
  for (int j = 0; j < kChains; ++j) sums[j] = _mm256_setzero_si256();
  for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < kChains; ++j) {
      sums[j] = _mm256_add_epi32(sums[j], _mm256_madd_epi16(x, x));
      asm volatile("" : "+x"(sums[j]), "+x"(x));
    }
  }
  return 2.0 * 16 * kChains * kRounds;
}

__attribute__((target("avx2"))) double byte_pairs_256() {
  __m256i sums[kChains], x = _mm256_set1_epi8(1);
#pragma GCC unroll 12
  for (int j = 0; j < kChains; ++j) sums[j] = _mm256_setzero_si256();
  for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < kChains; ++j) {
      sums[j] = _mm256_add_epi16(sums[j], _mm256_maddubs_epi16(x, x));
      asm volatile("" : "+x"(sums[j]), "+x"(x));
    }
  }
  return 2.0 * 32 * kChains * kRounds;
}

__attribute__((target("avx2,fma"))) double multiply_add_256() {
  __m256 sums[kChains], x = _mm256_set1_ps(1.0F), y = _mm256_set1_ps(1e-9F);
#pragma GCC unroll 12
  for (int j = 0; j < kChains; ++j) sums[j] = _mm256_setzero_ps();
  for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < kChains; ++j) {
      sums[j] = _mm256_fmadd_ps(x, y, sums[j]);
      asm volatile("" : "+x"(sums[j]));
    }
  }
  return 2.0 * 8 * kChains * kRounds;
}
#endif

double multiply_bfloat16_tiles() { return fovea::bench::bfloat16_tiles(kRounds); }
double multiply_int8_tiles() { return fovea::bench::int8_tiles(kRounds); }

double multiply_add_plain() {
  using Four = float __attribute__((vector_size(16)));
  Four sums[kChains] = {};
  const Four x = {1, 1, 1, 1}, y = {1e-9F, 1e-9F, 1e-9F, 1e-9F};
  for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < kChains; ++j) sums[j] = sums[j] + x * y;
    asm volatile("" : : "g"(&sums) : "memory");
  }
  return 2.0 * 4 * kChains * kRounds;
}

double (*best_float32())() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return multiply_add_512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return multiply_add_256;
#endif
  return multiply_add_plain;
}

bool has_amx() { return fovea::kernels::isa() == fovea::kernels::Isa::kAvx512Amx; }

double (*best_bfloat16())() {
  if (has_amx()) return multiply_bfloat16_tiles;
#if defined(__x86_64__)
  // On Intel's processors pairs are slower than floats, and the kernels do without them (isa.cc).
  if (fovea::kernels::isa() == fovea::kernels::Isa::kAvx512Bf16) return bfloat16_pairs_512;
#endif
  return best_float32();
}

double (*best_screening())() {
  if (has_amx()) return multiply_int8_tiles;
#if defined(__x86_64__)
  using fovea::kernels::ScreenFormat;
  const ScreenFormat format = fovea::kernels::fastest_screen_format({.width = 64, .keys = 8192, .selected = 32});
  if (format == ScreenFormat::kInt8) return byte_products_512;
  if (format == ScreenFormat::kInt16) return int16_pairs_256;
  if (format == ScreenFormat::kBytePairs) return byte_pairs_256;
#endif
  return best_float32();
}

double seconds(int threads) {
  timespec now{};
  clock_gettime(threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The sum over threads of the counts of work(thread) per second; the best of three.
double rate(int threads, const std::function<double(size_t)>& work) {
  fovea::ThreadExecutor executor(threads);
  double best = 0;
  for (int attempt = 0; attempt < 3; ++attempt) {
    std::vector<double> done(static_cast<size_t>(threads));
    const double start = seconds(threads);
    executor.run(threads, [&](int64_t i, int) { done[static_cast<size_t>(i)] = work(static_cast<size_t>(i)); });
    const double spent = seconds(threads) - start;
    double total = 0;
    for (const double count : done) total += count;
    best = std::max(best, total / spent);
  }
  return best;
}

double operations(int threads, double (*work)()) {
  return rate(threads, [work](size_t) { return work(); });
}

double bytes_read(const std::vector<uint64_t>& data) {
  uint64_t sum = 0;
  for (const uint64_t value : data) sum += value;
  asm volatile("" : : "r"(sum));
  return static_cast<double>(data.size() * sizeof(uint64_t));
}

// Each thread reads 128 MiB, far more than the caches hold. They are there before the clock starts: first touches would
// take longer than the reading.
double bandwidth(int threads) {
  std::vector<std::vector<uint64_t>> data(static_cast<size_t>(threads));
  fovea::ThreadExecutor(threads).run(threads,
                                     [&](int64_t i, int) { data[static_cast<size_t>(i)].assign(16 << 20, 1); });
  return rate(threads, [&](size_t thread) {
    double total = 0;
    for (int pass = 0; pass < 4; ++pass) total += bytes_read(data[thread]);
    return total;
  });
}

void run(int argc, char** argv) {
  if (argc > 2) throw fovea::UsageError(fovea::cat("got ", argc - 1, " arguments, expected at most 1: [threads]"));
  const int threads = argc > 1 ? static_cast<int>(fovea::bench::whole_number(argv[1], "threads", 1024)) : 1;
  const double float32 = operations(threads, best_float32()), bfloat16 = operations(threads, best_bfloat16());
  std::printf(
      "{\"threads\": %d, \"float32\": %.4g, \"bfloat16\": %.4g, \"weights\": %.4g, \"screening\": %.4g, "
      "\"bandwidth\": %.4g}\n",
      threads, float32, bfloat16, has_amx() ? bfloat16 / 2 : float32, operations(threads, best_screening()),
      bandwidth(threads));
}

}  // namespace

int main(int argc, char** argv) {
  return fovea::bench::exit_status("roof", [&] { run(argc, argv); });
}
