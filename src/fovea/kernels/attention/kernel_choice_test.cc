#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "fovea/kernels/attention/testing/cases.h"

// Tests which kernel gets which sequence.
namespace fovea::kernels::kernel_choice_test {
namespace {

using testing_suite::Layout;
using testing_suite::Results;

class KernelChoiceTest : public ::testing::Test {
 protected:
  void TearDown() override { unsetenv("FOVEA_KERNEL"); }
  static AttentionProblem problem(const char* spec, const std::vector<int64_t>& lengths = {8}) {
    AttentionProblem p;
    p.spec = parse_attention(spec);
    int64_t tokens = 0;
    for (const int64_t n : lengths) {
      p.sequences.push_back({tokens, n, tokens, n});
      tokens += n;
    }
    return p;
  }
  // "cpu-topk 700, cpu-rows 5 8": kernels and the lengths they got.
  static std::string chosen_kernels(const AttentionProblem& p) {
    std::string out;
    const KernelChoice shared(p);
    for (const KernelTask& task : shared.tasks()) {
      out += (out.empty() ? "" : ", ") + std::string(task.kernel->name);
      for (const Sequence& s : task.problem->sequences) out += ' ' + std::to_string(s.q_length);
    }
    return out.empty() ? "reference" : out;
  }
};

TEST_F(KernelChoiceTest, GivesASequenceToTheFirstThatItSuits) {
  EXPECT_EQ(chosen_kernels(problem("topk(2)", {5, 256, 255, 700})), "cpu-topk 256 700, cpu-rows 5 255");
  EXPECT_EQ(chosen_kernels(problem("sparsemax", {700, 5})), "cpu-entmax 700, cpu-rows 5");
  EXPECT_EQ(chosen_kernels(problem("topk(2)", {700, 256})), "cpu-topk 700 256");
  EXPECT_EQ(chosen_kernels(problem("topk(2)", {5, 0})), "cpu-rows 5 0");
  EXPECT_EQ(chosen_kernels(problem("window(4)", {700, 5})), "cpu-rows 700 5");
  EXPECT_EQ(chosen_kernels(problem("full", {700, 5})), "cpu-dense 700, cpu-rows 5");
  EXPECT_EQ(chosen_kernels(problem("window(4)", {})), "cpu-rows");
  EXPECT_EQ(chosen_kernels(problem("softcap(50)", {700, 5})), "cpu-dense 700, cpu-rows 5");
  EXPECT_EQ(chosen_kernels(problem("softcap(50)+topk(2)", {700, 5})), "cpu-rows 700 5");
  EXPECT_EQ(chosen_kernels(problem("softcap(50)+sparsemax", {700})), "cpu-rows 700");
}

TEST_F(KernelChoiceTest, GivesListedKeysToTheKernelThatTakesThem) {
  for (const char* spec : {"full", "topk(2)", "sparsemax"}) {
    AttentionProblem p = problem(spec, {700, 5});
    p.keys_listed = true;
    EXPECT_EQ(chosen_kernels(p), "cpu-rows 700 5") << spec;
    p.needs_backward = true;
    EXPECT_EQ(chosen_kernels(p), "reference") << spec;
  }
}

TEST_F(KernelChoiceTest, GivesListsOfBlocksToTheKernelThatGoesThroughThem) {
  AttentionProblem p = problem("full", {700, 5});
  p.given = {.block = 64, .count = 3, .heads = ListHeads::kOfQueries};
  EXPECT_EQ(chosen_kernels(p), "cpu-blocks 700, cpu-rows 5");
  p.spec = parse_attention("softcap(50)");
  p.offsets = {.by_head = {-699, 700}, .by_query = {-16, 17}};  // as of ALiBi and of Shaw's positions
  EXPECT_EQ(chosen_kernels(p), "cpu-blocks 700, cpu-rows 5");
  p.given.block = 8;
  EXPECT_EQ(chosen_kernels(p), "cpu-rows 700 5");
  p.given.block = 64;
  p.offsets.product = {-699, 700};  // as of Transformer-XL
  EXPECT_EQ(chosen_kernels(p), "cpu-rows 700 5");
}

TEST_F(KernelChoiceTest, ExplainsTheWalk) {
  EXPECT_EQ(explain(problem("topk(2)", {700, 5})),
            "cpu-topk: takes sequences of at least 32 queries and 256 keys\n"
            "cpu-entmax: refuses: the spec has topk; the transform is neither sparsemax nor entmax\n"
            "cpu-blocks: refuses: no lists of blocks come with the call\n"
            "cpu-dense: refuses: the spec has topk\n"
            "-> cpu-topk, cpu-rows");
  EXPECT_THAT(explain(problem("softcap(50)+topk(2)", {700})),
              testing::StartsWith("cpu-topk: refuses: the spec has softcap\n"));
  EXPECT_THAT(explain(problem("topk(2)")), testing::EndsWith("\n-> cpu-rows"));
  setenv("FOVEA_KERNEL", "cpu-rows", 1);
  EXPECT_EQ(explain(problem("topk(2)", {700})), "FOVEA_KERNEL=cpu-rows -> cpu-rows");
}

TEST_F(KernelChoiceTest, DoublesGoToTheReference) {
  AttentionProblem p = problem("topk(2)");
  p.dtype = DType::kFloat64;
  for (const Kernel& kernel : attention_kernels()) EXPECT_FALSE(kernel.refuses(p).empty()) << kernel.name;
  EXPECT_EQ(chosen_kernels(p), "reference");
  EXPECT_THAT(explain(p), testing::EndsWith("-> reference"));
}

TEST_F(KernelChoiceTest, AnEnvironmentVariableForcesOne) {
  const AttentionProblem p = problem("topk(2)", {5, 700});
  setenv("FOVEA_KERNEL", "reference", 1);
  EXPECT_EQ(chosen_kernels(p), "reference");
  for (const Kernel& kernel : attention_kernels()) {
    setenv("FOVEA_KERNEL", std::string(kernel.name).c_str(), 1);
    if (kernel.refuses(p).empty()) {
      EXPECT_EQ(chosen_kernels(p), std::string(kernel.name) + " 5 700");
    } else {
      EXPECT_THROW(chosen_kernels(p), Error);
    }
  }
  setenv("FOVEA_KERNEL", "refrence", 1);
  try {
    chosen_kernels(p);
    FAIL() << "accepted an unknown name";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("unknown kernel 'refrence'"));
    EXPECT_THAT(error.what(), testing::HasSubstr("did you mean 'reference'?"));
  }
}

void expect_same_bits_in_any_batch(const AttentionProblem& of, DType dtype) {
  SerialExecutor serial;
  testing_suite::Case c;
  c.problem = of;
  c.problem.kind = AttentionKind::kCausal;
  c.problem.dtype = dtype;
  c.problem.num_heads = 2;
  c.problem.head_dim = 20;
  c.problem.dropout = 0.1F;
  c.problem.needs_backward = true;
  testing_suite::Inputs inputs = draw_inputs(c, {}, 3);
  // No product in bfloat16 takes this number, so that one head of one sequence goes another way than the rest.
  inputs.k.set(c.problem.sequences[2].k_begin + 5, 1, 3, 0x1p-130);
  const Results all = run_divided(c.problem, inputs, Layout::kPacked, serial);
  EXPECT_TRUE(all.saved_intact);
  std::vector<double> grad_alpha(2), sizes(2);  // sizes: the sum of what is added up, without signs
  for (const Sequence& s : c.problem.sequences) {
    SCOPED_TRACE(s.q_length);
    AttentionProblem alone = c.problem;
    alone.sequences = {s};
    const Results one = run_divided(alone, inputs, Layout::kPacked, serial);
    EXPECT_TRUE(all.out.same_rows(one.out, s.q_begin, s.q_length));
    EXPECT_TRUE(all.grad_q.same_rows(one.grad_q, s.q_begin, s.q_length));
    EXPECT_TRUE(all.grad_k.same_rows(one.grad_k, s.k_begin, s.k_length));
    EXPECT_TRUE(all.grad_v.same_rows(one.grad_v, s.k_begin, s.k_length));
    for (size_t h = 0; h < grad_alpha.size(); ++h) {
      grad_alpha[h] += static_cast<double>(one.grad_alpha[h]);
      sizes[h] += std::abs(static_cast<double>(one.grad_alpha[h]));
    }
  }
  for (size_t h = 0; h < grad_alpha.size(); ++h) {
    // Sums in double, rounded to float three times: of a sentence alone, of a kernel's share, of all.
    EXPECT_NEAR(static_cast<double>(all.grad_alpha[h]), grad_alpha[h], 3 * 0x1p-24 * sizes[h]);
  }
}

// Lengths on both sides of every choice: a sentence's numbers are its own, whatever stands beside it.
TEST_F(KernelChoiceTest, GivesASentenceTheSameBitsInAnyBatch) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const char* spec :
         {"topk(8)", "topk(8)+relu", "sparsemax", "entmax(1.5)", "entmax(learned)", "full", "relu"}) {
      SCOPED_TRACE(std::string(spec) + (dtype == DType::kFloat32 ? " float32" : " bfloat16"));
      expect_same_bits_in_any_batch(problem(spec, {5, 255, 256, 700}), dtype);
    }
  }
}

}  // namespace
}  // namespace fovea::kernels::kernel_choice_test
