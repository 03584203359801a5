#include "fovea/app/run_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/checkpoint_reader.h"
#include "fovea/nn/checkpoint_run.h"
#include "fovea/spec/config_version.h"

namespace fovea::app::run_config_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Texts = std::vector<std::string>;

struct Values {
  std::string model = "run", text = {};
  int64_t dim_emb = 8;
  bool overwrite = false, no_reload = false;
  Texts train_sets = {};

  static constexpr auto fields() {
    using C = Values;
    return std::tuple(field("model", &C::model, ""), field("text", &C::text, ""), field("dim-emb", &C::dim_emb, ""),
                      field("overwrite", &C::overwrite, ""), field("no-reload", &C::no_reload, ""),
                      field("train-sets", &C::train_sets, ""));
  }
};

TEST(RunConfig, RepeatsARunWithoutSayingWhatToDoWithIt) {
  Values values = {
      .model = "a b", .text = "1: #", .dim_emb = 3, .overwrite = true, .no_reload = true, .train_sets = {"-", ""}};
  const std::string text = run_config(field_views(values));
  EXPECT_THAT(text, StartsWith("# "));
  EXPECT_THAT(text, HasSubstr(cat("\n# Relative paths start at ", fs::current_path().string(), "\n")));
  Values again;
  from_versioned_yaml(text, "train.yml", FOVEA_VERSION, field_views(again));
  EXPECT_EQ(std::tie(again.model, again.text, again.dim_emb, again.train_sets),
            std::tie(values.model, values.text, values.dim_emb, values.train_sets));
  EXPECT_FALSE(again.overwrite);
  EXPECT_FALSE(again.no_reload);
  // It says which version wrote it.
  EXPECT_THAT(message_of([&] { from_versioned_yaml(text, "train.yml", "0.0.0", field_views(again)); }),
              HasSubstr(cat("fovea ", FOVEA_VERSION, " wrote this file")));
}

TEST(RunConfig, LeavesOutWhatYamlCannotHold) {
  Values values = {.text = "\xff", .train_sets = {"a", "\xc3"}};
  const std::string text = run_config(field_views(values));
  EXPECT_THAT(text, AllOf(HasSubstr("# --text is left out"), HasSubstr("# --train-sets is left out")));
  EXPECT_TRUE(is_valid_utf8(text));
  Values again = {.model = "other"};
  from_versioned_yaml(text, "train.yml", FOVEA_VERSION, field_views(again));
  EXPECT_EQ(again.model, "run");
  EXPECT_EQ(again.text, "");
}

TEST(RunConfig, TellsDefaultsFromOtherOptions) {
  Values defaults, values = {.text = "x", .train_sets = {"a", "b"}};
  const train::RunOptions options = run_options(field_views(values), field_views(defaults));
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(options.changed, (Pairs{{"text", "x"}, {"train-sets", "a b"}}));
  EXPECT_EQ(options.defaults,
            (Pairs{{"model", "run"}, {"dim-emb", "8"}, {"overwrite", "false"}, {"no-reload", "false"}}));
  EXPECT_EQ(options.text, run_config(field_views(values)));
}

// A run that was started in `started` under the name `named`, and lies in the test's folder now.
struct MovedRun {
  explicit MovedRun(const std::string& started) {
    fs::create_directory(folder.path() / "now");
    write_file(config_file, cat("# The options\n# Relative paths start at ", started, "\nmodel: run\n"));
    write_file(folder / "now/log.jsonl", "");
  }
  TestFolder folder;
  std::string run = folder / "now", config_file = folder / "now/train.yml";
};

TrainConfig named(const std::string& model, const std::string& log = {}) {
  TrainConfig config;
  config.model = model, config.log = log;
  return config;
}

std::string said(const RunOfConfig& run, const TrainConfig& config) {
  testing::internal::CaptureStderr();
  run.say(config);
  return testing::internal::GetCapturedStderr();
}

TEST(RunOfConfig, IsTheFolderOfTheFile) {
  const MovedRun moved("/elsewhere");
  RunOfConfig run;
  TrainConfig config = named("old/run", "old/run/logs/train.log");
  run.adopt(moved.config_file, config);
  EXPECT_EQ(config.model, moved.run);
  EXPECT_EQ(config.log, moved.run + "/logs/train.log");
  EXPECT_THAT(said(run, config), AllOf(HasSubstr(moved.run), HasSubstr("names 'old/run'")));
  EXPECT_EQ(said(run, named("another")), "") << "the command line named another";
}

TEST(RunOfConfig, ARunThatStayedIsNoNews) {
  const MovedRun run("/elsewhere");
  for (const std::string& model : {std::string(), run.run, run.run + "/"}) {
    RunOfConfig of_config;
    TrainConfig config = named(model);
    of_config.adopt(run.config_file, config);
    EXPECT_EQ(config.model, run.run);
    EXPECT_EQ(said(of_config, config), "") << model;
  }
  // It was started as "now" in the folder that the file names.
  write_file(run.config_file, cat("# Relative paths start at ", run.folder.path().string(), "\nmodel: now\n"));
  RunOfConfig of_config;
  TrainConfig config = named("now");
  of_config.adopt(run.config_file, config);
  EXPECT_EQ(config.model, run.run);
  EXPECT_EQ(said(of_config, config), "");
}

TEST(RunOfConfig, OtherFilesNameTheirRunThemselves) {
  const MovedRun moved("/elsewhere");
  write_file(moved.run + "/copy.yml", "model: run\n");
  TrainConfig config = named("old/run");
  RunOfConfig().adopt(moved.run + "/copy.yml", config);
  EXPECT_EQ(config.model, "old/run");
  fs::remove(moved.run + "/log.jsonl");
  RunOfConfig().adopt(moved.config_file, config);
  EXPECT_EQ(config.model, "old/run") << "no training has begun in the folder";
  fs::create_directory(moved.run + "/checkpoints");
  RunOfConfig().adopt(moved.config_file, config);
  EXPECT_EQ(config.model, moved.run);
}

