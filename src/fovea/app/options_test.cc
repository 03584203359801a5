#include "fovea/app/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"

namespace fovea::app::options_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Texts = std::vector<std::string>;

struct Drawing {
  int64_t length = 16, mini_batch = 64;
  double scale = 1;
  bool causal = false;
  std::string kind = "self", model, output = "-";
  Texts sets;
  std::vector<double> tau = {1};

  static constexpr auto fields() {
    using C = Drawing;
    return std::tuple(
        named(number("length", &C::length, "queries and keys", 1, 4096), "l,size"),
        number("mini-batch", &C::mini_batch, "pictures computed together", 1, 1000),
        field("scale", &C::scale, "factor of the scores"), field("causal", &C::causal, "no key after its query"),
        choice("kind", &C::kind, "kind of the attention", "self|cross"),
        named("model", &C::model, "folder of a run", "m"), named("output", &C::output, "where the picture goes", "o"),
        at_most(2, named("sets", &C::sets, "texts", "t")), field("tau", &C::tau, "powers"));
  }
};

// The options of another choice: one that Drawing has not, one that it has in other words, one that it has.
struct Other {
  int64_t segment_length = 0;
  double scale = 1;
  bool causal = false;
  static constexpr auto fields() {
    return std::tuple(field("segment-length", &Other::segment_length, "units in a segment"),
                      field("scale", &Other::scale, "factor of the losses"),
                      field("causal", &Other::causal, "no key after its query"));
  }
};

struct Command {
  Drawing config;
  Other other;
  Options options = Options("draw", "Draws a mechanism.", "SPEC");

  Command() {
    options.add(config, "Drawing");
    options.add_other("--task other", field_views(other));
  }
};

Drawing read(const Texts& arguments) {
  Command command;
  EXPECT_TRUE(command.options.parse(arguments));
  return command.config;
}

std::string error(const Texts& arguments) {
  return message_of([&] { read(arguments); });
}

// The words of the refusal, which must be a UsageError, because that decides the exit code.
std::string usage_error(const Texts& arguments) {
  Command command;
  try {
    command.options.parse(arguments);
  } catch (const UsageError& e) {
    return e.what();
  }
  return "no UsageError";
}

std::string printed(const Texts& arguments) {
  unsetenv("COLUMNS");  // help for programs, whose lines are whole
  Command command;
  testing::internal::CaptureStdout();
  const bool is_to_run = command.options.parse(arguments);
  std::string text = testing::internal::GetCapturedStdout();
  EXPECT_FALSE(is_to_run);
  return text;
}

TEST(Options, TakeEverySpelling) {
  for (const Texts& arguments :
       std::vector<Texts>{{"--length", "8"}, {"--length=8"}, {"-l", "8"}, {"-l8"}, {"--size=8"}})
    EXPECT_EQ(read(arguments).length, 8) << join(arguments, " ");
  EXPECT_EQ(read({"--mini_batch", "8", "--model=a_b"}).mini_batch, 8);
  EXPECT_EQ(read({"--mini_batch=8", "--model=a_b"}).model, "a_b");
  EXPECT_EQ(read({"--length", "2K"}).length, 2000);
  EXPECT_TRUE(read({"--causal"}).causal);
  EXPECT_FALSE(read({"--causal=false"}).causal);
}

TEST(Options, RepeatedOnesHaveTheLastValueAndListsAllValues) {
  const Drawing config =
      read({"--length", "8", "-t", "a", "--length", "9", "--sets", "b", "--tau", "1", "2", "--tau", "3"});
  EXPECT_EQ(config.length, 9);
  EXPECT_EQ(config.sets, (Texts{"a", "b"}));
  EXPECT_EQ(config.tau, (std::vector<double>{1, 2, 3}));
}

