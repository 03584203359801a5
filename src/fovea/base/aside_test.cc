#include "fovea/base/aside.h"

#include <gmock/gmock.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "fovea/base/aside_folder.h"
#include "fovea/base/file.h"
#include "fovea/base/replace.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_aside.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_kills.h"
#include "fovea/base/test_message.h"

namespace fovea::aside_test {
namespace {
namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

void make_file(const fs::path& path, const std::string& content = "x") { std::ofstream(path) << content; }

void make_folder(const fs::path& path, const std::string& content) {
  fs::create_directories(path);
  make_file(path / "file", content);
}

void write_folder(const fs::path& place) {
  AsideFolder aside(place);
  make_folder(aside.path(), "new");
  aside.commit();
}

// By each of the three ways to write one thing.
void write_by(int way, const fs::path& place) {
  if (way == 0) write_file(place, "new");
  if (way == 2) write_folder(place);
  if (way != 1) return;
  LineWriter writer(place);
  writer.write("new");
  writer.close();
}

TEST(Aside, NamesDoNotMakeLeftovers) {
  for (int way = 0; way < 3; ++way) {
    const TestFolder folder;
    const std::vector<std::string> theirs = {
        "out.old2023",     "out.tmp7",    cat("out.tmp", ended_process()), "out.commit5",
        "out.tmp2022.old", "out.partial", ".fovea-0123456789abcdef",       ".fovea-x"};
    for (const std::string& name : theirs) make_folder(folder / name, name);
    make_file(folder / "out.old1999"), make_file(folder / cat("out.old", ended_process()));
    make_file(folder / ".fovea-0123456789abcdee");
    make_folder(folder / ".fovea-0123456789abcded", "x"), make_file(folder / ".fovea-0123456789abcded/mark", "notes");
    fs::create_directory(folder / ".fovea-0123456789abcdec");
    fs::create_symlink(folder / ".fovea-0123456789abcded", folder / ".fovea-0123456789abcdeb");
    std::set<std::string> names = folder.names();
    for (int i = 0; i < 2; ++i) write_by(way, folder / "out");
    names.insert("out");
    EXPECT_EQ(folder.names(), names);
    for (const std::string& name : theirs) EXPECT_EQ(read_file(folder / name + "/file"), name);
    EXPECT_EQ(read_file(folder / ".fovea-0123456789abcded/mark"), "notes");
  }
}

TEST(Aside, WritersRemoveWhatKilledProcessesLeft) {
  for (int way = 0; way < 3; ++way) {
    const TestFolder folder;
    const fs::path left = left_by_killed(folder.path(), [](const MarkedFolder& aside) { make_file(aside / "new"); });
    EXPECT_TRUE(fs::exists(left / "new"));
    write_by(way, folder / "out");
    EXPECT_THAT(folder.names(), ElementsAre("out"));
  }
}

TEST(Aside, WhatALinkInItLeadsToStays) {
  const TestFolder folder, other;
  make_folder(other / "mine", "mine");
  left_by_killed(folder.path(), [&](const MarkedFolder& aside) {
    fs::create_symlink(other / "mine", aside / "new");
    make_folder(aside / "old", "x");
    fs::create_symlink(other / "mine", aside / "old/link");
  });
  write_file(folder / "out", "new");
  EXPECT_THAT(folder.names(), ElementsAre("out"));
  EXPECT_EQ(read_file(other / "mine/file"), "mine");
}

// The processes' numbers do not tell: in containers, each call often has the same.
TEST(Aside, ALockShowsThatAProcessWrites) {
  const TestFolder folder;
  {
    const MarkedFolder ours(folder.path(), "out");
    write_file(folder / "other", "new");
    EXPECT_TRUE(is_marked(ours.path()));
    EXPECT_TRUE(left_folders_in(folder.path()).left.empty());
    EXPECT_TRUE(left_folders_in(folder.path()).may_be_more);
  }
  EXPECT_THAT(folder.names(), ElementsAre("other"));
}

TEST(Aside, TwoProcessesWriteAtOnce) {
  const TestFolder folder;
  std::vector<pid_t> writers;
  for (int writer = 0; writer < 2; ++writer) {
    const pid_t process = fork();
    if (process == 0) {
      for (int i = 0; i < 50; ++i) {
        write_file(folder / "out", std::string(1000, static_cast<char>('a' + writer)));
        write_folder(folder / cat("folder", writer));
      }
      _exit(0);
    }
    writers.push_back(process);
  }
  for (const pid_t process : writers) {
    int status = -1;
    waitpid(process, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_THAT(folder.names(), UnorderedElementsAre("folder0", "folder1", "out"));
  const std::string text = read_file(folder / "out");
  EXPECT_EQ(text, std::string(1000, text.front()));
}

TEST(Aside, WhatIsThereIsNotReplacedByRenamingToANewName) {
  const TestFolder folder;
  make_file(folder / "a"), make_folder(folder / "b", "b"), fs::create_directory(folder / "empty");
  EXPECT_EQ(rename_to_new(folder / "b", folder / "empty"), -1);
  EXPECT_EQ(errno, EEXIST);
  EXPECT_EQ(rename_to_new(folder / "a", folder / "c"), 0);
  EXPECT_THAT(folder.names(), UnorderedElementsAre("b", "c", "empty"));
}

TEST(Aside, PlacesThatCannotBeWrittenAreNamed) {
  const TestFolder folder;
  EXPECT_THAT(message_of([&] { write_file(folder / "none/out", "x"); }), HasSubstr("none/out': No such file"));
  EXPECT_THAT(message_of([&] { LineWriter(folder / "none/out"); }), HasSubstr("none/out': No such file"));
  make_file(folder / "file");
  EXPECT_THAT(message_of([&] { AsideFolder(folder / "file/out"); }), HasSubstr("cannot make the folder '"));
  EXPECT_THAT(message_of([&] { LineWriter(folder / std::string(300, 'x')); }), HasSubstr("': File name too long"));
  EXPECT_THAT(folder.names(), ElementsAre("file"));
}

TEST(Aside, AFolderIsOldOrNewAtEachSystemCall) {
  for (const Exchange exchange : {Exchange::kAsTheSystemDoes, Exchange::kRefused}) {
    const TestFolder folder;
    const fs::path place = folder / "model";
    bool was_old = false, was_new = false, was_missing = false;
    for (int64_t call = 0;; ++call) {
      make_folder(place, "old");
      const Killed killed = kill_at_call(call, exchange, [&] { write_folder(place); });
      if (killed == Killed::kCannotTrace) GTEST_SKIP() << "this system does not let a process trace its child";
      was_missing |= !fs::exists(place);
      finish_killed_replacements({&folder.path(), 1});  // the next call begins so, and may fail afterwards
      ASSERT_TRUE(fs::exists(place / "file")) << "killed at call " << call;
      const std::string content = read_file(place / "file");
      EXPECT_TRUE(content == "old" || content == "new") << "killed at call " << call << ": " << content;
      was_old |= content == "old", was_new |= content == "new";
      write_folder(place);
      EXPECT_EQ(read_file(place / "file"), "new");
      remove_unmarked(folder.path());
      EXPECT_THAT(folder.names(), ElementsAre("model")) << "killed at call " << call;
      if (killed == Killed::kEndedBefore) break;
    }
    EXPECT_TRUE(was_old && was_new) << "no kill came before or after the commit";
    EXPECT_EQ(was_missing, exchange == Exchange::kRefused);
  }
}

}  // namespace
}  // namespace fovea::aside_test
