#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/kernels/layer/update.h"
#include "fovea/ops/executor.h"
#include "fovea/ops/kernel_tensors.h"
#include "fovea/ops/recorded.h"
#include "fovea/ops/step.h"
#include "fovea/ops/step_composite.h"

namespace fovea::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Words {
  at::Tensor ids, position, weight, positions;  // position and positions may be undefined
  double scale = 1;
  DropoutOptions dropout;
};

at::Tensor embed_rows(const Words& words) {
  const at::Tensor& weight = words.weight;
  at::Tensor out = at::empty({words.ids.size(0), weight.size(1)}, weight.options());
  with_element(weight, [&]<class T>(T) {
    kernels::EmbedForward<T> job{.ids = elements<int64_t>(words.ids),
                                 .position = elements<int64_t>(words.position),
                                 .weight = elements<T>(weight),
                                 .positions = elements<T>(words.positions),
                                 .out = elements<T>(out)};
    job.tokens = words.ids.size(0), job.width = weight.size(1);
    job.scale = static_cast<float>(words.scale);
    job.dropout = mask_of(words.dropout);
    kernels::embed(job, torch_executor());
  });
  return out;
}

// The rows of one table that the tokens took, `scale` times each.
struct Lookup {
  at::Tensor index;
  int64_t rows = 0;
  double scale = 1;
};

at::Tensor grad_of(const Lookup& table, const at::Tensor& grad, const DropoutOptions& dropout) {
  at::Tensor result = at::empty({table.rows, grad.size(1)}, grad.options());
  with_element(grad, [&]<class T>(T) {
    kernels::EmbedBackward<T> job{
        .ids = elements<int64_t>(table.index), .grad = elements<T>(grad), .grad_weight = elements<T>(result)};
    job.tokens = grad.size(0), job.vocabulary = table.rows, job.width = grad.size(1);
    job.scale = static_cast<float>(table.scale);
    job.dropout = mask_of(dropout);
    kernels::embed(job, torch_executor());
  });
  return result;
}

struct Embed : torch::autograd::Function<Embed> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& weight,
                            const std::optional<at::Tensor>& positions, const Words& words) {
    context->save_for_backward({words.ids, words.position});
    context->saved_data["vocabulary"] = weight.size(0);
    context->saved_data["positions"] = positions ? positions->size(0) : 0;
    context->saved_data["scale"] = words.scale;
    context->saved_data["rate"] = words.dropout.rate;
    context->saved_data["seed"] = words.dropout.seed;
    return embed_rows(words);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    refuse_second_derivatives("embed");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor grad = grads[0].contiguous();
    const auto saved_int = [&](const char* name) { return context->saved_data[name].toInt(); };
    const DropoutOptions dropout{.rate = context->saved_data["rate"].toDouble(), .seed = saved_int("seed")};
    variable_list result(3);
    if (context->needs_input_grad(0)) {
      result[0] = grad_of({saved[0], saved_int("vocabulary"), context->saved_data["scale"].toDouble()}, grad, dropout);
    }
    if (saved[1].defined() && context->needs_input_grad(1)) {
      result[1] = grad_of({saved[1], saved_int("positions")}, grad, dropout);
    }
    return result;
  }
};

struct IndexRange {
  int64_t least, end;
};

void check_range(const at::Tensor& ids, const IndexRange& range, const char* what) {
  const int64_t* begin = elements<int64_t>(ids);
  const int64_t* bad =
      std::find_if(begin, begin + ids.numel(), [&](int64_t id) { return id < range.least || id >= range.end; });
  if (bad != begin + ids.numel()) {
    throw Error(cat("embed: ", what, " ", *bad, " of token ", bad - begin, " is not a row of the table, which has ",
                    range.end));
  }
}

bool is_index(const at::Tensor& ids) { return ids.is_cpu() && ids.scalar_type() == at::kLong && ids.dim() == 1; }

}  // namespace

at::Tensor embed(const at::Tensor& ids, const at::Tensor& position, const at::Tensor& weight,
                 const std::optional<at::Tensor>& positions, double scale, const DropoutOptions& options) {
  const Recorded recorded("fovea::embed");
  check_rate(options.rate, "embed: dropout");
  const at::Tensor table = tensor_or_none(positions);
  const bool fits = fits_kernels({weight, table}) && is_index(ids) &&
                    (!table.defined() || (is_index(position) && position.size(0) == ids.size(0)));
  if (!fits) return dropout(composite::embed(ids, position, weight, positions, scale), options);
  Words words{.ids = ids.contiguous(),
              .position = {},
              .weight = weight.contiguous(),
              .positions = {},
              .scale = scale,
              .dropout = options};
  check_range(words.ids, {-1, weight.size(0)}, "id");
  if (table.defined()) {
    words.position = position.contiguous();
    words.positions = table.contiguous();
    check_range(words.position, {0, table.size(0)}, "position");
  }
  if (!wants_gradient({weight, table})) return embed_rows(words);
  return Embed::apply(words.weight, some_or_none(words.positions), words);
}

}  // namespace fovea::ops
