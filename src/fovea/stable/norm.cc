#include "fovea/kernels/layer/head_norm.h"
#include "fovea/stable/arguments.h"
#include "fovea/stable/copies.h"
#include "fovea/stable/executor.h"

// The norm over heads as operators on contiguous CPU tensors of one type, float32 or bfloat16, that Python has checked.
namespace fovea::stable {
namespace {

bool is_float(const Tensor& x) { return x.scalar_type() == torch::headeronly::ScalarType::Float; }

struct NormArguments {
  explicit NormArguments(Arguments& in)
      : z(in.tensor()),
        gain(in.tensor()),
        gate(in.optional_tensor()),
        bias(in.optional_tensor()),
        centre(in.tensor()),
        rstd(in.tensor()),
        centred(in.flag()),
        eps(in.number()) {}
  template <class T>
  kernels::HeadNorm<T> job() const {
    kernels::HeadNorm<T> job{.z = numbers_of<T>(z),
                             .gain = numbers_of<T>(gain),
                             .gate = numbers_of<T>(gate),
                             .bias = numbers_of<T>(bias),
                             .centre = written_numbers<float>(centre),
                             .rstd = written_numbers<float>(rstd)};
    job.width = gain.numel(), job.rows = job.width == 0 ? 0 : z.numel() / job.width;
    job.around = centred ? kernels::Centre::kMean : kernels::Centre::kZero;
    job.eps = static_cast<float>(eps);
    return job;
  }
  Tensor z, gain;
  std::optional<Tensor> gate, bias;
  Tensor centre, rstd;
  bool centred;
  double eps;
};

void kernel_head_norm(StableIValue* stack, uint64_t, uint64_t) {
  Arguments in(stack);
  const NormArguments norm(in);
  const Tensor y = in.tensor();
  const auto run = [&]<class T>(T) { kernels::head_norm(norm.job<T>(), written_numbers<T>(y), torch_executor()); };
  is_float(norm.z) ? run(float()) : run(uint16_t());
}

void kernel_head_norm_backward(StableIValue* stack, uint64_t, uint64_t) {
  Arguments in(stack);
  const NormArguments norm(in);
  const Tensor grad_y = in.tensor(), grad_z = in.tensor(), grad_gain = in.tensor();
  const std::optional<Tensor> grad_gate = in.optional_tensor(), grad_bias = in.optional_tensor();
  const auto run = [&]<class T>(T) {
    const kernels::HeadNormGrads<T> grads{.grad_y = numbers_of<T>(grad_y),
                                          .grad_z = written_numbers<T>(grad_z),
                                          .grad_gain = written_numbers<T>(grad_gain),
                                          .grad_gate = written_numbers<T>(grad_gate),
                                          .grad_bias = written_numbers<T>(grad_bias)};
    kernels::head_norm_backward(norm.job<T>(), grads, torch_executor());
  };
  is_float(norm.z) ? run(float()) : run(uint16_t());
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(fovea, m) {
  if (!is_first_copy()) return;
  m.def(
      "kernel_head_norm(Tensor z, Tensor gain, Tensor? gate, Tensor? bias, Tensor(a!) centre, Tensor(b!) rstd, "
      "bool centred, float eps, Tensor(c!) y) -> ()");
  m.def(
      "kernel_head_norm_backward(Tensor z, Tensor gain, Tensor? gate, Tensor? bias, Tensor centre, Tensor rstd, "
      "bool centred, float eps, Tensor grad_y, Tensor(a!) grad_z, Tensor(b!) grad_gain, Tensor(c!)? grad_gate, "
      "Tensor(d!)? grad_bias) -> ()");
}
STABLE_TORCH_LIBRARY_IMPL(fovea, CPU, m) {
  if (!is_first_copy()) return;
  m.impl("kernel_head_norm", &kernel_head_norm);
  m.impl("kernel_head_norm_backward", &kernel_head_norm_backward);
}

}  // namespace fovea::stable
