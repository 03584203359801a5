#include "fovea/base/file.h"

#include <gmock/gmock.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <functional>

#include "fovea/base/file_set.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"

namespace {
int syncs_to_interrupt = 0;
}

// In place of the C library's: as when a signal comes on a file system that waits for a server.
extern "C" int fsync(int fd) {
  if (syncs_to_interrupt == 0) return static_cast<int>(syscall(SYS_fsync, fd));
  --syncs_to_interrupt;
  errno = EINTR;
  return -1;
}

namespace fovea::file_test {
namespace {
namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(File, LeavesNothingWhereTheDiskIsFull) {
  const TestFolder folder;
  write_file(folder / "x", "old");
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {.rlim_cur = 1000, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string message = message_of([&] { write_file(folder / "x", std::string(5000, 'x')); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(message, HasSubstr("cannot write '"));
  EXPECT_EQ(read_file(folder / "x"), "old");
  EXPECT_THAT(folder.names(), ElementsAre("x"));
}

// The checksum of this text begins with a zero.
TEST(File, ChecksumsHaveSixteenDigits) { EXPECT_EQ(checksum("7"), "06eed105b82285fa"); }

TEST(File, FollowsLinksToLinks) {
  const TestFolder folder;
  std::string last = "real";
  for (const char* link : {"a", "b", "c", "d"}) {
    fs::create_symlink(last, folder / link);
    last = link;
  }
  write_file(folder / "d", "x");
  EXPECT_EQ(read_file(folder / "real"), "x");
  for (const char* link : {"a", "b", "c", "d"}) EXPECT_TRUE(fs::is_symlink(folder / link)) << link;
}

TEST(File, WritesIntoPipes) {
  const TestFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDWR | O_NONBLOCK);
  write_file(pipe, "through\n");
  EXPECT_TRUE(fs::is_fifo(pipe));
  std::string got(20, '\0');
  got.resize(static_cast<size_t>(std::max<ssize_t>(read(reader, got.data(), got.size()), 0)));
  close(reader);
  EXPECT_EQ(got, "through\n");
}

TEST(File, WritesAsideAndReadsBack) {
  const TestFolder folder;
  const fs::path file = folder / "x";
  write_file(file, "old");
  write_file(file, "new");
  EXPECT_EQ(read_file(file), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1) << "a temporary file was left";
}

TEST(File, IsSyncedThoughASignalComes) {
  const TestFolder folder;
  const fs::path file = folder / "x";
  const auto write_lines = [&] {
    LineWriter out(file);
    out.line("x");
    out.close();
  };
  const auto write_set = [&] {
    FileSet files({file});
    files.begin(file);
    files.append("x\n");
    files.commit();
  };
  for (const std::function<void()>& write :
       {std::function<void()>([&] { write_file(file, "x\n"); }), {write_lines}, {write_set}, {[&] {
          sync_path(file);
        }}}) {
    syncs_to_interrupt = 3;
    EXPECT_EQ(message_of(write), "nothing was thrown");
    EXPECT_EQ(syncs_to_interrupt, 0);
    EXPECT_EQ(read_file(file), "x\n");
    EXPECT_THAT(folder.names(), ElementsAre("x"));
  }
}

TEST(File, SaysWhatIsWrong) {
  const TestFolder folder;
  EXPECT_THAT(message_of([&] { read_file(folder / "none"); }), HasSubstr("no such file"));
  EXPECT_THAT(message_of([&] { read_file(folder.path()); }), HasSubstr("is a folder"));
  EXPECT_THAT(message_of([&] { write_file("/dev/full", "x"); }), HasSubstr("No space left"));
  EXPECT_THAT(message_of([&] {
                LineWriter out("/dev/full");
                out.line("x");
                out.close();
              }),
              HasSubstr("No space left"));
}

}  // namespace
}  // namespace fovea::file_test
