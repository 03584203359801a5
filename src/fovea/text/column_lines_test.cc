#include "fovea/text/column_lines.h"

#include <gmock/gmock.h>

#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"

namespace fovea::text::column_lines_test {
namespace {

using testing::HasSubstr;

// Each line as its kind: W with the word, C, A, D and - for empty lines.
std::string kinds_of(ColumnLines& lines, const std::string& text) {
  for (const std::string& line : split(text, '\n')) lines.add(line);
  lines.end();
  std::vector<std::string> kinds;
  for (const ColumnLine& line : lines.take()) {
    using Kind = ColumnLine::Kind;
    if (line.kind == Kind::kWord) kinds.push_back(cat("W:", line.word()));
    if (line.kind != Kind::kWord)
      kinds.emplace_back(line.kind == Kind::kEmpty      ? "-"
                         : line.kind == Kind::kDocument ? "D"
                         : line.kind == Kind::kComment  ? "C"
                                                        : "A");
  }
  return join(kinds, " ");
}
std::string kinds(const std::string& text) {
  ColumnLines lines("'f'");
  return kinds_of(lines, text);
}

TEST(ColumnLines, CommentsStandAtTheBeginningOfASentence) {
  EXPECT_EQ(kinds("# text = a b\na O\nb O\n\n#id 7 x\nc O"), "C W:a W:b - C W:c") << "another number of columns";
  EXPECT_EQ(kinds("# id s\tdomain=en\na _ _ O\n# _ _ O"), "C W:a W:#") << "a tab, where the words have blanks";
  EXPECT_EQ(kinds("# id 7 x\na\tb\tc\tO"), "C W:a") << "blanks, where the words have tabs";
  EXPECT_EQ(kinds("# id = 7\na b c O"), "C W:a") << "CoNLL-U's form";
  EXPECT_EQ(kinds("#id = 7\na b O"), "C W:a");
  EXPECT_EQ(kinds("# doc s1 domain=en\na b c O"), "C W:a");
  EXPECT_EQ(kinds("# 12\na B-person"), "C W:a");
  EXPECT_EQ(kinds("#begin document (x); part 000\nx 0 0 a O\n\n#end document\n"), "C W:x - C -");
  EXPECT_EQ(kinds("# one\n# two\n# three\n\n# four\na b O\n"), "C C C - C W:a -") << "before the first words";
  EXPECT_EQ(kinds("-DOCSTART- -X- O\n\n# a = b\na NN O\n"), "D - C W:a -");
}

TEST(ColumnLines, WordsMayBeginWithAHash) {
  EXPECT_EQ(kinds("# _ _ O\na _ _ O\n"), "W:# W:a -");
  EXPECT_EQ(kinds("# # # PUNCT\na b c O\n# id s domain=en"), "W:# W:a W:#") << "no comments behind words";
  EXPECT_EQ(kinds("# SYM\na NN\nb NN"), "W:# W:a W:b");
  EXPECT_EQ(kinds("#tag O\na O\n\n#tag HT\na NN\n\n#x B-place\na O"), "W:#tag W:a - W:#tag W:a - W:#x W:a");
  EXPECT_EQ(kinds("# w\na n"), "W:# W:a") << "small letters as the others have";
  EXPECT_EQ(kinds("#\na\n#"), "W:# W:a W:#") << "one column";
  EXPECT_EQ(kinds("#tag O\na\tO"), "W:#tag W:a");
  EXPECT_EQ(kinds("# O"), "W:#");
  EXPECT_EQ(kinds("a\tO\n\n# O\na O"), "W:a - W:# W:a");
}

TEST(ColumnLines, NumberedWords) {
  const std::string rest = "\t_\t_\t_\t_\t_\t_\t_\t_\n";
  EXPECT_EQ(
      kinds("# sent_id = 1\n1-2\tau" + rest + "1\t\u00e0" + rest + "2\tle" + rest + "2.1\tx" + rest + "\n1\tGo" + rest),
      "C A W:\u00e0 W:le A - W:Go -");
  EXPECT_EQ(kinds("#\thttp://x [2009]\n1\tAuf\tO\tO\n2\tder\tO\tO\n"), "C W:Auf W:der -") << "GermEval 2014";
  EXPECT_EQ(kinds("1\th\u1ecdc sinh\tO\n2\tx\tO\n"), "W:h\u1ecdc sinh W:x -") << "words with blanks";
  EXPECT_EQ(kinds("1 CD O\n2 CD O\n\nAnna NNP O"), "W:1 W:2 - W:Anna") << "numbers that are words";
  EXPECT_EQ(kinds("1 CD O"), "W:1");
  EXPECT_EQ(kinds("1\n2\n3"), "W:1 W:2 W:3");
  EXPECT_EQ(
      message_of([&] { kinds("1\ta\tO\n2\tb\tO\n\n1\ta\tO\n3\tb\tO\n"); }),
      "'f', line 5: got '3' in the first column, which numbers the words (as in CoNLL-U); expected 2, or an empty "
      "line before a new sentence");
  EXPECT_THAT(message_of([&] { kinds("1\ta\tO\n2\tb\tO\n\n1\t \tO\n"); }),
              HasSubstr("line 4: got no word behind its number"));
}

TEST(ColumnLines, SentencesComeWhenTheyAreComplete) {
  ColumnLines lines("'f'");
  lines.add("a O  ");
  EXPECT_TRUE(lines.take().empty());
  lines.add("");
  EXPECT_EQ(lines.take().size(), 2U);
  lines.add("# x = 1");
  lines.add("b O");
  EXPECT_EQ(lines.comments(), 0);
  lines.end();
  const std::vector<ColumnLine> last = lines.take();
  ASSERT_EQ(last.size(), 2U);
  EXPECT_EQ(last[0].text, "# x = 1");
  EXPECT_EQ(last[1].number, 4);
  EXPECT_EQ(lines.comments(), 1);
}

TEST(ColumnLines, TellsOfCommentsThatOnlyTheirValueGivesAway) {
  testing::internal::CaptureStderr();
  kinds("# doc 1 domain=en\na b c O\n\n# doc 2 domain=en\na b c O");
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("'f', line 1: '# doc 1 domain=en' is read as a comment, because 'domain=en' is unlike the "
                             "last column of the words below, such as 'O'"));
  EXPECT_EQ(log.find("line 4"), std::string::npos) << "once per file";
}

}  // namespace
}  // namespace fovea::text::column_lines_test
