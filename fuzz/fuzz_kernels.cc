#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/kernels/attention/testing/compare.h"
#include "fovea/kernels/simd/isa.h"
#include "fovea/spec/testing/random_spec.h"

// Kernels against each other and the oracle: the first bytes are the shape of a problem, the rest its spec, or what one
// is drawn from, as most bytes are not a text of a spec. Every kernel that accepts it, at every instruction set, and
// the kernels among which the list divides its sequences must agree with the oracle, and so with one another.
namespace {

using namespace fovea::kernels;
using namespace fovea::kernels::testing_suite;

constexpr size_t kShapeBytes = 6;
// The head sizes for the bytes from 240 on.
constexpr int64_t kWideHeads[16] = {63, 64, 65, 96, 100, 127, 128, 129, 136, 160, 192, 193, 200, 249, 255, 256};

bool is_allowed(const fovea::AttentionSpec& spec, fovea::AttentionKind kind) {
  try {
    fovea::validate(spec, kind);
    return true;
  } catch (const fovea::Error&) {
    return false;
  }
}

// Whether naive float leaves no digits of a gradient: entmax below 1.05, whose power 1 / (alpha - 1) takes them.
bool is_near_softmax(const fovea::AttentionSpec& spec) {
  const auto* entmax = std::get_if<fovea::Entmax>(&spec.transform);
  return entmax && !entmax->learned && entmax->alpha < 1.05;
}

Case shape_of(const uint8_t* bytes) {
  Case c;
  c.problem.kind = static_cast<fovea::AttentionKind>(bytes[0] % 3);
  c.problem.dtype = bytes[0] / 3 % 2 == 0 ? DType::kFloat32 : DType::kBFloat16;
  c.problem.num_heads = 1 + bytes[0] / 6 % 2;
  c.problem.head_dim = bytes[1] < 240 ? 1 + bytes[1] % 40 : kWideHeads[bytes[1] - 240];
  c.problem.needs_backward = bytes[2] % 4 != 0;
  c.problem.dropout = bytes[2] / 4 % 3 == 0 ? 0.25F : 0;
  const int64_t keys = bytes[3] < 240 ? bytes[3] % 50 : 20 * int64_t{bytes[3]} - 4560,
                queries = c.problem.kind == fovea::AttentionKind::kCross ? bytes[4] % 20
                                                                         : std::min<int64_t>(keys, bytes[4] % 20);
  c.problem.sequences = {{0, queries, 0, keys}, {queries, 1, keys, 3}};
  c.inputs = static_cast<Layout>(bytes[2] / 12 % 3);
  c.outputs = static_cast<Layout>(bytes[2] / 36 % 3);
  c.seed = bytes[5];
  return c;
}

fovea::AttentionSpec spec_of(std::string_view text) {
  try {
    return fovea::parse_attention(text);
  } catch (const fovea::SpecError&) {
    fovea::Rng rng(std::hash<std::string_view>()(text));
    return fovea::random_spec(rng);
  }
}

void check(std::string_view who, const Case& c, const Results& got, const std::vector<Truth>& truths) {
  const std::string wrong = compare_all(c, got, truths);
  if (wrong.empty()) return;
  std::fprintf(stderr, "%s: %s\n%s\n", std::string(who).c_str(), describe(c.problem).c_str(), wrong.c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < kShapeBytes) return 0;
  Case c = shape_of(data);
  c.problem.spec = spec_of({reinterpret_cast<const char*>(data) + kShapeBytes, size - kShapeBytes});
  if (!is_allowed(c.problem.spec, c.problem.kind) || is_near_softmax(c.problem.spec)) return 0;
  Inputs inputs;
  std::vector<Truth> truths;
  if (!draw_clear(c, {.coarse = data[5] % 4 == 0, .attempts = 10}, inputs, truths)) return 0;
  fovea::SerialExecutor executor;
  for (const Isa level : runnable_isas()) {
    set_isa(level);
    for (const Kernel& kernel : attention_kernels()) {
      if (!kernel.refuses(c.problem).empty()) continue;
      check(kernel.name, c, run_kernel(kernel, c.problem, inputs, c.outputs, executor), truths);
    }
    check("divided", c, run_divided(c.problem, inputs, c.outputs, executor), truths);
  }
  return 0;
}
