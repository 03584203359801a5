// Measures the cost of mix(full,clause(1),clause(2)) beside full attention, in turns: self-attention of packed
// sentences, 8 heads of 64, float32. Usage: clause_mix [tokens in all] [repetitions]
#include <ATen/Functions.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "arguments.h"
#include "fovea/base/malloc.h"
#include "fovea/ops/attention.h"
#include "fovea/ops/clause_mix.h"

namespace fovea {
namespace {

constexpr int64_t kHeads = 8, kHeadDim = 64;
constexpr int64_t kFirstLevel = 16, kSecondLevel = 8;  // tokens in a clause

// Offsets of pieces of `step` tokens within sentences of `length`.
at::Tensor pieces(int64_t tokens, int64_t length, int64_t step) {
  std::vector<int64_t> offsets;
  for (int64_t begin = 0; begin < tokens; begin += length) {
    for (int64_t at = 0; at < length; at += step) offsets.push_back(begin + at);
  }
  offsets.push_back(tokens);
  return at::tensor(offsets, at::kLong);
}

double milliseconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct Times {
  double forward, all;
};

// Medians of two candidates that take turns.
std::pair<Times, Times> in_turns(const std::function<at::Tensor()>& one, const std::function<at::Tensor()>& other,
                                 const std::vector<at::Tensor>& leaves, int64_t repetitions) {
  std::vector<double> forward[2], all[2];
  at::Tensor grad;
  for (int64_t i = 0; i < repetitions + 2; ++i) {
    for (int side = 0; side < 2; ++side) {
      at::Tensor out;
      const double first = milliseconds([&] { out = side == 0 ? one() : other(); });
      if (!grad.defined()) grad = at::randn_like(out);
      std::vector<at::Tensor> wanted = leaves;
      if (side == 1) wanted.pop_back();  // full attention has no p
      const double second = milliseconds([&] { torch::autograd::grad({out}, wanted, {grad}); });
      if (i >= 2) forward[side].push_back(first), all[side].push_back(first + second);
    }
  }
  return {{median(forward[0]), median(all[0])}, {median(forward[1]), median(all[1])}};
}

void print_row(int64_t length, int64_t most_tokens, int64_t repetitions) {
  const int64_t tokens = std::max<int64_t>(1, most_tokens / length) * length;
  const auto leaf = [](at::Tensor x) { return x.requires_grad_(); };
  ops::ClauseMixInputs in;
  in.q = leaf(at::randn({tokens, kHeads, kHeadDim}));
  in.k = leaf(at::randn({tokens, kHeads, kHeadDim}));
  in.v = leaf(at::randn({tokens, kHeads, kHeadDim}));
  in.p = leaf(at::full({2, kHeads}, 0.5));
  in.offsets = pieces(tokens, length, length);
  in.clauses = {pieces(tokens, length, kFirstLevel), pieces(tokens, length, kSecondLevel)};
  ops::AttentionOptions options;
  options.q_offsets = in.offsets;
  const auto [mixed, full] =
      in_turns([&] { return ops::clause_mix(in); }, [&] { return ops::attention(in.q, in.k, in.v, "full", options); },
               {in.q, in.k, in.v, in.p}, repetitions);
  std::printf("| %lld | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f |\n", static_cast<long long>(length), mixed.forward,
              full.forward, mixed.forward / full.forward, mixed.all, full.all, mixed.all / full.all);
}

void run(std::span<char*> arguments) {
  const int64_t tokens = arguments.empty() ? 4096 : bench::whole_number(arguments[0], "tokens", 1 << 20);
  const int64_t repetitions = arguments.size() < 2 ? 21 : bench::whole_number(arguments[1], "repetitions", 1000);
  tune_malloc();
  at::manual_seed(1);
  std::printf("| tokens of a sentence | mix ms | full ms | times | mix ms with backward | full | times |\n");
  std::printf("| --- | --- | --- | --- | --- | --- | --- |\n");
  for (const int64_t length : {25, 50, 100, 200, 512}) print_row(length, tokens, repetitions);
}

}  // namespace
}  // namespace fovea

int main(int argc, char** argv) {
  return fovea::bench::exit_status("clause_mix",
                                   [&] { fovea::run(std::span(argv + 1, static_cast<size_t>(argc - 1))); });
}
