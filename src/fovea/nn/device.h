#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace fovea::nn {

// "cpu" or the number of a CUDA device, which is tried at once; throws an Error that says what is wrong with it.
at::Device parse_device(const std::string& devices);

// Lets libtorch compute with this number of threads (--cpu-threads); 0 changes nothing. Throws an Error if the system
// does not let the process have them.
void set_cpu_threads(int64_t threads);

// Lowers the number of libtorch's threads, which is that of the processors, to what the system lets the process have,
// with a warning.
void limit_cpu_threads();

}  // namespace fovea::nn
