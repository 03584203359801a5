#include "fovea/app/task_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "fovea/app/commands.h"
#include "fovea/app/torch.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/checkpoint_reader.h"

// The program without libtorch: a command whose options are right asks for the library.
namespace fovea::app::task_commands_test {
namespace {

using tasks::TaskEntry;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Texts = std::vector<std::string>;

// A checkpoint of this task without weights or configuration.
struct CheckpointOf {
  explicit CheckpointOf(const std::string& task) {
    const std::string config = nn::print_config({.task = task, .config = {}, .files = {}});
    write_file(folder.path() / nn::kConfigFile, config);
    write_file(folder.path() / nn::kChecksumFile, nn::print_map({{nn::kConfigFile, checksum(config)}}));
  }
  std::string model() const { return folder.path(); }
  TestFolder folder;
};

std::string refusal(CommandMaker maker, const Texts& arguments) {
  return message_of([&] { run_task_command(maker, arguments); });
}

template <class Run>
std::string printed(const Run& run) {
  unsetenv("COLUMNS");  // help for programs, whose lines are whole
  testing::internal::CaptureStdout();
  const int code = run();
  std::string text = testing::internal::GetCapturedStdout();
  EXPECT_EQ(code, 0);
  return text;
}

std::string printed(CommandMaker maker, const Texts& arguments) {
  return printed([&] { return run_task_command(maker, arguments); });
}

TEST(TaskCommands, TakeTheOptionsOfTheModelsTask) {
  const CheckpointOf language("language"), tagging("tagging");
  EXPECT_THROW(run_task_command(&TaskEntry::score, {"--model", language.model(), "--stride", "3"}), NeedsTorch);
  EXPECT_THROW(run_task_command(&TaskEntry::score, {"-m", tagging.model(), "--label-column", "3"}), NeedsTorch);
  EXPECT_THAT(refusal(&TaskEntry::score, {"--model", tagging.model(), "--stride", "3"}),
              StartsWith("'--stride' is an option of a model of the task language"));
  const std::string file = language.folder / "score.yml";
  write_file(file, cat("model: ", language.model(), "\nstride: 3\n"));
  EXPECT_THROW(run_task_command(&TaskEntry::score, {"-c", file}), NeedsTorch) << "the file names the model";
}

TEST(TaskCommands, RefuseModelsOfOtherTasks) {
  const CheckpointOf tagging("tagging");
  EXPECT_EQ(
      refusal(&TaskEntry::translate, {"--model", tagging.model()}),
      cat("--model: '", tagging.model(), "' is a model of the task tagging; expected one of the task translation"));
  EXPECT_EQ(refusal(&TaskEntry::report, {"--model", tagging.model()}),
            cat("--model: '", tagging.model(),
                "' is a model of the task tagging; expected one of the tasks translation, language"));
}

TEST(TaskCommands, RefuseAModelThatIsNotThereIfItDecides) {
  const TestFolder folder;
  const std::string missing = folder / "none";
  EXPECT_THAT(refusal(&TaskEntry::score, {"--model", missing}), AllOf(StartsWith("--model"), HasSubstr(missing)));
  EXPECT_THROW(run_task_command(&TaskEntry::tag, {"--model", missing}), NeedsTorch) << "taggers alone tag";
}

TEST(TaskCommands, HelpForTheModelsTaskOrTheFirst) {
  const CheckpointOf language("language"), tagging("tagging");
  EXPECT_THAT(printed(&TaskEntry::score, {"--help", "-m", language.model()}),
              AllOf(HasSubstr("Options for models of the task language:"), HasSubstr("--stride")));
  for (const Texts& model : std::vector<Texts>{{}, {"-m", "/none"}, {"-m", tagging.model()}}) {
    Texts arguments = {"--help"};
    arguments.insert(arguments.end(), model.begin(), model.end());
    EXPECT_THAT(printed(&TaskEntry::report, arguments),
                AllOf(HasSubstr("For models of the tasks translation, language."),
                      HasSubstr("Options for models of the task translation:")));
  }
  EXPECT_THAT(printed(&TaskEntry::translate, {"--help"}),
              AllOf(HasSubstr("For models of the task translation."), HasSubstr("\nOptions:\n"),
                    Not(HasSubstr("--help-all shows"))));
}

// Each task's command is reached by a line of the one list, whose help begins with its own usage.
TEST(Commands, AllHelp) {
  for (const Command& command : commands()) {
    EXPECT_THAT(printed([&] { return command.run({"--help"}); }), HasSubstr(cat("Usage: fovea ", command.name, " ")));
    EXPECT_THAT(message_of([&] { command.run({"--no-such-option"}); }), HasSubstr("unknown option '--no-such-option'"))
        << command.name;
  }
}

}  // namespace
}  // namespace fovea::app::task_commands_test
