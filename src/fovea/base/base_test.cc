#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "fovea/base/error.h"
#include "fovea/base/executor.h"
#include "fovea/base/file.h"
#include "fovea/base/rng.h"
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

TEST(File, WritesAsideAndReadsBack) {
  const Folder folder;
  const fs::path file = folder.path / "x";
  write_file(file, "old");
  write_file(file, "new");
  EXPECT_EQ(read_file(file), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path), {}), 1) << "a temporary file was left";
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
