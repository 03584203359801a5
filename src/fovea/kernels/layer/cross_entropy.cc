#include "fovea/kernels/layer/cross_entropy.h"

#include "fovea/kernels/layer/cross_entropy_isa.h"

namespace fovea::kernels {

void cross_entropy(const CrossEntropyJob<float>& job, Executor& executor) {
  with_isa([&](auto tag) { CrossEntropies<decltype(tag)::kIsa>::run(job, executor); });
}
void cross_entropy(const CrossEntropyJob<uint16_t>& job, Executor& executor) {
  with_tiled_isa([&](auto tag) { CrossEntropies<decltype(tag)::kIsa>::run(job, executor); });
}

}  // namespace fovea::kernels
