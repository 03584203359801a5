#include "fovea/base/file_set.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <set>
#include <string_view>

#include "fovea/base/file.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_aside.h"
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
  for (const std::string& name : folder_.names())
    if (is_marked(folder_ / name)) fs::remove(folder_ / name + "/new2");
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
  const fs::path left =
      left_by_killed(folder_.path(), [](const MarkedFolder& aside) { write_file(aside / "new1", ""); });
  const std::vector<std::string> theirs = {"a.tmp7", "a.old2023", "a.commit5", cat("a.tmp", ended_process())};
  for (const std::string& name : theirs) std::ofstream(folder_ / name) << "mine";
  FileSet files(paths());
  files.begin(folder_ / "a");
  EXPECT_TRUE(fs::exists(left / "new1")) << "nothing goes before the new content is whole";
  files.commit();
  EXPECT_FALSE(fs::exists(left));
  for (const std::string& name : theirs) EXPECT_EQ(read_file(folder_ / name), "mine") << name;
  EXPECT_EQ(folder_.names().size(), 2 + theirs.size());
}

std::string text_of(const fs::path& path) { return fs::exists(path) ? read_file(path) : "none"; }

// A third file is new in the set, as the alignment of a corpus can be. The second may lie in another folder, which
// takes more system calls: of these, each third is tried.
class KilledFileSetTest : public testing::TestWithParam<const char*> {
 protected:
  KilledFileSetTest() { fs::create_directory(folder_ / "other"); }
  std::vector<fs::path> paths() const { return {folder_ / "a", folder_ / GetParam(), folder_ / "c"}; }
  void write() const {
    FileSet files(paths());
    for (const fs::path& path : paths()) {
      files.begin(path);
      files.append("new");
    }
    files.commit();
  }
  std::vector<std::string> texts() const {
    std::vector<std::string> texts;
    for (const fs::path& path : paths()) texts.push_back(text_of(path));
    return texts;
  }
  void start_over() const {
    for (const char* name : {"a", GetParam()}) std::ofstream(folder_ / name) << "old";  // no time for a sync
    fs::remove(folder_ / "c");
  }
  TestFolder folder_;
};

TEST_P(KilledFileSetTest, HasTheOldFilesOrTheNewOnesAtEachSystemCall) {
  const std::vector<std::string> old_files = {"old", "old", "none"}, new_files = {"new", "new", "new"};
  bool was_old = false, was_new = false, was_between = false;
  const int64_t step = std::string_view(GetParam()) == "b" ? 1 : 3;
  for (int64_t call = 0;; call += step) {
    start_over();
    const Killed killed = kill_at_call(call, Exchange::kAsTheSystemDoes, [&] { write(); });
    if (killed == Killed::kCannotTrace) GTEST_SKIP() << "this system does not let a process trace its child";
    const std::vector<std::string> after = texts();
    const bool mixes = std::ranges::count(after, "old") > 0 && std::ranges::count(after, "new") > 0;
    EXPECT_FALSE(mixes) << "killed at call " << call << ": old files beside new ones";
    was_between |= after != old_files && after != new_files;
    const bool is_left = names_in(folder_ / "other").size() > 1;
    if (is_left) write_file(folder_ / "other/d", "a call that writes only there");
    finish_killed_commits(paths());  // the next call begins so, and may fail afterwards
    EXPECT_THAT(texts(), testing::AnyOf(old_files, new_files)) << "killed at call " << call;
    was_old |= texts() == old_files, was_new |= texts() == new_files;
    write();
    EXPECT_EQ(texts(), new_files) << "killed at call " << call;
    remove_unmarked(folder_.path());
    remove_unmarked(folder_ / "other");
    fs::remove(folder_ / "other/d");
    std::set<std::string> names = folder_.names();
    for (const std::string& name : names_in(folder_ / "other")) names.insert("other/" + name);
    EXPECT_EQ(names, (std::set<std::string>{"a", GetParam(), "c", "other"})) << "killed at call " << call;
    if (killed == Killed::kEndedBefore) break;
  }
  EXPECT_TRUE(was_old && was_new && was_between) << "no kill came before, in or after the commit";
}

INSTANTIATE_TEST_SUITE_P(Folders, KilledFileSetTest, testing::Values("b", "other/b"));

// The path of the list of a set that a killed process had begun to put in place: the old "a" is aside.
fs::path begun_commit(const fs::path& folder, std::string_view targets) {
  const fs::path left = left_by_killed(folder, [&](const MarkedFolder& aside) {
    std::ofstream(aside / "new1") << "new";
    std::ofstream(aside / "old2") << "old";
    std::string list(targets);
    for (size_t at = 0; (at = list.find('%', at)) != std::string::npos;)
      list.replace(at, 1, aside.path().filename().string());
    std::ofstream(aside / "list") << list;
  });
  return left / "list";
}

constexpr std::string_view kBegin = "Fovea replaces these files together:\n";

TEST_F(FileSetTest, AListFromElsewhereTouchesNoOtherFolder) {
  fs::create_directory(folder_ / "theirs");
  const std::string list(kBegin);
  using std::string_literals::operator""s;
  fs::remove(folder_ / "b");
  for (const std::string& text : {"notes of a user"s, list + "cut off", list + "../b\0%/new1\0%/old2\0\0"s,
                                  list + "a\0../b\0%/old2\0\0"s, list + "x\0../a\0../b\0\0"s}) {
    const fs::path file = begun_commit(folder_ / "theirs", text);
    finish_killed_commits({folder_ / "theirs/a"});
    EXPECT_EQ(folder_.names(), (std::set<std::string>{"a", "theirs"})) << text;
    EXPECT_EQ(read_file(folder_ / "a"), "old a");
    EXPECT_EQ(names_in(folder_ / "theirs").size(), 1U) << text;
    fs::remove_all(file.parent_path());
  }
}

// After the kill, the user wrote a file of the set.
TEST_F(FileSetTest, WhatIsInPlaceByNowStays) {
  using std::string_literals::operator""s;
  for (const bool has_begun : {false, true}) {
    fs::remove(folder_ / "a"), fs::remove(folder_ / "b");
    std::ofstream(folder_ / "b") << "the user's";
    const std::string second = has_begun ? "b\0%/new2\0%/old2\0\0"s : "b\0%/new1\0%/old2\0\0"s;
    begun_commit(folder_.path(), std::string(kBegin) + "a\0%/new1\0%/old1\0"s + second);
    finish_killed_commits(paths());
    EXPECT_EQ(read_file(folder_ / "b"), "the user's");
    EXPECT_EQ(text_of(folder_ / "a"), has_begun ? "new" : "none");
    EXPECT_EQ(folder_.names().size(), has_begun ? 2U : 1U);
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
