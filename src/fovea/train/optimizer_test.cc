#include "fovea/train/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "fovea/base/test_message.h"
#include "fovea/train/toy_task.h"
#include "fovea/train/updater.h"

namespace fovea::train::optimizer_test {
namespace {
using testing::HasSubstr;

constexpr int64_t kUpdates = 50;

// Weights stay below 8. Each of 50 updates rounds a weight once or twice, to half of 2^-21, and roundings are of either
// sign. A step of 0.02 is off by some 2^-22 of itself, which is less.
constexpr double kTolerance = 1e-5;

double rate_of(int64_t update) { return 0.02 / std::sqrt(static_cast<double>(update)); }

struct Toy {
  TrainConfig config;
  ToyTask task;
  Updater updater;
  explicit Toy(const TrainConfig& given, const nn::ParameterRules& rules = {})
      : config(given), task(rules), updater(config, task.module(), at::kCPU, rules) {}

  // Updates first ... last, each of two batches.
  UpdateResult update(int64_t first, int64_t last) {
    UpdateResult result;
    for (int64_t t = first; t <= last; ++t)
      result = updater.update(task, {.first = 2 * t, .passes = 2, .update = t, .learn_rate = rate_of(t)});
    return result;
  }
  nn::Checkpoint checkpoint() const {
    nn::Checkpoint checkpoint;
    updater.store(checkpoint);
    for (nn::NamedTensors* tensors : {&checkpoint.model, &checkpoint.optimizer}) {
      for (auto& [name, tensor] : *tensors) tensor = tensor.clone();
    }
    return checkpoint;
  }
};

TrainConfig config_of(const std::string& optimizer) {
  TrainConfig config;
  config.optimizer = optimizer;
  config.clip_norm = 0;
  return config;
}

// The initial parameters in double.
std::vector<std::pair<std::string, at::Tensor>> initial_parameters() {
  std::vector<std::pair<std::string, at::Tensor>> parameters;
  for (const auto& item : ToyModule().named_parameters())
    parameters.emplace_back(item.key(), item.value().detach().to(at::kDouble).requires_grad_());
  return parameters;
}

// The mean gradient of an update in double.
at::Tensor mean_gradient(const std::string& name, const at::Tensor& like, int64_t update) {
  const auto of = [&](int64_t batch) { return ToyTask::gradient(name, like.sizes(), batch).to(at::kDouble); };
  return (of(2 * update) + of(2 * update + 1)) / (2 * ToyTask::kWeight);
}

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)>;
using ChangeGradient = std::function<void(at::Tensor&)>;

// The parameters after PyTorch's optimiser worked on the same gradients in double; `change` clips one.
nn::NamedTensors with_torch(const MakeOptimizer& make, const ChangeGradient& change = nullptr) {
  const auto parameters = initial_parameters();
  std::vector<at::Tensor> leaves;
  for (const auto& [name, tensor] : parameters) leaves.push_back(tensor);
  const auto optimizer = make(leaves);
  for (int64_t t = 1; t <= kUpdates; ++t) {
    for (auto& [name, tensor] : parameters) {
      at::Tensor gradient = mean_gradient(name, tensor, t);
      if (change) change(gradient);
      tensor.mutable_grad() = gradient;
    }
    for (auto& group : optimizer->param_groups()) group.options().set_lr(rate_of(t));
    optimizer->step();
  }
  return {parameters.begin(), parameters.end()};
}

void expect_same(const nn::NamedTensors& ours, const nn::NamedTensors& theirs, const std::string& what) {
  for (const auto& [name, tensor] : theirs) {
    const at::Tensor difference = ours.at(name).to(at::kDouble) - tensor.detach();
    EXPECT_LT(difference.abs().max().item<double>(), kTolerance) << what << ", " << name;
    EXPECT_LT(tensor.abs().max().item<double>(), 8);
  }
}

// In bfloat16 the gradients are the same numbers, and the weights are float32.
void expect_trains_to(const TrainConfig& config, const nn::NamedTensors& theirs) {
  for (const char* precision : {"float32", "bfloat16"}) {
    TrainConfig own = config;
    own.precision = precision;
    Toy toy(own);
    ASSERT_TRUE(toy.update(1, kUpdates).made);
    expect_same(toy.checkpoint().model, theirs, precision);
    for (const auto& item : toy.task.module().named_parameters()) {
      const at::Tensor weights = toy.checkpoint().model.at(item.key());
      EXPECT_TRUE(item.value().detach().equal(weights.to(item.value().scalar_type()))) << "the model's copy";
    }
  }
}

TEST(Optimizer, AdamIsPyTorchs) {
  for (const double decay : {0.0, 0.3}) {
    TrainConfig config = config_of("adam");
    config.optimizer_params = {0.9, 0.95, 1e-3};
    config.weight_decay = decay;
    expect_trains_to(config, with_torch([&](const std::vector<at::Tensor>& parameters) {
                       return std::make_unique<torch::optim::AdamW>(
                           parameters, torch::optim::AdamWOptions().betas({0.9, 0.95}).eps(1e-3).weight_decay(decay));
                     }));
  }
}

TEST(Optimizer, AdagradIsPyTorchs) {
  for (const double initial : {0.0, 0.1}) {
    TrainConfig config = config_of("adagrad");
    config.adagrad_eps = 1e-6;
    config.adagrad_initial = initial;
    expect_trains_to(config, with_torch([&](const std::vector<at::Tensor>& parameters) {
                       return std::make_unique<torch::optim::Adagrad>(
                           parameters, torch::optim::AdagradOptions().eps(1e-6).initial_accumulator_value(initial));
                     }));
  }
}

// Algorithms 4 and 5 of Shazeer and Stern (2018) in double, with sums where ours has means, for one matrix [n, m] or,
// with n = 0, a vector of m.
class PaperAdafactor {
 public:
  struct Options {
    bool relative = false;
    double clip = 1, decay = 0.8, weight_decay = 0;
  };
  PaperAdafactor(int64_t n, int64_t m, const Options& options)
      : options_(options), n_(n), m_(m), row_(static_cast<size_t>(n)), column_(static_cast<size_t>(m)) {}

