#pragma once
#include <concepts>
#include <memory>

#include "fovea/base/test_folder.h"
#include "fovea/spec/model_config.h"
#include "fovea/spec/testing/classic_layers.h"
#include "fovea/train/test_training.h"

namespace fovea::tasks {

// A short training of a tiny model of one task, on one thread; its run is folder/run. The tests of each task derive
// their TestRun from it, which adds the data.
template <class Task, class Options, class Model>
struct TestRunOf {
  TestFolder folder;
  TrainConfig train;
  Options data;
  Model model;

  TestRunOf() {
    train.model = folder / "run";
    train.learn_rate = 0.01;
    train.lr_warmup = 5;
    train.cpu_threads = 1;
    train.max_rollbacks = 0;
    train.save_freq = train.disp_freq = 1000;
    set_classic_layers(model, std::derived_from<Model, DecoderConfig> ? "pre" : "post");
    model.dim_emb = 16;
    model.transformer_heads = 2;
    model.transformer_dim_ffn = 24;
    model.transformer_dropout = 0.1;
  }
  std::unique_ptr<Task> task() const { return std::make_unique<Task>(train, data, model, train.optimizer_delay); }
};

// Trains; returns the cost of the last update, per unit of BatchLoss::weight.
template <class Task, class Options, class Model>
double run(const TestRunOf<Task, Options, Model>& test) {
  return train::train_task<Task>(test.train, test.data, test.model);
}

}  // namespace fovea::tasks
