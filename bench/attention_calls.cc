// Measures what a call of fovea::ops::attention costs: packed self-attention of one sequence, causal, 8 heads of 64,
// float32, forward alone and with backward. A line for each mechanism and length: microseconds, the median of calls
// that fill `seconds`. Usage: attention_calls [seconds per figure] [threads]
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "fovea/base/malloc.h"
#include "fovea/ops/attention.h"

namespace fovea {
namespace {

double microseconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

double median(const std::function<void()>& work, double seconds) {
  for (int i = 0; i < 3; ++i) work();
  std::vector<double> times;
  double sum = 0;
  while (sum < 1e6 * seconds || times.size() < 5) times.push_back(microseconds(work)), sum += times.back();
  std::ranges::nth_element(times, times.begin() + std::ssize(times) / 2);
  return times[times.size() / 2];
}

void measure(const std::string& spec, int64_t tokens, double seconds) {
  std::vector<at::Tensor> x;
  for (int i = 0; i < 3; ++i) x.push_back(at::randn({tokens, 8, 64}).requires_grad_());
  ops::AttentionOptions options;
  options.kind = AttentionKind::kCausal;
  const at::Tensor grad = at::randn({tokens, 8, 64});
  const auto forward = [&] { return ops::attention(x[0], x[1], x[2], spec, options); };
  const double alone = median(
      [&] {
        const at::NoGradGuard none;
        forward();
      },
      seconds);
  const double both = median([&] { torch::autograd::grad({forward()}, x, {grad}); }, seconds);
  std::printf("%s\t%ld\t%.2f\t%.2f\n", spec.c_str(), static_cast<long>(tokens), alone, both);
  std::fflush(stdout);
}

}  // namespace
}  // namespace fovea

int main(int argc, char** argv) {
  fovea::tune_malloc();
  const double seconds = argc > 1 ? std::strtod(argv[1], nullptr) : 0.5;
  at::set_num_threads(argc > 2 ? std::atoi(argv[2]) : 1);
  std::puts("mechanism\ttokens\tforward\tforward and backward");
  for (const int64_t tokens : {16, 64, 512, 8192}) {
    for (const char* spec : {"full", "topk(8)", "4*local(32);4*topk(8)"}) fovea::measure(spec, tokens, seconds);
  }
  return 0;
}