  void step(double* x, const double* g, int64_t update) {
    step_sums(g, update);
    const auto count = static_cast<size_t>(std::max<int64_t>(n_, 1) * m_);
    double total = 0, mean_u = 0, mean_x = 0;
    for (const double r : row_) total += r;
    std::vector<double> u(count);
    for (size_t i = 0; i < count; ++i) {
      const auto m = static_cast<size_t>(m_);
      const double v = n_ == 0 ? column_[i] : row_[i / m] * column_[i % m] / total;
      u[i] = g[i] / std::sqrt(v);
      mean_u += u[i] * u[i] / static_cast<double>(count);
      mean_x += x[i] * x[i] / static_cast<double>(count);
    }
    const double rate = rate_of(update);
    const double alpha = options_.relative ? std::max(1e-3, std::sqrt(mean_x)) * rate : rate;
    const double shrink = options_.clip > 0 ? std::max(1.0, std::sqrt(mean_u) / options_.clip) : 1;
    for (size_t i = 0; i < count; ++i) x[i] += -rate * options_.weight_decay * x[i] - alpha * u[i] / shrink;
  }

 private:
  void step_sums(const double* g, int64_t update) {
    const double beta = 1 - std::pow(static_cast<double>(update), -options_.decay);
    for (double& r : row_) r *= beta;
    for (double& c : column_) c *= beta;
    for (int64_t i = 0; i < std::max<int64_t>(n_, 1); ++i) {
      for (int64_t j = 0; j < m_; ++j) {
        const double square = g[i * m_ + j] * g[i * m_ + j] + 1e-30;
        if (n_ > 0) row_[static_cast<size_t>(i)] += (1 - beta) * square;
        column_[static_cast<size_t>(j)] += (1 - beta) * square;
      }
    }
  }

