#include "fovea/base/aside.h"

#include <gmock/gmock.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_kills.h"
#include "fovea/base/test_message.h"

namespace fovea::aside_test {
namespace {
namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

// The number of a process that has ended.
pid_t ended_process() {
  const pid_t process = fork();
  if (process == 0) _exit(0);
  waitpid(process, nullptr, 0);
  return process;
}

// Writes the file directly, because write_file() removes leftovers.
void make_file(const fs::path& path) { std::ofstream(path) << "x"; }

void make_folder(const fs::path& path, const std::string& content) {
  fs::create_directories(path);
  std::ofstream(path / "file") << content;
}

TEST(Aside, ReplacesFoldersWhole) {
  const TestFolder folder;
  const fs::path finished = folder / "new", place = folder / "old";
  fs::create_directory(finished), fs::create_directory(place);
  write_file(finished / "a", "1"), write_file(place / "b", "2");
  replace_folder(finished, place);
  EXPECT_EQ(read_file(place / "a"), "1");
  EXPECT_THAT(names_in(place), ElementsAre("a"));
  EXPECT_THAT(folder.names(), ElementsAre("old"));
  EXPECT_THAT(message_of([&] { replace_folder(folder / "none", place); }), HasSubstr("rename onto"));
  EXPECT_EQ(read_file(place / "a"), "1") << "what was there did not come back";
  EXPECT_THAT(folder.names(), ElementsAre("old"));
}

TEST(Aside, WritersRemoveWhatKilledProcessesLeft) {
  const pid_t gone = ended_process();
  for (const bool at_once : {true, false}) {
    const TestFolder folder;
    const std::string alive = cat("out.tmp", getppid()), other = cat("other.tmp", gone);
    for (const std::string& name : {cat("out.tmp", gone), cat("out.old", gone), alive, other, std::string("out.tmpl"),
                                    cat("out.tmp", gone, "x"), std::string("out.tmp20261125")})
      make_file(folder / name);
    fs::create_symlink("/nowhere", folder / cat("out.tmp", ended_process()));
    if (at_once) write_file(folder / "out", "new");
    if (!at_once) {
      LineWriter writer(folder / "out");
      writer.write("new");
      writer.close();
    }
    EXPECT_EQ(read_file(folder / "out"), "new");
    EXPECT_THAT(folder.names(),
                UnorderedElementsAre("out", alive, other, "out.tmpl", cat("out.tmp", gone, "x"), "out.tmp20261125"));
  }
}

TEST(Aside, ALockShowsThatAProcessElsewhereWrites) {
  const TestFolder folder;
  const std::string theirs = folder / cat("out.tmp", ended_process());  // as of a container with numbers of its own
  const int file = create_aside(theirs);
  ASSERT_GE(file, 0);
  write_file(folder / "out", "new");
  EXPECT_TRUE(fs::exists(theirs));
  close(file);
  write_file(folder / "out", "new");
  EXPECT_FALSE(fs::exists(theirs));
}

// In containers, each call often has the same number.
TEST(Aside, TheNumberOfThisProcessIsNotALife) {
  const TestFolder folder;
  const fs::path place = folder / "out", aside = aside_of(place, kNewAside);
  std::ofstream(aside) << "of an earlier process";
  EXPECT_TRUE(is_abandoned(aside, getpid()));
  write_file(place, "new");
  EXPECT_THAT(folder.names(), ElementsAre("out"));
  const int file = create_aside(aside);
  ASSERT_GE(file, 0);
  EXPECT_FALSE(is_abandoned(aside, getpid()));
  EXPECT_THAT(message_of([&] { write_file(place, "other"); }), HasSubstr("Device or resource busy"));
  close(file);
}

TEST(Aside, ALinkInItsPlaceIsNotFollowed) {
  const TestFolder folder;
  write_file(folder / "elsewhere", "mine");
  fs::create_symlink("elsewhere", aside_of(folder / "out", kNewAside));
  write_file(folder / "out", "new");
  EXPECT_EQ(read_file(folder / "elsewhere"), "mine");
  EXPECT_THAT(folder.names(), UnorderedElementsAre("elsewhere", "out"));
}

TEST(Aside, AFolderIsOldOrNewAtEachSystemCall) {
  for (const Exchange exchange : {Exchange::kAsTheSystemDoes, Exchange::kRefused}) {
    const TestFolder folder;
    const fs::path place = folder / "model";
    const auto write = [&] {
      AsideFolder aside(place);
      make_folder(aside.path(), "new");
      aside.commit();
    };
    bool was_old = false, was_new = false, was_missing = false;
    for (int64_t call = 0;; ++call) {
      make_folder(place, "old");
      const Killed killed = kill_at_call(call, exchange, write);
      if (killed == Killed::kCannotTrace) GTEST_SKIP() << "this system does not let a process trace its child";
      was_missing |= !fs::exists(place);
      restore_folder(place);  // the next call begins so, and may fail afterwards
      ASSERT_TRUE(fs::exists(place / "file")) << "killed at call " << call;
      const std::string content = read_file(place / "file");
      EXPECT_TRUE(content == "old" || content == "new") << "killed at call " << call << ": " << content;
      was_old |= content == "old", was_new |= content == "new";
      write();
      EXPECT_EQ(read_file(place / "file"), "new");
      EXPECT_THAT(folder.names(), ElementsAre("model")) << "killed at call " << call;
      if (killed == Killed::kEndedBefore) break;
    }
    EXPECT_TRUE(was_old && was_new) << "no kill came before or after the commit";
    EXPECT_EQ(was_missing, exchange == Exchange::kRefused);
  }
}

TEST(Aside, AUsersOwnCopyStays) {
  const TestFolder folder;
  const std::string copy = cat("model.old", ended_process());
  make_folder(folder / copy, "the user's");
  for (int i = 0; i < 2; ++i) {
    AsideFolder aside(folder / "model");
    make_folder(aside.path(), "new");
    aside.commit();
    EXPECT_EQ(read_file(folder / copy + "/file"), "the user's");
    EXPECT_EQ(read_file(folder / "model/file"), "new");
  }
}

}  // namespace
}  // namespace fovea::aside_test
