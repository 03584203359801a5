#include "fovea/models/line_source.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <thread>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"

namespace fovea::models::line_source_test {
namespace {

// A thread reads ahead. ThreadSanitizer runs these tests too (CMakePresets.json).
std::vector<std::string> all_lines(LineSource& source, size_t limit) {
  std::vector<std::string> all;
  for (;;) {
    const std::vector<std::string> window = source.next(limit);
    if (window.empty()) return all;
    EXPECT_LE(window.size(), limit);
    all.insert(all.end(), window.begin(), window.end());
  }
}

TEST(LineSource, GivesEveryLineInOrder) {
  const TestFolder folder;
  std::vector<std::string> lines;
  for (int i = 0; i < 1000; ++i) lines.push_back(cat("line ", i));
  write_file(folder / "text", join(lines, "\n"));
  for (const size_t limit : {size_t{1}, size_t{7}, size_t{5000}}) {
    LineSource source(folder / "text");
    EXPECT_EQ(all_lines(source, limit), lines);
  }
}

TEST(LineSource, GivesTheLinesOfAPipeAsTheyCome) {
  const TestFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] {
    LineWriter output(pipe);
    for (int i = 0; i < 100; ++i) output.line(cat(i));
    output.close();
  });
  LineSource source(pipe);
  EXPECT_EQ(all_lines(source, 10).size(), 100U);
  writer.join();
}

TEST(LineSource, KnowsTheNumberOfLinesThatItHasReadAhead) {
  const TestFolder folder;
  write_file(folder / "text", "a\nb\nc\n");
  LineSource source(folder / "text");
  EXPECT_EQ(source.total(), 3);
  EXPECT_EQ(source.next(2).size(), 2U);
  EXPECT_EQ(source.total(), 3);
  EXPECT_EQ(all_lines(source, 2).size(), 1U);
  EXPECT_EQ(source.total(), 3);
  std::string text;
  for (int i = 0; i < 40; ++i) text += std::string(size_t{1} << 20, 'x') + "\n";
  write_file(folder / "long", text);
  LineSource longer(folder / "long");
  EXPECT_EQ(longer.total(), std::nullopt);
  EXPECT_EQ(all_lines(longer, 10).size(), 40U);
  EXPECT_EQ(longer.total(), 40);
}

// The source goes while more is left than it reads ahead.
TEST(LineSource, MayBeLeftBeforeItsEnd) {
  const TestFolder folder;
  const std::string long_line(size_t{1} << 20, 'x');
  std::string text;
  for (int i = 0; i < 40; ++i) text += long_line + "\n";
  write_file(folder / "text", text);
  LineSource source(folder / "text");
  EXPECT_EQ(source.next(2).size(), 2U);
}

}  // namespace
}  // namespace fovea::models::line_source_test
