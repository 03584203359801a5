#include <iostream>
#include <string>
#include <vector>

#include "fovea/app/options.h"
#include "fovea/base/error.h"
#include "fovea/kernels/attention/attention.h"
#include "fovea/spec/attention_spec.h"

namespace fovea::app {
namespace {

struct KernelsConfig {
  std::string explain, kind = "self", dtype = "float32";
  int64_t heads = 8, head_dim = 64, length = 1024;
  bool backward = false;

  static constexpr auto fields() {
    using C = KernelsConfig;
    return std::tuple(field("explain", &C::explain, "walk the list for this mechanism, with each kernel's reasons"),
                      choice("kind", &C::kind, "of the attention", "self|causal|cross"),
                      choice("dtype", &C::dtype, "of the inputs", "float32|bfloat16|float64"),
                      number("heads", &C::heads, "heads of the layer", 1, 1024),
                      number("head-dim", &C::head_dim, "width of a head", 1, 65536),
                      number("length", &C::length, "queries and keys of the sequence", 1, 1e9),
                      field("backward", &C::backward, "for training: forward and backward"));
  }
};

kernels::DType dtype_of(const std::string& name) {
  if (name == "bfloat16") return kernels::DType::kBFloat16;
  return name == "float64" ? kernels::DType::kFloat64 : kernels::DType::kFloat32;
}

AttentionKind kind_of(const std::string& name) {
  if (name == "causal") return AttentionKind::kCausal;
  return name == "cross" ? AttentionKind::kCross : AttentionKind::kSelf;
}

}  // namespace

int run_kernels(const std::vector<std::string>& arguments) {
  KernelsConfig config;
  Options options("kernels", "Lists the attention kernels, or explains which one runs a mechanism and why.",
                  "[--explain SPEC]");
  options.add(config, "Options");
  if (!options.parse(arguments)) return 0;
  if (config.explain.empty()) {
    for (const kernels::Kernel& kernel : kernels::attention_kernels())
      std::cout << kernel.name << std::string(kernel.name.size() < 16 ? 16 - kernel.name.size() : 1, ' ')
                << kernel.summary << "\n";
    std::cout << "reference       any problem on any device, through dense scores\n";
    return 0;
  }
  for (const HeadGroup& group : resolve(parse_layer_spec(config.explain), config.heads)) {
    validate(group.spec, kind_of(config.kind));
    const kernels::AttentionProblem problem{.spec = group.spec,
                                            .kind = kind_of(config.kind),
                                            .dtype = dtype_of(config.dtype),
                                            .num_heads = group.num_heads,
                                            .head_dim = config.head_dim,
                                            .needs_backward = config.backward,
                                            .dropout = 0,
                                            .sequences = {{0, config.length, 0, config.length}}};
    std::cout << print(group.spec) << ", " << group.num_heads << " heads:\n" << kernels::explain(problem) << "\n";
  }
  return 0;
}

}  // namespace fovea::app
