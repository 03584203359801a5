#include "fovea/base/file_set.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "fovea/base/file.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"

namespace fovea {
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
  TestFolder folder_;
};

TEST_F(FileSetTest, AppearTogether) {
  FileSet files;
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
    FileSet files;
    files.begin(folder_ / "a");
    files.append("new a");
    files.begin(folder_ / "b");
  }
  EXPECT_EQ(read_file(folder_ / "a"), "old a");
  EXPECT_THAT(folder_.names(), ElementsAre("a", "b"));
}

TEST_F(FileSetTest, WhereOneCannotBePutInPlaceTheOldOnesStay) {
  FileSet files;
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
  FileSet files;
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
  FileSet files;
  files.begin(folder_ / "a");
  files.commit();
  EXPECT_THAT(folder_.names(), testing::UnorderedElementsAre("a", "b", alive, "a.tmpl", cat("a.tmp", gone, "x")));
}

TEST_F(FileSetTest, AFileThatMayGrowNoMoreIsAnError) {
  install_signal_handlers();
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {.rlim_cur = 1000, .rlim_max = before.rlim_max};
  {
    FileSet files;
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
  FileSet files;
  files.begin(folder_ / "a");
  (void)std::raise(SIGTERM);
  EXPECT_THROW(files.append(std::string(200'000, 'x')), Interrupted);
  clear_interrupt();
}

}  // namespace
}  // namespace fovea
