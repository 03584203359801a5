#include <gmock/gmock.h>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/text/clause_command.h"

// Tests the warning of `fovea clauses` about a text that is not in the language of its dictionary.
namespace fovea::text::clause_language_test {
namespace {

using testing::HasSubstr;

struct TextFile {
  TestFolder folder;
  ClauseOptions options;
  explicit TextFile(const std::string& text) {
    write_file(folder / "in", text);
    options.input = folder / "in";
    options.output = folder / "out";
  }
};

// The warnings in the log, with the clauses read from a file.
std::string warning_of(const TextFile& text) {
  testing::internal::CaptureStderr();
  run_clauses(text.options);
  return testing::internal::GetCapturedStderr();
}

TEST(ClauseLanguage, WarnsOfATextInAnotherLanguage) {
  const std::string german = "Als er kam, sagte sie, dass sie gehen mussten.\n";
  TextFile text(german);
  EXPECT_THAT(warning_of(text), HasSubstr("looks like German"));
  EXPECT_EQ(split(warning_of(text), '\n').size(), 2U) << "one line";
  text.options.flags = true;
  EXPECT_THAT(warning_of(text), HasSubstr("its language by --dictionary"));
  std::string columns;
  for (const std::string& word : split_words(german)) columns += word + " X\n";
  TextFile tagged(columns);
  tagged.options.label = true;
  EXPECT_THAT(warning_of(tagged), HasSubstr("looks like German"));
  write_file(text.folder / "words", "conjunction\tals\n");
  text.options.dictionary = text.folder / "words";
  EXPECT_EQ(warning_of(text), "");
  EXPECT_EQ(warning_of(TextFile("When he came, she said that they had to leave.\n")), "");
}

TEST(ClauseLanguage, WarnsOfADictionaryWithoutAWordOfTheText) {
  std::string text, words;
  for (int i = 0; i < 2000; ++i) text += cat("word", i % 100, i % 10 == 9 ? "\n" : " ");
  for (int i = 0; i < 20; ++i) words += cat("conjunction\tand", i, "\n");
  TextFile columns(text);
  write_file(columns.folder / "words", words);
  columns.options.dictionary = columns.folder / "words";
  EXPECT_THAT(warning_of(columns), HasSubstr("the first 2,000 words of"));
  write_file(columns.folder / "words", words + "conjunction\tword7\n");
  EXPECT_EQ(warning_of(columns), "");
}

}  // namespace
}  // namespace fovea::text::clause_language_test
