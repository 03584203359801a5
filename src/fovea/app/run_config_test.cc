#include "fovea/app/run_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
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
  run.say(config, Options("train", "", ""));
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
  std::vector<int64_t> sizes = {};
  static constexpr auto fields() {
    using C = Shape;
    return std::tuple(field("dim-emb", &C::dim_emb, ""), field("dropout", &C::dropout, ""),
                      choice("norm", &C::norm, "", "pre|post"), field("attention", &C::attention, ""),
                      field("sizes", &C::sizes, ""));
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
  // The options that are not the defaults are given. `model` gets the rest from the run.
  void complete(Shape& model, const std::vector<Texts>& inputs = {{"a.txt"}}) const {
    Shape defaults;
    const std::vector<FieldView> fields = field_views(model), usual = field_views(defaults);
    std::set<std::string_view> given;
    for (size_t i = 0; i < fields.size(); ++i)
      if (values_of(fields[i]) != values_of(usual[i])) given.insert(fields[i].name);
    take_options_of_run(config, inputs, fields, [&](std::string_view name) { return given.contains(name); });
  }
  std::string refusal(const Shape& wanted, const std::vector<Texts>& inputs = {{"a.txt"}}) const {
    Shape model = wanted;
    return message_of([&] { complete(model, inputs); });
  }
  TestFolder folder;
  TrainConfig config;
};

constexpr const char* kAccepted = "nothing was thrown";

TEST(ExistingRun, RefusesAnotherModelWithAllDifferences) {
  const SavedRun run({.dim_emb = 16, .norm = "post"});
  const std::string folder = run.config.model;
  EXPECT_EQ(run.refusal({.dim_emb = 16, .norm = "post"}), kAccepted);
  EXPECT_EQ(run.refusal({.dim_emb = 32}),
            cat("--dim-emb: the run in '", folder,
                "' was made with '16', got '32'; to continue the run, leave this option "
                "out; for another model, another --model, or --overwrite to begin again"));
  write_file(folder + "/train.yml", "");
  EXPECT_EQ(run.refusal({.dim_emb = 32, .dropout = 0.5, .attention = "topk(8)"}),
            cat("--dim-emb: the run in '", folder,
                "' was made with '16', got '32'; --dropout: '0.1', got '0.5'; "
                "--attention: 'full', got 'topk(8)'; to continue the run, fovea train -c ",
                folder, "/train.yml; for another model, another --model, or --overwrite to begin again"));
}

TEST(ExistingRun, GivesTheOptionsThatAreNotNamed) {
  const SavedRun run({.dim_emb = 16, .dropout = 0.3, .norm = "post", .attention = "topk(8)", .sizes = {5}});
  Shape model;
  run.complete(model);
  EXPECT_EQ(model.dim_emb, 16);
  EXPECT_EQ(model.dropout, 0.3);
  EXPECT_EQ(model.norm, "post");
  EXPECT_EQ(model.attention, "topk(8)");
  EXPECT_TRUE(model.sizes.empty()) << "sizes follow from the data";
  model = {.attention = "topk(8)+softmax"};
  run.complete(model);
  EXPECT_EQ(model.attention, "topk(8)+softmax") << "another spelling of the same";
}

TEST(ExistingRun, GivesTheBiasThatItSetForASigmoid) {
  const SavedRun run({.attention = "topk(8)+sigmoid(-4.5)"});
  Shape model = {.attention = "topk(8)+sigmoid"};
  run.complete(model);
  EXPECT_EQ(model.attention, "topk(8)+sigmoid(-4.5)");
  EXPECT_THAT(run.refusal({.attention = "topk(8)+sigmoid(-4)"}), HasSubstr("'topk(8)+sigmoid(-4.5)', got"));
  EXPECT_THAT(run.refusal({.attention = "topk(9)+sigmoid"}), HasSubstr("'topk(8)+sigmoid(-4.5)', got"));
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
  EXPECT_THROW(run.complete(model, {{}}), UsageError);
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
