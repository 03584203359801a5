#include <iostream>
#include <string>
#include <vector>

#include "fovea/app/options.h"
#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/simd/isa.h"
#include "fovea/spec/attention_spec.h"

namespace fovea::app {
namespace {

struct KernelsConfig {
  std::string explain, kind{name_of(AttentionKind::kSelf)}, dtype{name_of(kernels::DType::kFloat32)};
  int64_t heads = 8, head_dim = 64, length = 1024;
  bool backward = false;

  static constexpr auto fields() {
    using C = KernelsConfig;
    return std::tuple(field("explain", &C::explain, "walk the list for this mechanism, with each kernel's reasons"),
                      choice("kind", &C::kind, "kind of the attention", kAttentionKinds),
                      choice("dtype", &C::dtype, "type of the inputs", kernels::kDTypes),
                      number("heads", &C::heads, "heads of the layer", 1, 1024),
                      number("head-dim", &C::head_dim, "width of a head", 1, 65536),
                      number("length", &C::length, "queries and keys of the sequence", 1, 1e9),
                      field("backward", &C::backward, "for training: forward and backward"));
  }
};

void print_kernels() {
  for (const auto& [name, summary] : kernels::kernel_titles())
    std::cout << name << std::string(name.size() < 16 ? 16 - name.size() : 1, ' ') << summary << "\n";
  if (const std::string missing = kernels::missing_forms(); !missing.empty()) {
    std::cout << "without instructions of their own: " << missing << "\n";
  }
  std::cout << "instruction set: " << kernels::name(kernels::isa()) << "\n";
}

void explain_kernels(const KernelsConfig& config) {
  const AttentionKind kind = parse_kind(config.kind);
  const auto dtype = parse_choice<kernels::DType>(kernels::kDTypes, config.dtype, "--dtype");
  for (const HeadGroup& group : resolve(parse_layer_spec(config.explain), config.heads)) {
    validate(group.spec, kind);
    AttentionSpec spec = group.spec;
    kernels::GivenPairs given;
    if (const BlockChoice* blocks = spec.blocks()) {
      given = {.block = blocks->block, .count = blocks->best, .heads = kernels::ListHeads::kOfQueries};
      spec.source = Pairs{};
    } else if (const IndexedKeys* indexed = spec.indexed()) {
      given = {.block = 1, .count = indexed->count};
      spec.source = Pairs{};
    }
    const kernels::AttentionProblem problem{.spec = spec,
                                            .kind = kind,
                                            .dtype = dtype,
                                            .num_heads = group.num_heads,
                                            .head_dim = config.head_dim,
                                            .needs_backward = config.backward,
                                            .dropout = 0,
                                            .given = given,
                                            .sequences = {{0, config.length, 0, config.length}}};
    std::cout << print(group.spec) << ", " << group.num_heads << " heads:\n" << kernels::explain(problem) << "\n";
  }
}

}  // namespace

int run_kernels(const std::vector<std::string>& arguments) {
  KernelsConfig config;
  Options options("kernels", "Lists the attention kernels, or explains which one runs a mechanism and why.",
                  "[--explain SPEC]");
  options.add(config, "Options");
  if (!options.parse(arguments)) return 0;
  kernels::isa();  // an Error where FOVEA_CPU is no level of this machine
  if (config.explain.empty()) {
    print_kernels();
  } else {
    explain_kernels(config);
  }
  return 0;
}

}  // namespace fovea::app
