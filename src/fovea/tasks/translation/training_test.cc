#include <ATen/Context.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <unistd.h>
#include "fovea/tasks/translation/test_task.h"

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/test_message.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/tasks/translation/measures.h"
#include "fovea/train/measure.h"

namespace fovea::translation::training_test {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(Training, Learns) {
  TestTask task;
  task.with_validation();
  task.train.valid_freq = 100;
  task.train.after_batches = 200;
  task.model.transformer_dropout = 0;
  double first = 0, last = 0;
  Hooks hooks;
  hooks.on_update = [&](const train::UpdateReport& report) { (report.updates == 1 ? first : last) = report.cost; };
  run(task, hooks);
  // At first, the cost is about that of a uniform guess among 30 pieces, and more for the random output layer; the
  // smoothed cost of a perfect model is near 0.9.
  EXPECT_GT(first, 0.9 * std::log(30));
  EXPECT_LT(last, 2);
  EXPECT_TRUE(fs::exists(fs::path(task.train.model) / "best"));
}

TEST(Training, StopsAfterEpochsAndWhenValidationStalls) {
  TestTask task;
  task.train.after_epochs = 2;
  int64_t updates = 0, epoch = 0;
  Hooks hooks;
  hooks.on_update = [&](const train::UpdateReport& report) {
    updates = report.updates;
    epoch = report.epoch;
  };
  run(task, hooks);
  EXPECT_EQ(epoch, 2);
  EXPECT_EQ(updates % 2, 0) << "both epochs have as many batches";
  TestTask stalls;
  stalls.with_validation();
  stalls.train.valid_metrics = {"bleu", "ce-mean-words"};
  stalls.train.early_stopping = 3;
  hooks.translations = [] { return 1.0; };  // always as bad
  run(stalls, hooks);
  EXPECT_EQ(updates, 4 * (1 + 3));
  EXPECT_EQ(fs::read_symlink(fs::path(stalls.train.model) / "best").filename(), "update-00000004");
}

TEST(Training, StopsAfterSecondsWithAValidation) {
  TestTask task;
  task.with_validation();
  task.train.valid_freq = 1'000'000;
  task.train.stop_after_seconds = 0.05;
  task.train.lr_decay = "cosine";
  run(task);
  EXPECT_TRUE(fs::exists(fs::path(task.train.model) / "best")) << "no validation at the end";
  const double seconds = std::stod(nn::load_checkpoint(task.train.model, nn::Load::kAll).progress.at("seconds"));
  EXPECT_GE(seconds, 0.05);
}

TEST(Training, DivergenceStopsWithTheLastGoodCheckpointWhole) {
  TestTask task;
  task.train.after_batches = 3;
  run(task);
  // Weights whose products overflow: no learning rate that the options allow gets there in a short test.
  nn::Checkpoint huge = nn::load_checkpoint(task.train.model, nn::Load::kAll);
  for (auto& [name, tensor] : huge.model) tensor = tensor * 1e30;
  nn::save_checkpoint(fs::canonical(fs::path(task.train.model) / "last"), huge);
  const std::string good = bytes_of(task.train.model);
  task.train.after_batches = 50;
  EXPECT_THAT(message_of([&] { run(task); }), HasSubstr("5 times in a row; lower --learn-rate"));
  EXPECT_EQ(bytes_of(task.train.model), good);
}

TEST(Training, GoesOnFromTheNewestWholeCheckpoint) {
  TestTask task;
  task.train.save_freq = 5;
  task.train.after_batches = 15;
  run(task);
  const std::string expected = bytes_of(task.train.model);
  const fs::path model = fs::path(task.train.model) / "last/model.safetensors";
  write_file(model, read_file(model).substr(0, 1000));
  run(task);  // from update 10
  EXPECT_EQ(bytes_of(task.train.model), expected);
}

TEST(Training, RefusesARunOfAnotherModel) {
  TestTask task;
  task.train.after_batches = 1;
  run(task);
  TestTask other = TestTask();
  other.train.model = task.train.model;
  other.model.transformer_dim_ffn = 32;
  EXPECT_THAT(message_of([&] { run(other); }), HasSubstr("--transformer-dim-ffn: the run in"));
  other.model.transformer_dim_ffn = 24;
  text::train_vocab({.inputs = {other.folder / "both"}, .output = other.folder / "v.spm", .size = 29});
  EXPECT_THAT(message_of([&] { run(other); }), HasSubstr("was trained with another source.spm"));
}

// The run is copied like cp -rL copies it.
TEST(Training, GoesOnWhereTheLinksAreFolders) {
  TestTask task;
  task.with_validation();
  task.train.save_freq = 2;
  task.train.after_batches = 6;
  run(task);
  const fs::path original = task.train.model;
  const auto copied = [&](const std::string& name) {
    task.train.model = task.folder / name;
    for (const char* part : {"checkpoints", "last", "best"})
      fs::copy(original / part, fs::path(task.train.model) / part, fs::copy_options::recursive);
    return fs::path(task.train.model);
  };
  fs::create_directory(task.folder / "copy");
  const fs::path copy = copied("copy");
  ASSERT_FALSE(fs::is_symlink(copy / "last"));
  task.train.after_batches = 8;
  run(task);
  const std::string resumed = bytes_of(copy), links = checkpoints_of(copy);
  task.train.model = original;
  run(task);
  EXPECT_EQ(bytes_of(original), resumed);
  EXPECT_EQ(checkpoints_of(original), links);
  for (const bool overwrite : {false, true}) {
    fs::create_directory(task.folder / cat("again", overwrite));
    const fs::path again = copied(cat("again", overwrite));
    task.train.overwrite = overwrite;
    task.train.no_reload = !overwrite;
    run(task);
    EXPECT_EQ(bytes_of(again), resumed);
    EXPECT_TRUE(fs::is_symlink(again / "last"));
    EXPECT_FALSE(fs::exists(again / "last.1")) << "the folder was a copy of a checkpoint";
  }
}

TEST(Training, RefusesACheckpointAsTheRun) {
  TestTask task;
  task.train.after_batches = 1;
  run(task);
  const fs::path folder = task.folder / "model";
  fs::copy(fs::path(task.train.model) / "last", folder, fs::copy_options::recursive);
  task.train.model = folder;
  EXPECT_THAT(message_of([&] { run(task); }), HasSubstr("model' is a checkpoint, not a run's folder; expected"));
  EXPECT_FALSE(fs::exists(folder / ".lock"));
  EXPECT_FALSE(fs::exists(folder / "checkpoints"));
}

TEST(Training, ForgetsTheBestValuesOfAnotherValidationText) {
  TestTask task;
  task.with_validation();
  task.train.valid_metrics = {"bleu"};
  task.train.early_stopping = 2;
  int64_t updates = 0;
  Hooks hooks;
  hooks.on_update = [&](const train::UpdateReport& report) { updates = report.updates; };
  hooks.translations = [] { return 1.0; };  // always as bad
  run(task, hooks);
  ASSERT_EQ(updates, 4 * (1 + 2));
  fs::copy(task.data.valid_sets[0], task.folder / "copy.s");
  task.data.valid_sets[0] = task.folder / "copy.s";
  run(task, hooks);
  EXPECT_EQ(updates, 4 * (1 + 2)) << "the same text in another file";
  task.data.valid_sets = task.data.train_sets;
  run(task, hooks);
  EXPECT_EQ(updates, 4 * (1 + 2 + 1 + 2));
  EXPECT_EQ(fs::read_symlink(fs::path(task.train.model) / "best").filename(), "update-00000016");
}

TEST(Training, AValueThatIsNotFiniteIsNeverTheBest) {
  TestTask task;
  task.train.after_batches = 4;
  run(task);
  nn::Checkpoint huge = nn::load_checkpoint(task.train.model, nn::Load::kAll);
  for (auto& [name, tensor] : huge.model) tensor = tensor * 1e30;
  nn::save_checkpoint(fs::canonical(fs::path(task.train.model) / "last"), huge);
  task.with_validation();  // due at once, at update 4
  run(task);
  EXPECT_FALSE(fs::exists(fs::path(task.train.model) / "best"));
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();
  const auto measure = [](const char* name) { return train::measure_of(measures().known(), name); };
  for (const train::Measure& metric : {measure("ce-mean-words"), measure("bleu")}) {
    EXPECT_FALSE(is_better(metric, kNan, std::nullopt));
    EXPECT_FALSE(is_better(metric, kInf, 3.0));
    EXPECT_FALSE(is_better(metric, -kInf, 3.0));
    EXPECT_TRUE(is_better(metric, 3, kNan)) << "as the states of older versions may have it";
    EXPECT_TRUE(is_better(metric, 3, std::nullopt));
  }
  EXPECT_TRUE(is_better(measure("bleu"), 3, 2.0));
  EXPECT_FALSE(is_better(measure("ter"), 3, 2.0));
  EXPECT_FALSE(is_better(measure("ce-mean-words"), 3, 2.0));
}

TEST(Training, BeginsAgainAsAsked) {
  TestTask task;
  task.train.after_batches = 2;
  run(task);
  const std::string first = bytes_of(task.train.model);
  task.train.no_reload = true;
  task.train.after_batches = 1;
  run(task);
  EXPECT_EQ(fs::read_symlink(fs::path(task.train.model) / "last").filename(), "update-00000001");
  EXPECT_TRUE(fs::exists(fs::path(task.train.model) / "checkpoints.1/update-00000002"));
  task.train.no_reload = false;
  task.train.overwrite = true;
  task.train.after_batches = 2;
  const fs::path foreign = fs::path(task.train.model) / "checkpoints/notes.txt";
  std::ofstream(foreign) << "not ours";
  EXPECT_THAT(message_of([&] { run(task); }), HasSubstr("notes.txt' is not a checkpoint"));
  EXPECT_TRUE(fs::exists(fs::path(task.train.model) / "checkpoints/update-00000001"));
  fs::remove(foreign);
  run(task);
  EXPECT_EQ(bytes_of(task.train.model), first);
  EXPECT_FALSE(fs::exists(fs::path(task.train.model) / "checkpoints/update-00000001"));
}

TEST(Training, GradientCheckpointingChangesNoBit) {
  struct Mechanisms {
    const char *encoder, *decoder;
  };
  for (const auto& [encoder, decoder] : {Mechanisms{"full", "span(8,2)"},
                                         {"topk(3)", "full"},
                                         {"routed(2,4)", "topk(3)"},
                                         {"mix(full,clause(1),token)", "full"}}) {
    for (const char* precision : {"float32", "bfloat16"}) {
      TestTask task;
      task.train.after_batches = 5;
      task.train.precision = precision;
      task.model.attention_encoder = encoder;
      task.model.attention_decoder = decoder;
      task.model.attention_cross = "entmax(1.5)";
      task.model.enc_depth = task.model.dec_depth = 2;
      task.model.transformer_dropout_attention = task.model.transformer_dropout_ffn = 0.2;
      std::vector<double> costs;
      Hooks hooks;
      hooks.on_update = [&](const train::UpdateReport& report) { costs.push_back(report.cost); };
      run(task, hooks);
      const std::string expected = bytes_of(task.train.model);
      const std::vector<double> expected_costs = std::exchange(costs, {});
      task.train.model = task.folder / "checkpointed";
      task.train.gradient_checkpointing = true;
      run(task, hooks);
      EXPECT_EQ(bytes_of(task.train.model), expected) << encoder << " " << precision;
      EXPECT_EQ(costs, expected_costs) << encoder << " " << precision;
    }
  }
}

TEST(Training, StartsFromPretrainedWeights) {
  TestTask task;
  task.train.after_batches = 30;
  run(task);
  double cost = 0;
  Hooks hooks;
  hooks.on_update = [&](const train::UpdateReport& report) { cost = report.cost; };
  task.train.after_batches = 1;
  task.train.pretrained_model = task.train.model;
  task.train.model = task.folder / "tuned";
  run(task, hooks);
  EXPECT_LT(cost, 0.9 * std::log(30)) << "the first update already knows something";
  EXPECT_EQ(nn::load_checkpoint(task.train.model, nn::Load::kAll).progress.at("updates"), "1");
}

TEST(Training, OverwritesNothingForAPretrainedModelThatIsRefused) {
  TestTask task;
  task.train.after_batches = 2;
  run(task);
  const fs::path last = fs::path(task.train.model) / "last";
  task.train.overwrite = true;
  task.train.pretrained_model = task.folder / "none";
  EXPECT_THAT(message_of([&] { run(task); }), HasSubstr("--pretrained-model"));
  EXPECT_TRUE(fs::exists(last / "config.yml"));
  TestTask other;
  other.train.after_batches = 1;
  other.model.transformer_dim_ffn = 32;
  run(other);
  task.train.pretrained_model = other.train.model;
  task.data.vocabs = other.data.vocabs;
  EXPECT_THAT(message_of([&] { run(task); }), HasSubstr("--pretrained-model"));
  EXPECT_TRUE(fs::exists(last / "config.yml"));
  // The weights are those of the run itself, which it deletes.
  const nn::NamedTensors weights = nn::load_checkpoint(last, nn::Load::kModel).model;
  task.train.pretrained_model = last;
  task.data.vocabs = {task.folder / "v.spm", task.folder / "v.spm"};
  task.train.after_batches = 1;
  task.train.learn_rate = 1e-20;
  run(task);
  EXPECT_EQ(fs::read_symlink(last).filename(), "update-00000001");
  for (const auto& [name, tensor] : nn::load_checkpoint(last, nn::Load::kModel).model) {
    // A step of Adam is as long as the learning rate, and shows where a weight was 0.
    EXPECT_TRUE(at::allclose(tensor, weights.at(name), 0, 1e-18)) << name;
  }
}

// A pipe's end that holds the file's content, as a shell's <(...).
class Piped {
 public:
  explicit Piped(const std::string& file) {
    const std::string content = read_file(file);
    int ends[2] = {-1, -1};
    if (pipe(ends) != 0) throw Error("no pipe");
    end_ = ends[0];
    const bool written = write(ends[1], content.data(), content.size()) == static_cast<ssize_t>(content.size());
    close(ends[1]);
    if (!written) throw Error("the pipe is too small");
  }
  ~Piped() { close(end_); }
  Piped(const Piped&) = delete;
  Piped& operator=(const Piped&) = delete;
  std::string path() const { return cat("/dev/fd/", end_); }

