#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <ostream>

#include "fovea/base/strings.h"
#include "fovea/kernels/attention/testing/kernel_test_suite.h"
#include "fovea/kernels/simd/isa.h"

namespace fovea::kernels::kernel_list_test {
namespace {

// Every kernel of the list, in both types, at every instruction set of this machine.
struct Subject {
  const Kernel* kernel;
  DType dtype;
  Isa isa;
};

// In place of the bytes.
void PrintTo(const Subject& subject, std::ostream* out) { *out << subject.kernel->name; }

std::string title(const ::testing::TestParamInfo<Subject>& info) {
  const auto& [kernel, dtype, isa] = info.param;
  std::string out = cat(kernel->name, '_', name_of(dtype), '_', name(isa));
  for (char& c : out)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return out;
}

// Whether the kernel takes the type at all, under some mechanism.
bool takes(const Kernel& kernel, DType dtype) {
  for (const char* spec : {"full", "topk(3)", "sparsemax"}) {
    AttentionProblem problem;
    problem.spec = parse_attention(spec);
    problem.dtype = dtype;
    if (kernel.refuses(problem).empty()) return true;
    problem.given = {.block = 16, .count = 2};
    if (kernel.refuses(problem).empty()) return true;
  }
  return false;
}

std::vector<Subject> subjects() {
  std::vector<Subject> out;
  for (const Kernel& kernel : attention_kernels())
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
      for (const Isa level : runnable_isas()) {
        if (takes(kernel, dtype)) out.push_back({&kernel, dtype, level});
      }
  return out;
}

class EveryKernel : public ::testing::TestWithParam<Subject> {
 protected:
  void SetUp() override { set_isa(GetParam().isa); }
  void TearDown() override { set_isa(best_isa()); }
  // Everything in float at the best level; of the others a part each, not the same. FOVEA_TEST_EVERY=N: an N-th of all
  // that, for emulated processors.
  testing_suite::Suite suite() const {
    const Subject& subject = GetParam();
    testing_suite::Suite out{subject.kernel, subject.dtype};
    const char* part = std::getenv("FOVEA_TEST_EVERY");
    out.every = part == nullptr ? 1 : std::max(1, std::atoi(part));
    if (subject.isa == best_isa() && subject.dtype == DType::kFloat32) return out;
    out.every *= 7;
    out.first = static_cast<int>(subject.isa) + (subject.dtype == DType::kBFloat16 ? 1 : 0);
    return out;
  }
};

TEST_P(EveryKernel, AgreesWithTheOracle) { EXPECT_GT(check_against_oracle(suite()), 0); }
TEST_P(EveryKernel, AgreesOverHundredsOfKeys) { EXPECT_GT(check_long(suite()), 0); }
TEST_P(EveryKernel, GivesTheSameBits) { EXPECT_GT(check_same_bits(suite()), 0); }
TEST_P(EveryKernel, KeepsTies) { EXPECT_GT(check_ties(suite()), 0); }
TEST_P(EveryKernel, TakesHugeAndTiny) { EXPECT_GT(check_huge_and_tiny(suite()), 0); }
TEST_P(EveryKernel, KeepsDigitsNearSoftmax) {
  const bool has_entmax = GetParam().kernel->name != "cpu-dense" && GetParam().kernel->name != "cpu-blocks";
  EXPECT_EQ(check_near_softmax(suite()) > 0, has_entmax);
}
TEST_P(EveryKernel, LetsNotFiniteThrough) { EXPECT_GT(check_not_finite(suite()), 0); }
INSTANTIATE_TEST_SUITE_P(Kernels, EveryKernel, ::testing::ValuesIn(subjects()), title);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EveryKernel);

}  // namespace
}  // namespace fovea::kernels::kernel_list_test
