#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/iostreams/filter/lzma.hpp>
#include <boost/iostreams/filtering_stream.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/rng.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"

namespace fovea::lines_test {
namespace {
namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

std::string packed(const std::string& path, const std::string& text) {
  LineWriter out(path);
  out.write(text);
  out.close();
  return read_file(path);
}

// The lines before an error, and the error.
struct Read {
  std::vector<std::string> lines;
  std::string error;
};
Read read_all(const std::string& path) {
  Read read;
  LineReader reader(path);
  read.error = message_of([&] {
    for (std::string line; reader.next(line);) read.lines.push_back(line);
  });
  return read;
}

TEST(LineReader, GivesWhatWasUnpackedBeforeTheDamage) {
  const TestFolder folder;
  for (const char* ending : {"gz", "bz2", "xz", "zst"}) {
    const std::string path = folder / cat("x.", ending), whole = packed(path, "one\ntwo\n");
    for (const std::string& rest : {whole.substr(0, 8), std::string(40, 'x')}) {
      write_file(path, whole + rest);
      const Read read = read_all(path);
      EXPECT_THAT(read.lines, ElementsAre("one", "two")) << ending;
      EXPECT_THAT(read.error, HasSubstr("' after line 2: the archive is damaged or cut short")) << ending;
    }
  }
}

// These two unpack before a block is whole; a line that was cut is none.
TEST(LineReader, GivesTheWholeLinesOfACutArchive) {
  const TestFolder folder;
  std::vector<std::string> lines;
  lines.reserve(3000);
  for (int i = 0; i < 3000; ++i) lines.push_back(cat("line ", i, " ", i * 7919 % 1000));
  for (const char* ending : {"gz", "xz"}) {
    const std::string path = folder / cat("x.", ending), whole = packed(path, join(lines, "\n") + "\n");
    write_file(path, whole.substr(0, whole.size() / 2));
    const Read read = read_all(path);
    EXPECT_GT(read.lines.size(), 500U) << ending;
    EXPECT_LT(read.lines.size(), lines.size()) << ending;
    EXPECT_TRUE(std::equal(read.lines.begin(), read.lines.end(), lines.begin())) << ending;
    EXPECT_THAT(read.error, HasSubstr(cat(" after line ", read.lines.size(), ":"))) << ending;
  }
}

TEST(LineReader, ReadsBytesInPartsBesideLines) {
  const TestFolder folder;
  for (const char* name : {"t.txt", "t.gz"}) {
    packed(folder / name, "one\r\ntwo\r\nthree");
    LineReader reader(folder / name);
    std::string bytes = "kept ", line;
    EXPECT_EQ(reader.read(bytes, 4), 4U);
    EXPECT_EQ(bytes, "kept one\r");
    ASSERT_TRUE(reader.next(line));
    EXPECT_EQ(line, "");
    EXPECT_EQ(reader.read(bytes, 100), 10U);
    EXPECT_EQ(bytes, "kept one\rtwo\r\nthree");
    EXPECT_EQ(reader.read(bytes, 1), 0U);
    EXPECT_EQ(reader.rest(), "");
  }
}

constexpr std::string_view kMark = "\xef\xbb\xbf";

TEST(LineReader, LeavesOutAByteOrderMark) {
  const TestFolder folder;
  for (const char* name : {"t.txt", "t.gz"}) {
    packed(folder / name, cat(kMark, "one\n", kMark, "two\n"));
    EXPECT_THAT(read_all(folder / name).lines, ElementsAre("one", cat(kMark, "two"))) << "a later one is text";
    EXPECT_EQ(read_unpacked(folder / name), cat("one\n", kMark, "two\n"));
    EXPECT_EQ(read_unpacked(folder / name, Content::kBytes), cat(kMark, "one\n", kMark, "two\n"));
    LineReader reader(folder / name);
    std::string bytes;
    EXPECT_EQ(reader.read(bytes, 2), 2U);
    EXPECT_EQ(bytes, "on");
  }
  write_file(folder / "f", cat(kMark, "a: 1\n"));
  EXPECT_EQ(read_text_file(folder / "f"), "a: 1\n");
  EXPECT_EQ(read_file(folder / "f"), cat(kMark, "a: 1\n"));
}

TEST(LineReader, KeepsWhatIsNoByteOrderMark) {
  const TestFolder folder;
  const auto lines_of = [&](std::string_view text) {
    write_file(folder / "t", text);
    return read_all(folder / "t").lines;
  };
  EXPECT_THAT(lines_of("\xef\xbb"), ElementsAre("\xef\xbb"));
  EXPECT_THAT(lines_of("\xef\xbb\nx"), ElementsAre("\xef\xbb", "x"));
  EXPECT_THAT(lines_of("\xef\xbc\x81x\n\n"), ElementsAre("\xef\xbc\x81x", ""));
  EXPECT_THAT(lines_of("\xef\r\n"), ElementsAre("\xef"));
  EXPECT_THAT(lines_of(cat(kMark, kMark)), ElementsAre(std::string(kMark)));
  EXPECT_THAT(lines_of(kMark), testing::IsEmpty());
  EXPECT_THAT(lines_of(cat(kMark, "\n")), ElementsAre(""));
  for (const std::string_view text : {"\xef\xbb", "\xef", "\xef\xbc\x81!"}) {
    write_file(folder / "t", text);
    LineReader reader(folder / "t");
    std::string bytes;
    while (reader.read(bytes, 1) == 1) continue;
    EXPECT_EQ(bytes, text);
  }
}

TEST(LineReader, SaysNoLineWhereNoneWasRead) {
  const TestFolder folder;
  const std::string path = folder / "x.gz", whole = packed(path, "one\n");
  write_file(path, whole.substr(0, 12));
  EXPECT_EQ(message_of([&] { read_unpacked(path); }),
            cat("cannot unpack '", path, "': the archive is damaged or cut short"));
}

TEST(LineReader, RefusesArchivesThatFillTheMemory) {
  const TestFolder folder;
  packed(folder / "x.zst", std::string(101 << 20, 'x'));
  const std::string refusal = cat("cannot unpack '", folder / "x.zst",
                                  "': it grows to more than 500 times its size, as no text does; if it is meant to, "
                                  "unpack it first");
  EXPECT_EQ(message_of([&] { read_unpacked(folder / "x.zst"); }), refusal);
  EXPECT_EQ(message_of([&] { read_lines(folder / "x.zst"); }), refusal);
}

// Zeros of a file without blocks on the disk.
TEST(LineReader, RefusesALineThatFillsTheMemory) {
  const TestFolder folder;
  const std::string path = folder / "x";
  write_file(path, "first\n");
  std::filesystem::resize_file(path, LineReader::kLongestLine + 7);
  LineReader reader(path);
  std::string line;
  ASSERT_TRUE(reader.next(line));
  EXPECT_EQ(
      message_of([&] { reader.next(line); }),
      cat("'", path,
          "', line 2: has more than 134,217,728 bytes, as no line of text does; is it a text file? Break the line "
          "into shorter ones"));
  std::filesystem::resize_file(path, LineReader::kLongestLine + 6);
  LineReader longest(path);
  ASSERT_TRUE(longest.next(line) && longest.next(line));
  EXPECT_EQ(line.size(), LineReader::kLongestLine);
  EXPECT_FALSE(longest.next(line));
}

// Lines that end where the reader's own parts do.
TEST(LineReader, ReadsLinesOfAnyLength) {
  const TestFolder folder;
  std::string text;
  std::vector<std::string> expected;
  for (size_t part = 1 << 12; part <= 1 << 15; part *= 2) {
    for (size_t size = part - 2; size <= part + 1; ++size) {
      expected.emplace_back(size, static_cast<char>('a' + size % 26));
      text += expected.back() + "\n";
    }
  }
  for (const std::string& ending : {std::string(), std::string("\n")}) {
    write_file(folder / "x", text + "the end" + ending);
    std::vector<std::string> all = expected;
    all.emplace_back("the end");
    EXPECT_EQ(read_lines(folder / "x"), all);
  }
}

// A process that may have no more memory than it has now reads an archive that takes 64 MiB to unpack.
TEST(LineReader, SaysThatMemoryIsMissing) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer needs the addresses that this test takes away";
#endif
  const TestFolder folder;
  const std::string path = folder / "x.xz";
  {
    std::ofstream file(path);
    boost::iostreams::filtering_ostream out;
    constexpr int kLargestDictionary = 9;
    out.push(boost::iostreams::lzma_compressor(boost::iostreams::lzma_params(kLargestDictionary)));
    out.push(file);
    out << "one\n";
  }
  const pid_t child = fork();
  if (child == 0) {
    std::ifstream sizes("/proc/self/statm");
    rlim_t pages = 0;
    sizes >> pages;
    constexpr rlim_t kFew = 16 << 20;
    const rlim_t most = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + kFew;
    const rlimit limit = {.rlim_cur = most, .rlim_max = most};
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(2);
    const std::string message = message_of([&] { read_unpacked(path); });
    _exit(message.find("there is not enough memory") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// The line is shorter than the bytes that tell an archive; its writer may wait for an answer before the next line.
TEST(LineReader, GivesAShortLineOfAPipeAtOnce) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "a\n", 2), 2);
  std::atomic<bool> came = false, closed_first = false;
  std::thread end([&] {
    for (int i = 0; i < 50 && !came; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    closed_first = !came;
    close(ends[1]);
  });
  LineReader reader(cat("/dev/fd/", ends[0]));
  std::string line;
  EXPECT_TRUE(reader.next(line));
  came = true;
  end.join();
  EXPECT_EQ(line, "a");
  EXPECT_FALSE(closed_first);
  close(ends[0]);
}

// Ctrl-C ends both sides of a pipe.
TEST(LineReader, TakesNoEndThatASignalMadeForTheTexts) {
  install_signal_handlers();
  for (const std::string text : {"a\n", ""}) {
    int ends[2] = {-1, -1};
    ASSERT_EQ(pipe(ends), 0);
    ASSERT_EQ(write(ends[1], text.data(), text.size()), std::ssize(text));
    std::raise(SIGTERM);
    close(ends[1]);
    EXPECT_THROW(read_lines(cat("/dev/fd/", ends[0])), Interrupted) << text;
    clear_interrupt();
    close(ends[0]);
  }
}

// Packers end with some bytes more, and their flush tells nobody of a failure.
TEST(Lines, AFullDiskIsAnErrorWhateverPacks) {
  const TestFolder folder;
  for (const char* name : {"x.gz", "x.bz2", "x.xz", "x.zst", "x"}) {
    fs::create_symlink("/dev/full", folder / name);
    for (const int flush_every : {0, 10}) {
      for (const int lines : {3, 20000}) {
        const std::string message = message_of([&] {
          LineWriter out(folder / name);
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

TEST(Lines, UnpackByContentAndKeepOddEnds) {
  const TestFolder folder;
  using std::string_view_literals::operator""sv;
  for (const auto& [ending, magic] : {std::pair("gz", "\x1f\x8b"sv), std::pair("bz2", "BZh"sv),
                                      std::pair("xz",
                                                "\xfd"
                                                "7zXZ"sv),
                                      std::pair("zst", "\x28\xb5\x2f\xfd"sv)}) {
    const std::string packed = folder / cat("x.", ending);
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

// The text is longer than any buffer.
TEST(Lines, UnpackLongText) {
  const TestFolder folder;
  std::string text;
  Rng rng(3);
  for (int i = 0; i < 200'000; ++i) text += cat(rng.below(1'000'000), "\n");
  for (const char* ending : {"gz", "zst"}) {
    const std::string packed = folder / cat("x.", ending);
    LineWriter out(packed);
    out.write(text);
    out.close();
    EXPECT_EQ(join(read_lines(packed), "\n") + "\n", text) << ending;
  }
}

// A frame that ends where a reader's buffer of 2^16 bytes is full.
TEST(Lines, UnpackWholeBuffers) {
  const TestFolder folder;
  for (const size_t size : {size_t{1} << 15, size_t{1} << 16, size_t{1} << 17}) {
    for (const char* ending : {"gz", "zst"}) {
      const std::string packed = folder / cat(size, ".", ending);
      LineWriter out(packed);
      out.write(std::string(size - 1, 'x') + "\n");
      out.close();
      EXPECT_EQ(read_lines(packed).at(0).size(), size - 1) << packed;
    }
  }
}

TEST(Lines, AppearOnlyWhenClosed) {
  const TestFolder folder;
  { LineWriter(folder / "x").line("a"); }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Lines, ThatStopEarlyAppearAsPartial) {
  const TestFolder folder;
  for (const auto& [name, partial] :
       {std::pair("x", "x.partial"), {"x.en", "x.en.partial"}, {"x.en.gz", "x.en.partial.gz"}}) {
    LineWriter out(folder / name);
    out.line("a");
    out.line("b");
    EXPECT_EQ(out.close_as_partial(), folder / partial);
    EXPECT_EQ(read_lines(folder / partial), (std::vector<std::string>{"a", "b"}));
    EXPECT_FALSE(fs::exists(folder / name));
  }
  EXPECT_EQ(LineWriter("/dev/null").close_as_partial(), "");
}

TEST(Lines, ThatStopEarlyReplaceNoFile) {
  const TestFolder folder;
  write_file(folder / "x.partial", "the user's");
  for (const char* kept : {"x.partial2", "x.partial3"}) {
    LineWriter out(folder / "x");
    out.line("a");
    EXPECT_EQ(out.close_as_partial(), folder / kept);
  }
  EXPECT_EQ(read_file(folder / "x.partial"), "the user's");
  LineWriter packed(folder / "x.gz");
  write_file(folder / "x.partial.gz", "the user's");
  EXPECT_EQ(packed.close_as_partial(), folder / "x.partial2.gz");
  EXPECT_EQ(folder.names(),
            (std::set<std::string>{"x.partial", "x.partial.gz", "x.partial2", "x.partial2.gz", "x.partial3"}));
}

}  // namespace
}  // namespace fovea::lines_test
