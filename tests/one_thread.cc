#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace {

// Tensors of a few hundred numbers: threads that wait for each other on a busy machine would be all the time they take.
class OneThread : public testing::Environment {
  void SetUp() override { at::set_num_threads(1); }
};
const auto* const one_thread = testing::AddGlobalTestEnvironment(new OneThread);

}  // namespace