TEST(Options, LaterFilesWinAndTheCommandLineWinsOverAll) {
  const TestFolder folder;
  const std::string first = folder / "first.yml", second = folder / "second.yml";
  write_file(first, "length: 4\nscale: 2\nkind: cross\nsets: [a, b]\n");
  write_file(second, "length: 5\nmini_batch: 3\nsets: [c]\n");
  Texts seen;
  Command command;
  command.options.after_config([&](const std::string& path) {
    seen.push_back(cat(path, " ", command.config.length));
    command.config.tau = {7};
  });
  ASSERT_TRUE(command.options.parse({"--scale", "9", "-c", first, "--config", second}));
  EXPECT_EQ(seen, (Texts{cat(first, " 4"), cat(second, " 5")}));
  EXPECT_EQ(command.config.length, 5);
  EXPECT_EQ(command.config.mini_batch, 3);
  EXPECT_EQ(command.config.scale, 9);
  EXPECT_EQ(command.config.kind, "cross");
  EXPECT_EQ(command.config.sets, Texts{"c"});
  EXPECT_EQ(command.config.tau, std::vector<double>{7});
  EXPECT_EQ(command.options.config_of("kind"), first);
  EXPECT_EQ(command.options.config_of("length"), second);
  EXPECT_EQ(command.options.config_of("scale"), std::nullopt) << "the command line gave it";
  EXPECT_EQ(command.options.config_of("causal"), std::nullopt) << "no file has it";
}

TEST(Options, FilesAreRefusedWithTheirNames) {
  const TestFolder folder;
  const std::string file = folder / "draw.yml";
  const auto refusal = [&](const std::string& text) {
    write_file(file, text);
    return error({"-c", file});
  };
  EXPECT_THAT(refusal("lenght: 4\n"),
              AllOf(StartsWith(file), HasSubstr("'lenght'"), HasSubstr("did you mean 'length'?")));
  EXPECT_THAT(refusal("segment-length: 4\n"), HasSubstr("; it is an option of --task other"));
  EXPECT_THAT(refusal("length: 0\n"), AllOf(StartsWith(file), HasSubstr("at least 1 and at most 4,096")));
  EXPECT_THAT(refusal("fovea-version: 999.0.0\nlength: 4\n"), HasSubstr("fovea 999.0.0 wrote this file"));
  EXPECT_EQ(refusal(cat("fovea-version: ", FOVEA_VERSION, "\nlength: 4\n")), "nothing was thrown");
  EXPECT_THAT(error({"-c", folder / "none.yml"}), AllOf(StartsWith("--config"), HasSubstr("none.yml")));
}

TEST(Options, UnknownOnesLeadToKnownOnes) {
  EXPECT_EQ(usage_error({"--lenght", "3"}), "unknown option '--lenght'; did you mean '--length'?");
  EXPECT_EQ(usage_error({"--mini_bach", "3"}), "unknown option '--mini-bach'; did you mean '--mini-batch'?");
  EXPECT_EQ(
      usage_error({"--batch-size", "3"}),
      "unknown option '--batch-size'; did you mean '--mini-batch'? It counts sentences; --mini-batch-words counts "
      "tokens")
      << "the name in OpenNMT";
  EXPECT_EQ(usage_error({"--lenpen", "3"}), "unknown option '--lenpen'; see fovea draw --help")
      << "this command has no --normalize";
  EXPECT_EQ(usage_error({"--segment-length", "3"}),
            "'--segment-length' is an option of --task other; see fovea draw --help");
}

TEST(Options, ValuesAreRefusedByTheNameOfTheirOption) {
  EXPECT_EQ(usage_error({"--length", "x"}),
            "--length: got 'x'; expected a whole number of at least 1 and at most 4,096");
  EXPECT_EQ(usage_error({"--kind", "slef"}), "--kind: got 'slef'; expected one of self, cross; did you mean 'self'?");
  EXPECT_EQ(usage_error({"--causal=1.5"}), "--causal: got '1.5'; expected true or false");
  EXPECT_EQ(usage_error({"--length"}), "--length: got no value; expected one after it; see fovea draw --help");
  EXPECT_EQ(usage_error({"--length", "--causal"}), "--length: got no value, but --causal next; see fovea draw --help");
  EXPECT_EQ(usage_error({"-l"}), "--length: got no value; expected one after it; see fovea draw --help")
      << "by the name, not by an alias";
  EXPECT_EQ(usage_error({"-t", "a", "-t", "b", "-t", "c"}),
            "--sets: got 3 values; expected at most 2; see fovea draw --help");
}

