#include "fovea/base/file_set.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "fovea/base/file.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_kills.h"
#include "fovea/base/test_message.h"

namespace fovea::file_set_test {
namespace {
namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class FileSetTest : public testing::Test {
 protected:
  FileSetTest() {
    write_file(folder_ / "a", "old a");
    write_file(folder_ / "b", "old b");
  }
  std::vector<fs::path> paths() const { return {folder_ / "a", folder_ / "b"}; }
  TestFolder folder_;
};

TEST_F(FileSetTest, AppearTogether) {
  FileSet files(paths());
  files.begin(folder_ / "a");
  files.append(std::string(200'000, 'x'));
  files.begin(folder_ / "b");
  files.append("new ");
  files.append("b");
  EXPECT_EQ(read_file(folder_ / "a"), "old a");
  files.commit();
  EXPECT_EQ(read_file(folder_ / "a"), std::string(200'000, 'x'));
  EXPECT_EQ(read_file(folder_ / "b"), "new b");
  EXPECT_THAT(folder_.names(), ElementsAre("a", "b"));
}

TEST_F(FileSetTest, WithoutCommitNothingChanges) {
  {
    FileSet files(paths());
    files.begin(folder_ / "a");
    files.append("new a");
    files.begin(folder_ / "b");
  }
  EXPECT_EQ(read_file(folder_ / "a"), "old a");
  EXPECT_THAT(folder_.names(), ElementsAre("a", "b"));
}

TEST_F(FileSetTest, WhereOneCannotBePutInPlaceTheOldOnesStay) {
  FileSet files(paths());
  for (const char* name : {"a", "b"}) {
    files.begin(folder_ / name);
    files.append(cat("new ", name));
  }
  fs::remove(folder_ / cat("b.tmp", getpid()));
  EXPECT_THAT(message_of([&] { files.commit(); }), HasSubstr("cannot rename onto '"));
  EXPECT_EQ(read_file(folder_ / "a"), "old a");
  EXPECT_EQ(read_file(folder_ / "b"), "old b");
  EXPECT_THAT(folder_.names(), ElementsAre("a", "b"));
}

TEST_F(FileSetTest, FollowsLinksKeepsModesAndOpensWhatIsNoFile) {
  fs::permissions(folder_ / "a", fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("a", folder_ / "link");
  fs::create_symlink("/dev/null", folder_ / "null");
  FileSet files(paths());
  for (const char* name : {"link", "null"}) {
    files.begin(folder_ / name);
    files.append("new");
  }
  files.commit();
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_TRUE(fs::is_symlink(folder_ / "null"));
  EXPECT_EQ(read_file(folder_ / "a"), "new");
  EXPECT_EQ(fs::status(folder_ / "a").permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(FileSetTest, RemovesWhatKilledProcessesLeft) {
  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  waitpid(gone, nullptr, 0);
  const std::string alive = cat("a.tmp", getppid());
  for (const std::string& name :
       {cat("a.tmp", gone), cat("a.old", gone), alive, std::string("a.tmpl"), cat("a.tmp", gone, "x")})
    write_file(folder_ / name, "");
  FileSet files(paths());
  files.begin(folder_ / "a");
  EXPECT_TRUE(fs::exists(folder_ / cat("a.tmp", gone))) << "nothing goes before the new content is whole";
  files.commit();
  EXPECT_THAT(folder_.names(), testing::UnorderedElementsAre("a", "b", alive, "a.tmpl", cat("a.tmp", gone, "x")));
}

std::string text_of(const fs::path& path) { return fs::exists(path) ? read_file(path) : "none"; }

// A third file is new in the set, as the alignment of a corpus can be.
class KilledFileSetTest : public testing::Test {
 protected:
  std::vector<fs::path> paths() const { return {folder_ / "a", folder_ / "b", folder_ / "c"}; }
  void write() const {
    FileSet files(paths());
    for (const fs::path& path : paths()) {
      files.begin(path);
      files.append("new");
    }
    files.commit();
  }
  std::vector<std::string> texts() const {
    return {text_of(folder_ / "a"), text_of(folder_ / "b"), text_of(folder_ / "c")};
  }
  void start_over() const {
    for (const char* name : {"a", "b"}) write_file(folder_ / name, "old");
    fs::remove(folder_ / "c");
  }
  TestFolder folder_;
};

TEST_F(KilledFileSetTest, HasTheOldFilesOrTheNewOnesAtEachSystemCall) {
  const std::vector<std::string> old_files = {"old", "old", "none"}, new_files = {"new", "new", "new"};
  bool was_old = false, was_new = false;
  for (int64_t call = 0;; ++call) {
    start_over();
    const Killed killed = kill_at_call(call, Exchange::kAsTheSystemDoes, [&] { write(); });
    if (killed == Killed::kCannotTrace) GTEST_SKIP() << "this system does not let a process trace its child";
    const std::vector<std::string> after = texts();
    const bool mixes = std::ranges::count(after, "old") > 0 && std::ranges::count(after, "new") > 0;
    EXPECT_FALSE(mixes) << "killed at call " << call << ": old files beside new ones";
    finish_killed_commits(paths());  // the next call begins so, and may fail afterwards
    EXPECT_THAT(texts(), testing::AnyOf(old_files, new_files)) << "killed at call " << call;
    was_old |= texts() == old_files, was_new |= texts() == new_files;
    write();
    EXPECT_EQ(texts(), new_files) << "killed at call " << call;
    EXPECT_THAT(folder_.names(), ElementsAre("a", "b", "c")) << "killed at call " << call;
    if (killed == Killed::kEndedBefore) break;
  }
  EXPECT_TRUE(was_old && was_new) << "no kill came before or after the commit";
}

TEST_F(FileSetTest, AMarkFromElsewhereTouchesNoOtherFolder) {
  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  waitpid(gone, nullptr, 0);
  fs::create_directory(folder_ / "theirs");
  const std::string begin = "fovea replaces these files together:\n", outside = cat("b.tmp", gone);
  write_file(folder_ / outside, "stranger's");
  const std::string mark = folder_ / cat("theirs/a.commit", gone);
  write_file(mark, begin + std::string("../b\0\0", 6));
  finish_killed_commits({folder_ / "theirs/a"});
  EXPECT_EQ(read_file(folder_ / "b"), "old b");
  for (const std::string& text : {std::string("notes of a user"), begin + "cut off"}) {
    write_file(mark, text);
    finish_killed_commits({folder_ / "theirs/a"});
    EXPECT_EQ(read_file(folder_ / "b"), "old b");
  }
}

TEST_F(FileSetTest, AFileThatMayGrowNoMoreIsAnError) {
  install_signal_handlers();
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {.rlim_cur = 1000, .rlim_max = before.rlim_max};
  {
    FileSet files(paths());
    files.begin(folder_ / "a");
    files.append("new a");
    files.begin(folder_ / "b");
    files.append(std::string(2000, 'x'));
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    EXPECT_THAT(message_of([&] { files.commit(); }), HasSubstr("/b': File too large"));
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  }
  EXPECT_EQ(read_file(folder_ / "a"), "old a");
  EXPECT_EQ(read_file(folder_ / "b"), "old b");
  EXPECT_THAT(folder_.names(), ElementsAre("a", "b"));
}

TEST_F(FileSetTest, StopsAtASignal) {
  install_signal_handlers();
  FileSet files(paths());
  files.begin(folder_ / "a");
  (void)std::raise(SIGTERM);
  EXPECT_THROW(files.append(std::string(200'000, 'x')), Interrupted);
  clear_interrupt();
}

}  // namespace
}  // namespace fovea::file_set_test
