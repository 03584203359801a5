// A program that a C++ user of the installed package may write.
#include <ATen/ATen.h>

#include <cstdio>

#include "fovea/ops/attention.h"

int main() {
  at::manual_seed(1);
  const at::Tensor q = at::randn({1, 2, 5, 4}), k = at::randn({1, 2, 5, 4}), v = at::randn({1, 2, 5, 4});
  const at::Tensor all = fovea::ops::attention(q, k, v, "topk(5)", {});
  const at::Tensor full = at::matmul(at::softmax(at::matmul(q, k.transpose(-1, -2)) / 2, -1), v);
  const double difference = (all - full).abs().max().item<double>();
  std::printf("topk(n) differs from full by %g\n", difference);
  return difference < 1e-5 ? 0 : 1;  // float32 sums of five terms near 1
}