TEST(Options, OutputChangesNoFileOfAConfigurationOrCheckpoint) {
  const TestFolder folder;
  const std::string file = folder / "draw.yml", link = folder / "link";
  write_file(file, "length: 4\n");
  std::filesystem::create_symlink(file, link);
  for (const std::string& output : {file, link})
    EXPECT_THAT(error({"-c", file, "-o", output}), StartsWith(cat("--output: '", output, "' is read too")));
  write_file(folder / "checksums.yml", "a.txt: \"0123456789abcdef\"\n");
  for (const char* name : {"config.yml", "model.safetensors", "a.txt"})
    EXPECT_THAT(error({"-o", folder / name}), HasSubstr("is a checkpoint's and would be changed")) << name;
  EXPECT_EQ(read({"-o", folder / "b.txt"}).output, folder / "b.txt");
}

TEST(Options, DumpedOnesAreReadBack) {
  const Texts given = {"-l",    "7",       "--scale",         "0.1",    "--causal", "--kind",
                       "cross", "--model", "1: \"#\\ \u4f60", "--sets", "",         "true"};
  const TestFolder folder;
  const std::string file = folder / "draw.yml";
  Texts dumping = given;
  dumping.emplace_back("--dump-config");
  write_file(file, printed(dumping));
  Drawing direct = read(given), again = read({"--config", file});
  const std::vector<FieldView> wanted = field_views(direct), found = field_views(again);
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(values_of(found[i]), values_of(wanted[i])) << wanted[i].name;
  EXPECT_EQ(printed({"--dump-config", "-c", file}), read_file(file));
  EXPECT_THAT(error({"--dump-config", "--model", "\xff"}),
              AllOf(StartsWith("--dump-config: the value of --model"), HasSubstr("not UTF-8")));
}

TEST(Options, HelpTellsOtherChoicesApart) {
  const std::string all = printed({"--help-all"});
  const size_t begin = all.find("With --task other, where it differs:");
  ASSERT_NE(begin, std::string::npos);
  EXPECT_THAT(all.substr(begin),
              AllOf(HasSubstr("--segment-length"), HasSubstr("factor of the losses"), Not(HasSubstr("--causal"))));
}

TEST(Peek, TakesTheLineBeforeTheLastFileThatHasTheOption) {
  const TestFolder folder;
  const std::string first = folder / "first.yml", second = folder / "second.yml", wrong = folder / "wrong.yml";
  write_file(first, "model: a\ntask: language\n");
  write_file(second, "m: b\n");
  write_file(wrong, "model: [\n");
  EXPECT_EQ(peek({"--model", "x", "-c", first}, "model", 'm'), "x");
  EXPECT_EQ(peek({"-c", first, "-m", "x"}, "model", 'm'), "x");
  EXPECT_EQ(peek({"-c", first, cat("--config=", second)}, "model", 'm'), "b");
  EXPECT_EQ(peek({"-c", second, "-c", first}, "model", 'm'), "a");
  EXPECT_EQ(peek({"-c", first, "-c", second}, "task"), "language");
  EXPECT_EQ(peek({"-c", first, "-c", wrong}, "model", 'm'), "a") << "parse() will report the other file";
  EXPECT_EQ(peek({"-c", second}, "task"), std::nullopt);
}

TEST(Peek, KnowsTheSpellingsOfTheLine) {
  EXPECT_EQ(peek({"--model", "a", "--model=b"}, "model", 'm'), "b");
  EXPECT_EQ(peek({"--dim_emb", "8"}, "dim-emb"), "8");
  EXPECT_EQ(peek({"-mrun"}, "model", 'm'), "run");
  EXPECT_EQ(peek({"-o", "-mrun", "-m", "a"}, "model", 'm'), "a") << "-mrun may be the value of -o";
  EXPECT_EQ(peek({"--model-name", "a", "model", "b"}, "model"), std::nullopt);
  EXPECT_EQ(peek({"--model"}, "model", 'm'), std::nullopt);
  EXPECT_EQ(peek({}, "model", 'm'), std::nullopt);
}

}  // namespace
}  // namespace fovea::app::options_test
