#include "fovea/data/columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/base/file.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"

namespace fovea::data::columns_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

LabelledText load(const std::string& contents, const std::vector<int64_t>& labels = {}) {
  const TestFolder folder;
  write_file(folder / "text", contents);
  return load_columns({folder / "text"}, {.labels = labels});
}

TEST(Columns, ReadsSentences) {
  const LabelledText text =
      load("-DOCSTART- -X- O\n\nEU NNP I-ORG\nrejects\tVBZ  O \r\n\n \t\n-DOCSTART-\nGerman JJ I-MISC\n");
  EXPECT_THAT(text.words, ElementsAre(ElementsAre("EU", "rejects"), ElementsAre("German")));
  EXPECT_THAT(text.labels, ElementsAre(ElementsAre("I-ORG", "O"), ElementsAre("I-MISC")));
}

TEST(Columns, TheLabelIsAnyColumnOrOneOfTwo) {
  const std::string contents = "EU NNP I-ORG\nof IN O\n, , O\n";
  EXPECT_THAT(load(contents, {2}).labels, ElementsAre(ElementsAre("NNP", "IN", ",")));
  EXPECT_THAT(load(contents, {3, 2}).labels, ElementsAre(ElementsAre("I-ORG", "IN", ",")));
  EXPECT_THAT(load("a O O\n", {3, 2}).labels, ElementsAre(ElementsAre("O")));
  EXPECT_THAT(load("a IN b-per\nb IN o\n", {3, 2}).labels, ElementsAre(ElementsAre("b-per", "IN")));
}

TEST(Columns, TagsAreAColumnBesideTheLabels) {
  const TestFolder folder;
  write_file(folder / "text", "EU NNP I-NP I-ORG\nof IN O O\n\n, , O O\n");
  const auto load_tagged = [&](int64_t tags, const std::vector<int64_t>& labels = {}) {
    return load_columns({folder / "text"}, {.labels = labels, .tags = tags});
  };
  const LabelledText text = load_tagged(2);
  EXPECT_THAT(text.tags, ElementsAre(ElementsAre("NNP", "IN"), ElementsAre(",")));
  EXPECT_THAT(text.labels, ElementsAre(ElementsAre("I-ORG", "O"), ElementsAre("O")));
  EXPECT_THAT(load_tagged(0).tags, IsEmpty());
  EXPECT_NE(fingerprint(text), fingerprint(load_tagged(3)));
  EXPECT_THAT(message_of([&] { load_tagged(5); }),
              HasSubstr("line 1: got 4 columns; expected at least 5, the --clause-tag-column"));
  const std::string leak = "is the --clause-tag-column and holds the labels; expected tags in another column";
  EXPECT_THAT(message_of([&] { load_tagged(4); }), HasSubstr(leak)) << "the last column is the label";
  EXPECT_THAT(message_of([&] { load_tagged(2, {4, 2}); }), HasSubstr(leak));
}

TEST(Columns, LeavesOutCommentsAndOtherLinesThatAreNoWords) {
  const LabelledText text = load("# id s\tdomain=en\na _ O\n# _ B-X\n\n# _ O\nb _ O\n");
  EXPECT_THAT(text.words, ElementsAre(ElementsAre("a", "#"), ElementsAre("#", "b")));
  EXPECT_EQ(text.place(0, 1), text.place(0, 0).substr(0, text.place(0, 0).size() - 1) + "3");
  EXPECT_THAT(text.place(1, 1), HasSubstr("text', line 6"));
  EXPECT_EQ(fingerprint(text), fingerprint(load("a O\n# B-X\n\n# O\nb O\n")));
  const std::string rest = "\t_\t_\t_\t_\t_\t_\n";
  const std::string conll_u = "# text = au\n1-2\tau\t_\t_" + rest + "1\t\u00e0\t_\tADP" + rest + "2\tle\t_\tDET" + rest;
  testing::internal::CaptureStderr();
  EXPECT_THAT(load(conll_u, {4}).words, ElementsAre(ElementsAre("\u00e0", "le")));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(HasSubstr("1 comment line is left out"), HasSubstr("1 line of CoNLL-U without a word")));
  EXPECT_THAT(load(conll_u, {4}).labels, ElementsAre(ElementsAre("ADP", "DET")));
  EXPECT_THAT(message_of([&] { load(conll_u); }),
              HasSubstr("whose last column holds no labels; expected --label-column"));
  EXPECT_THAT(message_of([&] { load(conll_u, {2}); }), HasSubstr("numbers the words and column 2 holds them"));
  EXPECT_THAT(message_of([&] { load("1\ta\tX\n2\tb\ty z\n"); }),
              HasSubstr("line 2: got the label 'y z'; expected one without blanks"));
}

TEST(Columns, FingerprintsTellTextsApart) {
  const std::string plain = fingerprint(load("a O\nb O\n"));
  EXPECT_NE(plain, fingerprint(load("a O\n\nb O\n")));
  EXPECT_NE(plain, fingerprint(load("a O\nb I-X\n")));
  EXPECT_EQ(plain, fingerprint(load("\na\tO\nb O")));
}

TEST(Columns, SaysWhatIsWrong) {
  const auto problem = [](const std::string& contents, const std::vector<int64_t>& labels = {}) {
    return message_of([&] { load(contents, labels); });
  };
  EXPECT_THAT(problem("a N O\n\nb O\n"), HasSubstr("line 3: got 2 columns; expected 3 as in line 1"));
  EXPECT_THAT(problem("a O\n# x y\n"), HasSubstr("comments may stand at the beginning of a sentence alone"));
  EXPECT_THAT(problem("a\n"), HasSubstr("line 1: got one column; expected a word and its label"));
  EXPECT_THAT(problem("a O\n", {3}), HasSubstr("line 1: got 2 columns; expected at least 3, the --label-column"));
  EXPECT_THAT(problem("\n-DOCSTART- O\n"), HasSubstr("has no words; expected a word and its label in each line"));
  EXPECT_THAT(problem("a\xff O\n"), HasSubstr("UTF-8"));
  EXPECT_THAT(message_of([] { load_columns({"/nowhere/x"}, {.option = "--valid-sets"}); }), HasSubstr("--valid-sets"));
}

}  // namespace
}  // namespace fovea::data::columns_test
