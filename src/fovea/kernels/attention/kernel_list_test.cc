#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <ostream>

#include "fovea/kernels/attention/cpu/isa.h"
#include "fovea/kernels/attention/cpu/screen_kernels.h"
#include "fovea/kernels/attention/kernel_test_suite.h"

namespace fovea::kernels {
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
  std::string out = std::string(info.param.kernel->name) +
                    (info.param.dtype == DType::kFloat32 ? "_float32_" : "_bfloat16_") +
                    std::string(name(info.param.isa));
  for (char& c : out)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return out;
}

// The list's kernels; those that leave short problems to others are made to take them.
const std::vector<Kernel>& kernels() {
  static const std::vector<Kernel> kKernels = [] {
    std::vector<Kernel> out(attention_kernels().begin(), attention_kernels().end());
    for (const Kernel& any : {topk_kernel(Lengths::kAny), entmax_kernel(Lengths::kAny)})
      for (Kernel& kernel : out)
        if (kernel.name == any.name) kernel = any;
    return out;
  }();
  return kKernels;
}

std::vector<Subject> subjects() {
  std::vector<Subject> out;
  for (const Kernel& kernel : kernels())
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
      for (int level = 0; level <= static_cast<int>(best_isa()); ++level)
        out.push_back({&kernel, dtype, static_cast<Isa>(level)});
  return out;
}

class EveryKernel : public ::testing::TestWithParam<Subject> {
 protected:
  void SetUp() override { set_isa(GetParam().isa); }
  void TearDown() override { set_isa(best_isa()); }
  // Everything in float at the best level; of the others a part each, not the same.
  testing_suite::Suite suite() const {
    const Subject& subject = GetParam();
    testing_suite::Suite out{subject.kernel, subject.dtype};
    if (subject.isa == best_isa() && subject.dtype == DType::kFloat32) return out;
    out.every = 7;  // shares no factor with the parts that a check takes of the cases
    out.first = static_cast<int>(subject.isa) + (subject.dtype == DType::kBFloat16 ? 1 : 0);
    return out;
  }
};

TEST_P(EveryKernel, AgreesWithTheOracle) { EXPECT_GT(check_against_oracle(suite()), 0); }
TEST_P(EveryKernel, AgreesOverHundredsOfKeys) { check_long(suite()); }
TEST_P(EveryKernel, GivesTheSameBits) { EXPECT_GT(check_same_bits(suite()), 0); }
TEST_P(EveryKernel, KeepsTies) { EXPECT_GT(check_ties(suite()), 0); }
TEST_P(EveryKernel, TakesHugeAndTiny) { EXPECT_GT(check_huge_and_tiny(suite()), 0); }
TEST_P(EveryKernel, LetsNotFiniteThrough) { EXPECT_GT(check_not_finite(suite()), 0); }
INSTANTIATE_TEST_SUITE_P(Kernels, EveryKernel, ::testing::ValuesIn(subjects()), title);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EveryKernel);

class KernelChoice : public ::testing::Test {
 protected:
  void TearDown() override { unsetenv("FOVEA_KERNEL"); }
  static AttentionProblem problem(const char* spec) {
    AttentionProblem p;
    p.spec = parse_attention(spec);
    p.sequences = {{0, 8, 0, 8}};
    return p;
  }
};

TEST_F(KernelChoice, WalksTheListInOrder) {
  const AttentionProblem p = problem("window(4)+topk(2)");
  const Kernel* expected = nullptr;
  for (const Kernel& kernel : attention_kernels()) {
    if (!kernel.refuses(p).empty()) continue;
    expected = &kernel;
    break;
  }
  EXPECT_EQ(choose(p), expected);
  EXPECT_THAT(explain(p), testing::EndsWith(std::string("-> ") + std::string(expected ? expected->name : "reference")));
}

TEST_F(KernelChoice, DoublesGoToTheReference) {
  AttentionProblem p = problem("topk(2)");
  p.dtype = DType::kFloat64;
  for (const Kernel& kernel : attention_kernels()) EXPECT_FALSE(kernel.refuses(p).empty()) << kernel.name;
  EXPECT_EQ(choose(p), nullptr);
  EXPECT_THAT(explain(p), testing::EndsWith("-> reference"));
}

TEST_F(KernelChoice, AnEnvironmentVariableForcesOne) {
  const AttentionProblem p = problem("topk(2)");
  setenv("FOVEA_KERNEL", "reference", 1);
  EXPECT_EQ(choose(p), nullptr);
  for (const Kernel& kernel : attention_kernels()) {
    setenv("FOVEA_KERNEL", std::string(kernel.name).c_str(), 1);
    if (kernel.refuses(p).empty()) {
      EXPECT_EQ(choose(p), &kernel);
    } else {
      EXPECT_THROW(choose(p), Error);
    }
  }
  setenv("FOVEA_KERNEL", "refrence", 1);
  try {
    choose(p);
    FAIL() << "accepted an unknown name";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("unknown kernel 'refrence'"));
    EXPECT_THAT(error.what(), testing::HasSubstr("did you mean 'reference'?"));
  }
}

}  // namespace
}  // namespace fovea::kernels
