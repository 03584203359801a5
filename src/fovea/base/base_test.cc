#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <regex>
#include <thread>

#include "fovea/base/error.h"
#include "fovea/base/executor.h"
#include "fovea/base/fields.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/output_target.h"
#include "fovea/base/rng.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"

namespace fovea {
namespace {
namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

struct Folder {
  fs::path path = fs::temp_directory_path() / cat("fovea-base-test-", getpid());
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

TEST(Strings, KnowWhatIsUtf8) {
  for (const std::string_view valid : {"", "a", "\xc2\x80", "gr\xc3\xbc\xc3\x9f", "\xe0\xa0\x80", "\xed\x9f\xbf",
                                       "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
    EXPECT_TRUE(is_valid_utf8(valid)) << valid;
  for (const std::string_view invalid :
       {"\x80", "\xff", "a\xc3", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xe2\x82", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82x", "\xf0\x9f\x98"})
    EXPECT_FALSE(is_valid_utf8(invalid));
}

TEST(Strings, NumbersAndLists) {
  EXPECT_EQ(thousands(-1234567), "-1,234,567");
  EXPECT_EQ(thousands(999), "999");
  EXPECT_EQ(fixed(2.5, 2), "2.50");
  EXPECT_EQ(scientific(0.00023534, 4), "2.3534e-04");
  EXPECT_EQ(shortest(0.1), "0.1");
  EXPECT_THAT(split("a,,b", ','), ElementsAre("a", "", "b"));
  EXPECT_THAT(split_words("  a\tb \n"), ElementsAre("a", "b"));
  EXPECT_EQ(trim(" a b\r\n"), "a b");
}

TEST(Strings, SuggestsTheNearName) {
  const std::vector<std::string> known = {"window", "block", "random"};
  EXPECT_EQ(did_you_mean("windw", known), "; did you mean 'window'?");
  EXPECT_EQ(did_you_mean("zebra", known), "");
  const std::vector<std::string> flags = {
      "--seed",      "--valid-beam-size", "--tied-embeddings-all", "--tied-embeddings", "--normalize",
      "--clip-norm", "--lr-warmup"};
  EXPECT_EQ(nearest("--tied", flags), "--tied-embeddings");
  EXPECT_EQ(nearest("--beam", flags), "--valid-beam-size");
  EXPECT_EQ(nearest("--beam-size", flags), "--valid-beam-size");
  EXPECT_EQ(nearest("--norm", flags), "--normalize");
  EXPECT_EQ(nearest("--warmup", flags), "--lr-warmup");
  EXPECT_EQ(nearest("--sede", flags), "--seed");
  EXPECT_EQ(nearest("--", flags), "");
}

// Two neighbours that changed places are one mistake, the most that a name of four letters may have.
TEST(Strings, SuggestsAcrossATransposition) {
  const std::vector<std::string> known = {"full", "bleu"};
  EXPECT_EQ(did_you_mean("belu", known), "; did you mean 'bleu'?");
  EXPECT_EQ(did_you_mean("lbeu", known), "; did you mean 'bleu'?");
}

// Names in a stranger's file are quoted as they are.
TEST(Error, IsOneLine) {
  EXPECT_STREQ(Error("tensor 'a\r\nb\x1b[31m\x7f\tc' \u00e4").what(), "tensor 'a  b [31m  c' \u00e4");
  EXPECT_STREQ(UsageError("spec, column 1\n  x\n  ^").what(), "spec, column 1\n  x\n  ^");
}

TEST(Fields, RefuseWhatTheirTypeCannotHold) {
  std::vector<int64_t> values;
  const FieldView field = {"sizes", "", -1e300, 1e300, {}, {}, &values};
  assign(field, {"9000000000000000K", "-9G", "9223372036854775807"});
  EXPECT_EQ(values, (std::vector<int64_t>{9'000'000'000'000'000'000, -9'000'000'000, INT64_MAX}));
  for (const std::string text : {"9223372036854775807G", "9223372036854776K", "-9223372036854775808K"})
    EXPECT_EQ(message_of([&] { assign(field, {text}); }), cat("--sizes: got '", text, "'; expected a whole number"));
  EXPECT_EQ(message_of([&] { assign(field, {"1\n2"}); }), "--sizes: got '1 2'; expected a whole number");
}

TEST(Fields, CountTheValuesOfAList) {
  std::vector<std::string> values;
  const FieldView field = {"languages", "", -kNoLimit, kNoLimit, {}, {}, &values, 2};
  assign(field, {"en", "de"});
  EXPECT_EQ(message_of([&] {
              assign(field, {"en", "de", "fr"});
            }),
            "--languages: got 'en de fr'; expected at most 2 values");
}

TEST(Log, TellsTheTimeInEveryJsonObject) {
  const Folder folder;
  const std::string file = folder.path / "log";
  log::configure({.format = log::Format::kJson, .quiet = false, .file = file});
  log::info("a \"word\"");
  log::record("text", R"({"event":"train"})");
  log::configure({});
  const std::vector<std::string> lines = read_lines(file);
  ASSERT_EQ(lines.size(), 2U);
  const std::string time = R"(\{"time":"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\d[+-]\d\d:\d\d",)";
  EXPECT_TRUE(std::regex_match(lines[0], std::regex(time + R"("level":"info","message":"a \\"word\\""\})")))
      << lines[0];
  EXPECT_TRUE(std::regex_match(lines[1], std::regex(time + R"("event":"train"\})"))) << lines[1];
}

// As shells do for their background jobs, and nohup for SIGHUP.
TEST(Signals, ThatWereIgnoredStayIgnored) {
  for (const int signal : kStopSignals) {
    const auto before = std::signal(signal, SIG_IGN);
    install_signal_handlers();
    {
      const StoppableAtOnce stoppable;
      std::raise(signal);
    }
    std::raise(signal);
    EXPECT_EQ(interrupting_signal(), 0);
    std::signal(signal, before);
  }
}

TEST(Signals, AskToStop) {
  for (const auto& [signal, name] : {std::pair(SIGINT, "SIGINT"), std::pair(SIGTERM, "SIGTERM"),
                                     std::pair(SIGHUP, "SIGHUP"), std::pair(SIGUSR1, "SIGUSR1")}) {
    const auto before = std::signal(signal, SIG_DFL);
    install_signal_handlers();
    std::raise(signal);
    EXPECT_EQ(interrupting_signal(), signal);
    try {
      throw_if_interrupted("work");
      ADD_FAILURE() << name;
    } catch (const Interrupted& e) {
      EXPECT_EQ(std::string(e.what()), cat("work stopped by ", name));
    }
    clear_interrupt();
    std::signal(signal, before);
  }
}

TEST(Rng, IsAFunctionOfSeedStreamAndCount) {
  Rng a(1, 2), b(1, 2), c(1, 3);
  const uint64_t first = a();
  EXPECT_EQ(first, b());
  EXPECT_NE(first, c());
  b.seek(0);
  EXPECT_EQ(first, b());
  double sum = 0, squares = 0;
  constexpr int kDraws = 100000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = a.normal();
    sum += x;
    squares += x * x;
  }
  // Five standard errors: 1 / sqrt(n) for the mean, sqrt(2 / n) for the variance.
  EXPECT_NEAR(sum / kDraws, 0, 5 / std::sqrt(kDraws));
  EXPECT_NEAR(squares / kDraws, 1, 5 * std::sqrt(2.0 / kDraws));
}

TEST(Executor, RunsEveryIndexOnceAndPassesExceptionsOn) {
  ThreadExecutor threads(3);
  std::vector<int> calls(1000);
  threads.run(1000, [&](int64_t i, int worker) { calls[i] += worker >= 0 && worker < 3; });
  EXPECT_EQ(std::count(calls.begin(), calls.end(), 1), 1000);
  EXPECT_THROW(threads.run(10,
                           [](int64_t i, int) {
                             if (i == 7) throw Error("seven");
                           }),
               Error);
}

TEST(Executor, StopsAtTheFirstFailure) {
  ThreadExecutor threads(2);
  std::atomic<int> others = 0;
  EXPECT_THROW(threads.run(1000,
                           [&](int64_t i, int) {
                             if (i == 0) throw Error("at once");
                             std::this_thread::sleep_for(std::chrono::milliseconds(1));
                             ++others;
                           }),
               Error);
  EXPECT_LT(others, 999);
}

TEST(File, WritesAsideAndReadsBack) {
  const Folder folder;
  const fs::path file = folder.path / "x";
  write_file(file, "old");
  write_file(file, "new");
  EXPECT_EQ(read_file(file), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path), {}), 1) << "a temporary file was left";
}

// A writer of one line, by either of the two ways.
void write_line(const fs::path& path, bool at_once) {
  if (at_once) {
    write_file(path, "new\n");
    return;
  }
  LineWriter writer(path);
  writer.line("new");
  writer.close();
}

TEST(File, FollowsLinksAndKeepsModes) {
  const Folder folder;
  for (const bool at_once : {true, false}) {
    write_file(folder.path / "real", "old");
    fs::permissions(folder.path / "real", fs::perms::owner_read | fs::perms::owner_write);
    fs::remove(folder.path / "link");
    fs::create_symlink("real", folder.path / "link");
    write_line(folder.path / "link", at_once);
    EXPECT_TRUE(fs::is_symlink(folder.path / "link"));
    EXPECT_EQ(read_file(folder.path / "real"), "new\n");
    EXPECT_EQ(fs::status(folder.path / "real").permissions(), fs::perms::owner_read | fs::perms::owner_write);
    fs::remove(folder.path / "real");  // the link leads nowhere now
    write_line(folder.path / "link", at_once);
    EXPECT_EQ(read_file(folder.path / "real"), "new\n");
  }
}

// As `--output /dev/stdout >> file`: behind what is there, and the file stays.
TEST(File, WritesToOpenDescriptors) {
  const Folder folder;
  for (const bool at_once : {true, false}) {
    const fs::path file = folder.path / "out";
    write_file(file, "old\n");
    const int descriptor = open(file.c_str(), O_WRONLY | O_APPEND);
    fs::remove(folder.path / "link");
    fs::create_symlink(cat("/proc/self/fd/", descriptor), folder.path / "link");
    write_line(cat("/dev/fd/", descriptor), at_once);
    write_line(folder.path / "link", at_once);
    EXPECT_EQ(write(descriptor, "end\n", 4), 4);
    close(descriptor);
    EXPECT_EQ(read_file(file), "old\nnew\nnew\nend\n");
    EXPECT_TRUE(fs::is_symlink(folder.path / "link"));
  }
}

TEST(File, KnowsTwoNamesOfOneOutput) {
  const Folder folder;
  fs::create_symlink("a", folder.path / "link");
  EXPECT_TRUE(is_same_file_to_write(folder.path / "a", folder.path / "." / "a"));
  EXPECT_TRUE(is_same_file_to_write(folder.path / "a", folder.path / "link"));
  EXPECT_FALSE(is_same_file_to_write(folder.path / "a", folder.path / "b"));
  EXPECT_FALSE(is_same_file_to_write("/dev/null", "/dev/null"));
}

// The text of the Error that `action` throws for a user whom permissions bind, which root is not.
std::string message_without_privilege(const std::function<void()>& action) {
  int ends[2] = {-1, -1};
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    const bool bound = geteuid() != 0 || setuid(kNobody) == 0;
    const std::string message = bound ? message_of(action) : "still root";
    _exit(write(ends[1], message.data(), message.size()) < 0 ? 1 : 0);
  }
  close(ends[1]);
  std::string message(1000, '\0');
  message.resize(static_cast<size_t>(std::max<ssize_t>(read(ends[0], message.data(), message.size()), 0)));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return message;
}

TEST(File, WhatIsProtectedIsNotReplaced) {
  const Folder folder;
  const fs::path file = folder.path / "protected";
  write_file(file, "old");
  fs::permissions(folder.path, fs::perms::all);
  fs::permissions(file, fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read);
  if (message_without_privilege([] { throw Error("bound"); }) != "bound") GTEST_SKIP() << "root cannot become another";
  for (const bool at_once : {true, false})
    EXPECT_EQ(message_without_privilege([&] { write_line(file, at_once); }),
              cat("cannot write '", file.string(), "': Permission denied"));
  EXPECT_EQ(message_without_privilege([&] { require_writable("--output", file); }),
            cat("--output: cannot write '", file.string(), "': Permission denied"));
  EXPECT_EQ(read_file(file), "old");
  EXPECT_EQ(message_without_privilege([&] { require_writable("--output", folder.path / "new"); }),
            "nothing was thrown");
}

// Packers end with some bytes more, and their flush tells nobody of a failure.
TEST(Lines, AFullDiskIsAnErrorWhateverPacks) {
  const Folder folder;
  for (const char* name : {"x.gz", "x.bz2", "x.xz", "x.zst", "x"}) {
    fs::create_symlink("/dev/full", folder.path / name);
    for (const int flush_every : {0, 10}) {
      for (const int lines : {3, 20000}) {
        const std::string message = message_of([&] {
          LineWriter out(folder.path / name);
          for (int i = 1; i <= lines; ++i) {
            out.line(cat(i * 7919));
            if (flush_every > 0 && i % flush_every == 0) out.flush();
          }
          out.close();
        });
        EXPECT_THAT(message, HasSubstr("No space left")) << name << ", " << lines << " lines, flush " << flush_every;
      }
    }
  }
}

// A full pipe that nobody reads.
TEST(Lines, StopWaitingForAReaderWhenASignalComes) {
  install_signal_handlers();
  for (const bool before : {true, false}) {
    int ends[2] = {-1, -1};
    ASSERT_EQ(pipe(ends), 0);
    const pthread_t writer = pthread_self();
    if (before) pthread_kill(writer, SIGTERM);
    std::thread signal([&] {
      if (before) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      pthread_kill(writer, SIGTERM);
    });
    EXPECT_THROW(
        {
          LineWriter out(cat("/dev/fd/", ends[1]));
          for (;;) out.line(std::string(10000, 'x'));
        },
        Interrupted);
    signal.join();
    clear_interrupt();
    close(ends[0]), close(ends[1]);
  }
}

TEST(File, SaysWhatIsWrong) {
  const Folder folder;
  EXPECT_THAT(message_of([&] { read_file(folder.path / "none"); }), HasSubstr("no such file"));
  EXPECT_THAT(message_of([&] { read_file(folder.path); }), HasSubstr("is a folder"));
  EXPECT_THAT(message_of([&] { write_file("/dev/full", "x"); }), HasSubstr("No space left"));
  EXPECT_THAT(message_of([&] {
                LineWriter out("/dev/full");
                out.line("x");
                out.close();
              }),
              HasSubstr("No space left"));
}

TEST(Lines, UnpackByContentAndKeepOddEnds) {
  const Folder folder;
  using std::string_view_literals::operator""sv;
  for (const auto& [ending, magic] : {std::pair("gz", "\x1f\x8b"sv), std::pair("bz2", "BZh"sv),
                                      std::pair("xz",
                                                "\xfd"
                                                "7zXZ"sv),
                                      std::pair("zst", "\x28\xb5\x2f\xfd"sv)}) {
    const std::string packed = folder.path / cat("x.", ending);
    {
      LineWriter out(packed);
      out.write("a\r\n\nlast");
      out.close();
    }
    const std::string bytes = read_file(packed);
    EXPECT_EQ(bytes.substr(0, magic.size()), magic) << ending;
    EXPECT_THAT(read_lines(packed), ElementsAre("a", "", "last"));
    write_file(packed, bytes + bytes);  // as cat makes them
    EXPECT_THAT(read_lines(packed), ElementsAre("a", "", "lasta", "", "last"));
    for (const size_t size : {bytes.size() / 2, bytes.size() - 1}) {
      write_file(packed, bytes.substr(0, size));
      EXPECT_THAT(message_of([&] { read_lines(packed); }), HasSubstr("damaged or cut short")) << ending << " " << size;
    }
  }
}

// More than any buffer holds.
TEST(Lines, UnpackLongText) {
  const Folder folder;
  std::string text;
  Rng rng(3);
  for (int i = 0; i < 200'000; ++i) text += cat(rng.below(1'000'000), "\n");
  for (const char* ending : {"gz", "zst"}) {
    const std::string packed = folder.path / cat("x.", ending);
    LineWriter out(packed);
    out.write(text);
    out.close();
    EXPECT_EQ(join(read_lines(packed), "\n") + "\n", text) << ending;
  }
}

// A frame that ends where a reader's buffer of 2^16 bytes is full.
TEST(Lines, UnpackWholeBuffers) {
  const Folder folder;
  for (const size_t size : {size_t{1} << 15, size_t{1} << 16, size_t{1} << 17}) {
    for (const char* ending : {"gz", "zst"}) {
      const std::string packed = folder.path / cat(size, ".", ending);
      LineWriter out(packed);
      out.write(std::string(size - 1, 'x') + "\n");
      out.close();
      EXPECT_EQ(read_lines(packed).at(0).size(), size - 1) << packed;
    }
  }
}

TEST(Lines, AppearOnlyWhenClosed) {
  const Folder folder;
  { LineWriter(folder.path / "x").line("a"); }
  EXPECT_TRUE(fs::is_empty(folder.path));
}

}  // namespace
}  // namespace fovea
