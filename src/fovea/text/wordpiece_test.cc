#include "fovea/text/wordpiece.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/base/test_message.h"
#include "fovea/text/encoder_vocab.h"

namespace fovea::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr WordPieceOptions kUncased = {};
constexpr WordPieceOptions kCased = {.lowercase = false, .strip_accents = false};

// 0 [PAD], 1 [UNK], 2 [CLS], 3 [SEP], then the pieces.
std::string list_of(const std::string& pieces) { return "[PAD]\n[UNK]\n[CLS]\n[SEP]\n" + pieces; }

// Expected words are those of the tests of Google's BERT (tokenization_test.py) and of its rules.
TEST(WordPiece, SplitsTextIntoWords) {
  EXPECT_THAT(basic_words(" \tHeLLo!how  \n Are yoU?  ", kUncased),
              ElementsAre("hello", "!", "how", "are", "you", "?"));
  EXPECT_THAT(basic_words("H\u00e9llo", kUncased), ElementsAre("hello"));
  EXPECT_THAT(basic_words(" \tHeLLo!how  \n Are yoU?  ", kCased), ElementsAre("HeLLo", "!", "how", "Are", "yoU", "?"));
  EXPECT_THAT(basic_words("H\u00e9llo", kCased), ElementsAre("H\u00e9llo"));
  EXPECT_THAT(basic_words("ah\u535a\u63a8zz", kUncased), ElementsAre("ah", "\u535a", "\u63a8", "zz"));
  EXPECT_THAT(basic_words("ah\u535a\u63a8zz", {.split_chinese = false}), ElementsAre("ah\u535a\u63a8zz"));
}

TEST(WordPiece, ControlsAndSpacesAndPunctuation) {
  EXPECT_THAT(basic_words(std::string("a\0b\x01"
                                      "c\u200bd\ufffd e",
                                      14),
                          kCased),
              ElementsAre("abcd", "e"));
  EXPECT_THAT(basic_words("a\u00a0b\u3000c\u2028"
                          "d\re",
                          kCased),
              ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_THAT(basic_words("$5+^`~ \u00bfno\u2026 a_b", kCased),
              ElementsAre("$", "5", "+", "^", "`", "~", "\u00bf", "no", "\u2026", "a", "_", "b"));
  EXPECT_THAT(basic_words("\u20ac9 \u00b0C", kCased), ElementsAre("\u20ac9", "\u00b0C"))
      << "symbols are no punctuation";
  EXPECT_THAT(basic_words("\u30ab\u30bf \ud55c\uad6d", kCased), ElementsAre("\u30ab\u30bf", "\ud55c\uad6d"))
      << "kana and Hangul are not split";
  EXPECT_THAT(basic_words("", kUncased), IsEmpty());
  EXPECT_THAT(basic_words("\xff\xfe", kUncased), IsEmpty()) << "bytes that are not UTF-8";
}

TEST(WordPiece, TakesTheLongestPieces) {
  const WordPiece pieces(list_of("want\n##want\n##ed\nwa\nun\nrunn\n##ing\n,\n"), "vocab.txt", kUncased);
  EXPECT_EQ(pieces.size(), 12);
  EXPECT_THAT(pieces.encode(""), IsEmpty());
  EXPECT_THAT(pieces.encode("UNwant\u00e9d,running"), ElementsAre(8, 5, 6, 11, 9, 10));
  EXPECT_THAT(pieces.encode("unwantedX running"), ElementsAre(1, 9, 10)) << "what cannot be spelt is one [UNK]";
  EXPECT_EQ(pieces.piece(6), "##ed");
}

TEST(WordPiece, LongWordsAreUnknown) {
  const WordPiece pieces(list_of("a\n##a\n\u00e4\n##\u00e4\n"), "vocab.txt", kCased);
  EXPECT_EQ(pieces.encode(std::string(100, 'a')).size(), 100);
  EXPECT_THAT(pieces.encode(std::string(101, 'a')), ElementsAre(1));
  std::string umlauts;
  for (int i = 0; i < 100; ++i) umlauts += "\u00e4";
  EXPECT_EQ(pieces.encode(umlauts).size(), 100) << "characters count, not bytes";
}

TEST(WordPiece, OfEqualLinesTheLaterCounts) {
  const WordPiece pieces(list_of("a\r\nb\na\n"), "vocab.txt", kCased);
  EXPECT_THAT(pieces.encode("a b"), ElementsAre(6, 5));
}

TEST(WordPiece, SaysWhatIsWrong) {
  const auto problem = [](const std::string& contents) {
    return message_of([&] { WordPiece(contents, "vocab.txt", kCased); });
  };
  EXPECT_EQ(problem(""), "vocab.txt: the file is empty; expected one piece per line");
  EXPECT_EQ(problem("a\n\xff\n"), "vocab.txt: is not UTF-8; expected one piece per line");
  EXPECT_EQ(problem("a\n[UNK]\n[CLS]\n"),
            "vocab.txt: the piece [SEP] is missing; expected BERT's vocab.txt, one piece per line");
}

TEST(EncoderVocab, KnowsCasedListsAndKeepsTheOptions) {
  EXPECT_FALSE(is_cased_vocabulary(list_of("paris\n##s\n")));
  EXPECT_TRUE(is_cased_vocabulary(list_of("Paris\n")));
  EXPECT_TRUE(is_cased_vocabulary(list_of("\u00c4\n")));
  const std::string list = list_of("a\n##a\n");
  const EncoderVocab vocab =
      EncoderVocab::word_pieces(WordPiece(list, "x", {.lowercase = true, .strip_accents = false}), list);
  const EncoderVocab again = EncoderVocab::from_files(vocab.files(), "model");
  EXPECT_EQ(again.files(), vocab.files());
  EXPECT_EQ(again.files().at("wordpiece.txt"), "lowercase split-chinese\n");
  EXPECT_THAT(again.encode("\u00c1A"), ElementsAre(1)) << "accents stay";
  EXPECT_THAT(again.sequence(again.encode("aa")), ElementsAre(2, 4, 5, 3));
  EXPECT_THAT(again.sequence({4, 5, 5, 5}, 4), ElementsAre(2, 4, 5, 3));
  EXPECT_THAT(again.encode_word(""), ElementsAre(1));
  EXPECT_TRUE(again.is_special(2) && again.is_special(3) && !again.is_special(1));
}

TEST(EncoderVocab, SaysWhatIsWrongWithFiles) {
  const auto problem = [](const std::map<std::string, std::string>& files) {
    return message_of([&] { EncoderVocab::from_files(files, "model"); });
  };
  EXPECT_EQ(problem({}), "model: damaged: expected the file units.spm, or vocab.txt and wordpiece.txt");
  EXPECT_EQ(problem({{"vocab.txt", list_of("a\n")}, {"wordpiece.txt", "upper"}}),
            "model: wordpiece.txt: got 'upper'; expected some of lowercase, strip-accents and split-chinese");
  EXPECT_THAT(problem({{"vocab.txt", "a\n"}, {"wordpiece.txt", ""}}), HasSubstr("model/vocab.txt: the piece [UNK]"));
}

}  // namespace
}  // namespace fovea::text