struct Shape {
  int64_t dim_emb = 8;
  double dropout = 0.1;
  std::string norm = "pre", attention = "full";
  static constexpr auto fields() {
    using C = Shape;
    return std::tuple(field("dim-emb", &C::dim_emb, ""), field("dropout", &C::dropout, ""),
                      choice("norm", &C::norm, "", "pre|post"), field("attention", &C::attention, ""));
  }
};

// A run whose only checkpoint has this shape, and no weights.
struct SavedRun {
  explicit SavedRun(const Shape& shape) {
    const fs::path checkpoint = nn::checkpoint_path(folder.path(), 7);
    fs::create_directories(checkpoint);
    const std::string text = nn::print_config(nn::identity_of("copy", shape, {}));
    write_file(checkpoint / nn::kConfigFile, text);
    write_file(checkpoint / nn::kChecksumFile, nn::print_map({{nn::kConfigFile, checksum(text)}}));
    config = named(folder.path().string());
    config.task = "copy";
  }
  std::string refusal(const Shape& wanted, const std::vector<Texts>& inputs = {{"a.txt"}}) const {
    Shape model = wanted, defaults;
    return message_of([&] { check_existing_run(config, inputs, field_views(model), field_views(defaults)); });
  }
  TestFolder folder;
  TrainConfig config;
};

constexpr const char* kAccepted = "nothing was thrown";

TEST(ExistingRun, RefusesAnotherShape) {
  const SavedRun run({.dim_emb = 16, .norm = "post"});
  EXPECT_EQ(run.refusal({.dim_emb = 16, .norm = "post"}), kAccepted);
  EXPECT_EQ(run.refusal({}), kAccepted) << "a default may follow from the run's data";
  EXPECT_THAT(run.refusal({.dim_emb = 32}), AllOf(StartsWith("--dim-emb: the run in '"), HasSubstr("'16'"),
                                                  HasSubstr("'32'"), HasSubstr("--overwrite")));
  EXPECT_EQ(run.refusal({.dropout = 0.5, .attention = "topk(8)"}), kAccepted) << "neither shapes nor a choice of parts";
  const SavedRun other({.norm = "pre"});
  EXPECT_THAT(other.refusal({.norm = "post"}), StartsWith("--norm: the run in '"));
}

TEST(ExistingRun, RefusesAnotherTask) {
  SavedRun run({});
  run.config.task = "image";
  EXPECT_THAT(run.refusal({}), AllOf(StartsWith("--task: the run in '"), HasSubstr("of the task copy, got image")));
  run.config.overwrite = true;
  EXPECT_EQ(run.refusal({.dim_emb = 32}), kAccepted);
  run.config.overwrite = false, run.config.no_reload = true;
  EXPECT_EQ(run.refusal({.dim_emb = 32}), kAccepted);
  run.config.no_reload = false, run.config.model += "/new";
  EXPECT_EQ(run.refusal({.dim_emb = 32}), kAccepted);
}

TEST(ExistingRun, SaysHowToContinueIfNoDataAreNamed) {
  const SavedRun run({});
  EXPECT_EQ(run.refusal({}, {{""}, {}}), kAccepted) << "there is no train.yml to repeat";
  const std::string options = run.folder / "train.yml";
  write_file(options, "");
  EXPECT_THAT(run.refusal({}, {{""}, {}}), HasSubstr(cat("to continue it: fovea train -c ", options)));
  Shape model;
  EXPECT_THROW(check_existing_run(run.config, {{}}, field_views(model), field_views(model)), UsageError);
  EXPECT_EQ(run.refusal({}, {{""}, {"a.txt"}}), kAccepted);
  EXPECT_EQ(run.refusal({}, {}), kAccepted) << "a task without files";
}

TEST(PathsOfConfig, RelativeOnesStartAtTheCurrentFolder) {
  const TestFolder folder;
  const std::string file = folder / "train.yml", there = folder / "there.txt";
  write_file(there, "");
  const auto refusal = [&](const Texts& sets, const Texts& arguments = {}, bool is_input = true) {
    std::string text = "# Relative paths start at /begun\ntext: none.txt\ntrain-sets: [";
    for (const std::string& set : sets) text += cat("\"", set, "\", ");
    write_file(file, text + "]\n");
    Values values;
    Options options("train", "", "");
    options.add(values, "Values");
    Texts given = {"-c", file};
    given.insert(given.end(), arguments.begin(), arguments.end());
    EXPECT_TRUE(options.parse(given));
    const std::vector<FieldView> fields = field_views(values);
    return message_of([&] { check_paths_of_config(options, fields, {is_input ? values.train_sets : Texts()}); });
  };
  EXPECT_THAT(refusal({there, "no/such.txt"}),
              AllOf(StartsWith(cat("--train-sets: 'no/such.txt' of '", file, "' does not exist")),
                    HasSubstr(fs::current_path().string()), HasSubstr("the run was started in '/begun'")));
  EXPECT_EQ(refusal({there, "", "-", "/no/such.txt"}), kAccepted) << "these do not depend on the folder";
  EXPECT_EQ(refusal({"no/such.txt"}, {"--train-sets", "other.txt"}), kAccepted) << "not the file's";
  EXPECT_EQ(refusal({"no/such.txt"}, {}, false), kAccepted) << "not an input";
}

}  // namespace
}  // namespace fovea::app::run_config_test