 private:
  int end_;
};

TEST(Training, ValidatesOnTextFromPipesAsOnFiles) {
  TestTask task;
  task.with_validation();
  task.train.after_batches = 4;
  task.train.valid_metrics = {"chrf", "ter", "bleu", "ce-mean-words"};
  const auto progress = [&] {
    run(task);
    return read_file(fs::path(task.train.model) / "last/progress.yml");
  };
  const std::string of_files = progress();
  const Piped source(task.data.valid_sets[0]), target(task.data.valid_sets[1]);
  task.data.valid_sets = {source.path(), target.path()};
  task.train.overwrite = true;
  EXPECT_EQ(progress(), of_files);
}

TEST(Training, ASecondTrainingInTheSameFolderIsRefused) {
  TestTask task;
  task.train.after_batches = 2;
  std::string message;
  Hooks hooks;
  hooks.on_update = [&](const train::UpdateReport& report) {
    if (report.updates == 1) message = message_of([&] { run(task); });
  };
  run(task, hooks);
  EXPECT_THAT(message, HasSubstr("another training is running in"));
}

TEST(Training, SaysWhatIsWrong) {
  const auto refusal = [](const std::function<void(TestTask&)>& change) {
    TestTask task;
    task.train.after_batches = 1;
    change(task);
    return message_of([&] { run(task); });
  };
  EXPECT_THAT(refusal([](TestTask& t) { t.train.model = ""; }), HasSubstr("--model"));
  EXPECT_THAT(refusal([](TestTask& t) { t.train.model = t.data.train_sets[0]; }), HasSubstr("--model"));
  EXPECT_THAT(refusal([](TestTask& t) { t.data.train_sets.pop_back(); }), HasSubstr("--train-sets"));
  EXPECT_THAT(refusal([](TestTask& t) { t.data.train_sets[0] = t.folder / "none"; }), HasSubstr("no such file"));
  EXPECT_THAT(refusal([](TestTask& t) { t.data.vocabs[1] = t.folder / "both"; }), HasSubstr("not a SentencePiece"));
  EXPECT_THAT(refusal([](TestTask& t) { t.data.vocabs.pop_back(), t.model.tied_embeddings_all = false; }),
              HasSubstr("--vocabs"));
  EXPECT_THAT(refusal([](TestTask& t) { t.train.lr_decay = "cosine", t.train.after_batches = 0; }),
              HasSubstr("--lr-decay cosine"));
  EXPECT_THAT(refusal([](TestTask& t) { t.with_validation(), t.train.valid_metrics = {"blue"}; }), HasSubstr("bleu"));
  EXPECT_THAT(refusal([](TestTask& t) { t.train.devices = "one"; }), HasSubstr("--devices"));
  const auto few_positions = [](TestTask& t) { t.model.transformer_positions = "learned", t.model.max_positions = 9; };
  EXPECT_THAT(refusal(few_positions), HasSubstr("--train-sets: the longest sentence has"));
  EXPECT_THAT(refusal([&](TestTask& t) { few_positions(t), t.data.max_length = 8, t.with_validation(); }),
              HasSubstr("--valid-sets: the longest sentence has"));
  if (!at::hasCUDA()) {
    EXPECT_THAT(refusal([](TestTask& t) { t.train.devices = "0"; }), HasSubstr("sees no CUDA device"));
  }
  EXPECT_THAT(refusal([](TestTask& t) {
                text::train_vocab({.inputs = {t.folder / "both"}, .output = t.folder / "w.spm", .size = 29});
                t.data.vocabs[1] = t.folder / "w.spm";
              }),
              HasSubstr("--tied-embeddings-all: got two different --vocabs"));
}

}  // namespace
}  // namespace fovea::translation::training_test
