#include "fovea/base/output_target.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"

namespace fovea::output_target_test {
namespace {
namespace fs = std::filesystem;

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

TEST(OutputTarget, FollowsLinksAndKeepsModes) {
  const TestFolder folder;
  for (const bool at_once : {true, false}) {
    write_file(folder / "real", "old");
    fs::permissions(folder / "real", fs::perms::owner_read | fs::perms::owner_write);
    fs::remove(folder / "link");
    fs::create_symlink("real", folder / "link");
    write_line(folder / "link", at_once);
    EXPECT_TRUE(fs::is_symlink(folder / "link"));
    EXPECT_EQ(read_file(folder / "real"), "new\n");
    EXPECT_EQ(fs::status(folder / "real").permissions(), fs::perms::owner_read | fs::perms::owner_write);
    fs::remove(folder / "real");  // the link leads nowhere now
    write_line(folder / "link", at_once);
    EXPECT_EQ(read_file(folder / "real"), "new\n");
  }
}

// Like `--output /dev/stdout >> file`: the output goes behind the present text, and the file stays.
TEST(OutputTarget, WritesToOpenDescriptors) {
  const TestFolder folder;
  for (const bool at_once : {true, false}) {
    const fs::path file = folder / "out";
    write_file(file, "old\n");
    const int descriptor = open(file.c_str(), O_WRONLY | O_APPEND);
    fs::remove(folder / "link");
    fs::create_symlink(cat("/proc/self/fd/", descriptor), folder / "link");
    write_line(cat("/dev/fd/", descriptor), at_once);
    write_line(folder / "link", at_once);
    EXPECT_EQ(write(descriptor, "end\n", 4), 4);
    close(descriptor);
    EXPECT_EQ(read_file(file), "old\nnew\nnew\nend\n");
    EXPECT_TRUE(fs::is_symlink(folder / "link"));
  }
}

TEST(OutputTarget, KnowsTwoNamesOfOneOutput) {
  const TestFolder folder;
  fs::create_symlink("a", folder / "link");
  EXPECT_TRUE(is_same_file_to_write(folder / "a", folder / "./a"));
  EXPECT_TRUE(is_same_file_to_write(folder / "a", folder / "link"));
  EXPECT_FALSE(is_same_file_to_write(folder / "a", folder / "b"));
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

TEST(OutputTarget, WhatIsProtectedIsNotReplaced) {
  const TestFolder folder;
  const fs::path file = folder / "protected";
  write_file(file, "old");
  fs::permissions(folder.path(), fs::perms::all);
  fs::permissions(file, fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read);
  if (message_without_privilege([] { throw Error("bound"); }) != "bound") GTEST_SKIP() << "root cannot become another";
  for (const bool at_once : {true, false})
    EXPECT_EQ(message_without_privilege([&] { write_line(file, at_once); }),
              cat("cannot write '", file.string(), "': Permission denied"));
  EXPECT_EQ(message_without_privilege([&] { require_writable("--output", file); }),
            cat("--output: cannot write '", file.string(), "': Permission denied"));
  EXPECT_EQ(read_file(file), "old");
  EXPECT_EQ(message_without_privilege([&] { require_writable("--output", folder / "new"); }), "nothing was thrown");
}

}  // namespace
}  // namespace fovea::output_target_test