  Options options_;
  int64_t n_, m_;
  std::vector<double> row_, column_;
};

// All parameters but the cube, whose update is clipped as a whole.
nn::NamedTensors with_paper(const PaperAdafactor::Options& options) {
  nn::NamedTensors result;
  for (const auto& [name, leaf] : initial_parameters()) {
    if (name == "cube") continue;
    const at::Tensor x = leaf.detach();
    const bool is_matrix = x.dim() == 2;
    PaperAdafactor paper(is_matrix ? x.size(0) : 0, is_matrix ? x.size(1) : x.numel(), options);
    for (int64_t t = 1; t <= kUpdates; ++t)
      paper.step(x.mutable_data_ptr<double>(), mean_gradient(name, x, t).contiguous().data_ptr<double>(), t);
    result[name] = x;
  }
  return result;
}

TEST(Optimizer, AdafactorIsThePapers) {
  for (const PaperAdafactor::Options& options :
       {PaperAdafactor::Options{}, {.relative = true}, {.clip = 0}, {.clip = 0.5, .decay = 0.5, .weight_decay = 0.3}}) {
    TrainConfig config = config_of("adafactor");
    config.adafactor_relative_step = options.relative;
    config.adafactor_clip = options.clip;
    config.adafactor_decay = options.decay;
    config.weight_decay = options.weight_decay;
    expect_trains_to(config, with_paper(options));
  }
}

// A cube is matrices side by side: of the same moments as alone, but clipped together.
TEST(Optimizer, AdafactorTakesTheLastTwoDimensionsAsMatrices) {
  TrainConfig config = config_of("adafactor");
  config.adafactor_clip = 0;
  Toy toy(config);
  toy.update(1, kUpdates);
  const auto parameters = initial_parameters();
  const auto cube = std::ranges::find_if(parameters, [](const auto& item) { return item.first == "cube"; });
  const at::Tensor x = cube->second.detach();
  for (int64_t i = 0; i < x.size(0); ++i) {
    PaperAdafactor paper(x.size(1), x.size(2), {.clip = 0});
    for (int64_t t = 1; t <= kUpdates; ++t)
      paper.step(x[i].mutable_data_ptr<double>(), mean_gradient("cube", x, t)[i].contiguous().data_ptr<double>(), t);
  }
  expect_same(toy.checkpoint().model, {{"cube", x}}, "cube");
}

// Printed by torch.optim.Adafactor 2.13 (lr 0.01, weight_decay 0.1) in double after 50 updates of these weights and
// gradients. Its learning rate is relative; at 0.01 the other differences from the paper do not show.
TEST(Optimizer, AdafactorIsPyTorchs) {
  constexpr double kMatrix[] = {0.472446935, 0.257464734, -0.190934748, -0.467086142, -0.31035411, 0.128561884};
  constexpr double kVector[] = {0.001591326404, 0.00174041097, 0.000277995634};
  at::Tensor matrix = at::empty({2, 3}), vector = at::empty({3});
  at::Tensor matrix_grad = at::empty({2, 3}), vector_grad = at::empty({3});
  for (int i = 0; i < 6; ++i) matrix.data_ptr<float>()[i] = static_cast<float>(0.5 * std::cos(i));
  for (int i = 0; i < 3; ++i) vector.data_ptr<float>()[i] = static_cast<float>(0.002 * std::sin(i + 1));
  const std::vector<ops::AdafactorParameter> parameters = {ops::adafactor_parameter(matrix, matrix_grad, {}),
                                                           ops::adafactor_parameter(vector, vector_grad, {})};
  for (int64_t t = 1; t <= kUpdates; ++t) {
    const auto at = static_cast<double>(t);
    for (int i = 0; i < 6; ++i) matrix_grad.data_ptr<float>()[i] = static_cast<float>(std::sin(i + 1.7 * at));
    for (int i = 0; i < 3; ++i) vector_grad.data_ptr<float>()[i] = static_cast<float>((i + 1) * std::cos(i + 0.9 * at));
    ops::adafactor_step(parameters, {.learn_rate = 0.01, .relative_step = true, .weight_decay = 0.1, .step = t});
  }
  // 50 roundings of weights below 1, and of weights below 0.002, where the printed digits end at 5e-13.
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(matrix.data_ptr<float>()[i], kMatrix[i], 1e-6);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(vector.data_ptr<float>()[i], kVector[i], 4e-9);
}

// The mean gradients have norms of about 3.6 (matrix), 2.4 (cube, vector) and 0.2 (scalar).
TEST(Optimizer, ClipsEachParameterByItself) {
  constexpr double kLimit = 2.4;
  TrainConfig config = config_of("adam");
  config.optimizer_params = {0.9, 0.95, 1e-3};
  config.clip_norm_tensor = kLimit;
  int clipped = 0, left = 0;
  const ChangeGradient change = [&](at::Tensor& gradient) {
    const double norm = gradient.norm().item<double>();
    ++(norm > kLimit ? clipped : left);
    if (norm > kLimit) gradient.mul_(kLimit / norm);
  };
  expect_trains_to(config, with_torch(
                               [](const std::vector<at::Tensor>& parameters) {
                                 return std::make_unique<torch::optim::Adam>(
                                     parameters, torch::optim::AdamOptions().betas({0.9, 0.95}).eps(1e-3));
                               },
                               change));
  EXPECT_GT(clipped, 20);
  EXPECT_GT(left, 20);
}

// Like in the code of Sukhbaatar et al. (2019), the sums take the gradient as it is.
TEST(Optimizer, AdagradsClipScalesTheStep) {
  constexpr double kLimit = 2.4;
  TrainConfig config = config_of("adagrad");
  config.clip_norm_tensor = kLimit;
  nn::NamedTensors expected;
  for (const auto& [name, leaf] : initial_parameters()) {
    const at::Tensor x = leaf.detach(), sum = at::zeros_like(x);
    for (int64_t t = 1; t <= kUpdates; ++t) {
      const at::Tensor gradient = mean_gradient(name, x, t);
      sum.add_(gradient.square());
      const double norm = gradient.norm().item<double>();
      x.sub_(gradient / (sum.sqrt() + 1e-10) * (rate_of(t) * std::min(1.0, kLimit / norm)));
    }
    expected[name] = x;
  }
  expect_trains_to(config, expected);
}

// Tensors cut to 1 each have together at most the norm 2: --clip-norm 1.5 scales the rest once more.
TEST(Optimizer, ClipsTheWholeAfterItsParts) {
  TrainConfig config = config_of("adam");
  config.optimizer_params = {0, 0, 1e6};  // the step is then about 1e-6 of the gradient
  config.clip_norm_tensor = 1;
  config.clip_norm = 1.5;
  Toy toy(config);
  const nn::NamedTensors before = toy.checkpoint().model;
  UpdateResult result = toy.updater.update(toy.task, {.first = 2, .passes = 2, .update = 1, .learn_rate = 1e6});
  double squares = 0, own_squares = 0, cut_squares = 0;
  for (const auto& [name, leaf] : initial_parameters()) {
    squares += (toy.checkpoint().model.at(name) - before.at(name)).to(at::kDouble).square().sum().item<double>();
    const double norm = mean_gradient(name, leaf, 1).norm().item<double>();
    own_squares += norm * norm;
    cut_squares += std::pow(std::min(norm, 1.0), 2);
  }
  EXPECT_NEAR(result.gradient_norm, std::sqrt(own_squares), 1e-5) << "as it was before clipping";
  EXPECT_GT(std::sqrt(cut_squares), 1.6);
  EXPECT_NEAR(std::sqrt(squares), 1.5, 1e-5);  // steps of weights below 4 are rounded to 2^-23
}

TEST(Optimizer, ContinuesFromACheckpointToTheSameBytes) {
  for (const std::string& name : split(kOptimizers, '|')) {
    for (const char* precision : {"float32", "bfloat16"}) {
      TrainConfig config = config_of(name);
      config.precision = precision;
      config.exponential_smoothing = 0.1;
      config.clip_norm_tensor = 2.4;
      Toy whole(config), first(config), second(config);
      whole.update(1, 9);
      first.update(1, 4);
      second.updater.restore(first.checkpoint(), "test");
      second.update(5, 9);
      const nn::Checkpoint expected = whole.checkpoint(), got = second.checkpoint();
      ASSERT_EQ(got.optimizer.size(), expected.optimizer.size());
      for (const auto& [key, tensor] : expected.optimizer) EXPECT_TRUE(got.optimizer.at(key).equal(tensor)) << key;
      for (const auto& [key, tensor] : expected.model) EXPECT_TRUE(got.model.at(key).equal(tensor)) << key;
    }
  }
}

TEST(Optimizer, NamesItsState) {
  const auto names = [](const std::string& optimizer) {
    std::vector<std::string> list;
    const nn::NamedTensors state = Toy(config_of(optimizer)).checkpoint().optimizer;
    for (const auto& [name, tensor] : state) list.push_back(name);
    return join(list, " ");
  };
  EXPECT_EQ(names("adam"),
            "mean/cube mean/matrix mean/scalar mean/vector variance/cube variance/matrix variance/scalar "
            "variance/vector");
  EXPECT_EQ(names("adagrad"), "sum/cube sum/matrix sum/scalar sum/vector");
  EXPECT_EQ(names("adafactor"), "column/cube column/matrix element/scalar element/vector row/cube row/matrix");
  const nn::NamedTensors state = Toy(config_of("adafactor")).checkpoint().optimizer;
  EXPECT_EQ(state.at("row/cube").sizes(), (std::vector<int64_t>{3, 5}));
  EXPECT_EQ(state.at("column/cube").sizes(), (std::vector<int64_t>{3, 7}));
}

TEST(Optimizer, RefusesTheStateOfAnother) {
  const nn::Checkpoint adam = Toy(config_of("adam")).checkpoint();
  Toy other(config_of("adafactor"));
  EXPECT_EQ(
      message_of([&] { other.updater.restore(adam, "resuming 'run'"); }),
      "resuming 'run': the run was trained with --optimizer adam, got adafactor; give the same optimiser, or start a "
      "new run from its weights with --pretrained-model");
  nn::Checkpoint foreign = Toy(config_of("adafactor")).checkpoint();
  foreign.optimizer["row/other"] = at::zeros({2});
  EXPECT_EQ(message_of([&] { other.updater.restore(foreign, "o"); }),
            "o: tensor 'row/other' does not belong to this model");
  foreign.optimizer.erase("row/other");
  foreign.optimizer.erase("row/cube");
  EXPECT_EQ(message_of([&] { other.updater.restore(foreign, "o"); }), "o: tensor 'row/cube' is missing");
}

TEST(Optimizer, DoesNothingForAGradientThatIsNotFinite) {
  for (const std::string& name : split(kOptimizers, '|')) {
    TrainConfig config = config_of(name);
    config.clip_norm_tensor = 1;
    Toy toy(config);
    toy.update(1, 2);
    const nn::Checkpoint before = toy.checkpoint();
    toy.task.scale = std::numeric_limits<double>::quiet_NaN();
    EXPECT_FALSE(toy.update(3, 3).made);
    const nn::Checkpoint after = toy.checkpoint();
    for (const auto& [key, tensor] : before.optimizer) EXPECT_TRUE(after.optimizer.at(key).equal(tensor)) << key;
    for (const auto& [key, tensor] : before.model) EXPECT_TRUE(after.model.at(key).equal(tensor)) << key;
  }
}

}  // namespace
}  // namespace fovea::train::optimizer_test
