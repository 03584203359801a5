#include "fovea/text/wordpiece.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"
#include "fovea/text/encoder_vocab.h"

namespace fovea::text::wordpiece_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr WordPieceOptions kUncased = {};
constexpr WordPieceOptions kCased = {.lowercase = false, .strip_accents = false};

// 0 [PAD], 1 [UNK], 2 [CLS], 3 [SEP], then the pieces.
std::string list_of(const std::string& pieces) { return "[PAD]\n[UNK]\n[CLS]\n[SEP]\n" + pieces; }

WordPiece uncased(const std::string& pieces) { return {{.pieces = list_of(pieces), .options = kUncased}, "vocab.txt"}; }
WordPiece cased(const std::string& pieces) { return {{.pieces = list_of(pieces), .options = kCased}, "vocab.txt"}; }

// Expected words are those of the tests of Google's BERT (tokenization_test.py) and of its rules.
TEST(WordPiece, SplitsTextIntoWords) {
  EXPECT_THAT(basic_words(" \tHeLLo!how  \n Are yoU?  ", kUncased),
              ElementsAre("hello", "!", "how", "are", "you", "?"));
  EXPECT_THAT(basic_words("H\u00e9llo", kUncased), ElementsAre("hello"));
  EXPECT_THAT(basic_words(" \tHeLLo!how  \n Are yoU?  ", kCased), ElementsAre("HeLLo", "!", "how", "Are", "yoU", "?"));
  EXPECT_THAT(basic_words("H\u00e9llo", kCased), ElementsAre("H\u00e9llo"));
  EXPECT_THAT(basic_words("\u039f\u03a3 \u0130\u00c9", {.strip_accents = false}),
              ElementsAre("\u03bf\u03c3", "i\u0307\u00e9"))
      << "character by character";
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
  EXPECT_THAT(basic_words("a\u0378b \ue000", kCased), ElementsAre("a\u0378b")) << "not assigned; private";
  EXPECT_THAT(basic_words("", kUncased), IsEmpty());
  EXPECT_THAT(basic_words("\xff\xfe", kUncased), IsEmpty()) << "bytes that are not UTF-8";
}

TEST(WordPiece, TakesTheLongestPieces) {
  const WordPiece pieces = uncased("want\n##want\n##ed\nwa\nun\nrunn\n##ing\n,\n");
  EXPECT_EQ(pieces.size(), 12);
  EXPECT_THAT(pieces.encode(""), IsEmpty());
  EXPECT_THAT(pieces.encode("UNwant\u00e9d,running"), ElementsAre(8, 5, 6, 11, 9, 10));
  EXPECT_THAT(pieces.encode("unwantedX running"), ElementsAre(1, 9, 10)) << "what cannot be spelt is one [UNK]";
  EXPECT_EQ(pieces.piece(6), "##ed");
}

TEST(WordPiece, LongWordsAreUnknown) {
  const WordPiece pieces = cased("a\n##a\n\u00e4\n##\u00e4\n");
  EXPECT_EQ(pieces.encode(std::string(100, 'a')).size(), 100);
  EXPECT_THAT(pieces.encode(std::string(101, 'a')), ElementsAre(1));
  std::string umlauts;
  for (int i = 0; i < 100; ++i) umlauts += "\u00e4";
  EXPECT_EQ(pieces.encode(umlauts).size(), 100) << "characters count, not bytes";
}

// Expected numbers are those of transformers 5.24.
TEST(WordPiece, AddedTokensAreFoundInTheText) {
  const WordPiece pieces({.pieces = list_of("the\ncat\n##s\nfoo\nbar\ne\n"),
                          .added = {{.content = "[SEP]", .id = 3, .special = true},
                                    {.content = "<ent>", .id = 10, .normalized = true},
                                    {.content = "Foo B\u00e4r", .id = 11, .normalized = true},
                                    {.content = "[X]", .id = 12, .special = true},
                                    {.content = "cat", .id = 5, .single_word = true},
                                    {.content = "the cat", .id = 14}}},
                         "vocab.txt");
  EXPECT_EQ(pieces.size(), 15);
  EXPECT_EQ(pieces.piece(14), "the cat");
  EXPECT_EQ(pieces.piece(13), "") << "a number that nothing has";
  EXPECT_THAT(pieces.encode("the <ENT> foo bar, Foo bar[X]s [SEP]"), ElementsAre(4, 10, 11, 1, 11, 12, 1, 3));
  EXPECT_THAT(pieces.encode("[sep] [x]"), ElementsAre(1, 1, 1, 1, 1, 1)) << "special tokens keep their case";
  EXPECT_THAT(pieces.encode("cat cats the cat The cat"), ElementsAre(5, 5, 6, 14, 4, 5)) << "the longest counts";
  EXPECT_THAT(pieces.encode("\u00e4cat cat\u00e4 -cat"), ElementsAre(1, 1, 1, 5));
  EXPECT_THAT(pieces.encode("e e\u0301"), ElementsAre(9, 9)) << "the rest of the text is read as without them";
}

TEST(WordPiece, AddedTokensThatDoNotFit) {
  const auto problem = [](const AddedToken& token, const AddedToken& other) {
    return message_of([&] { WordPiece({.pieces = list_of("a\nb\n"), .added = {token, other}}, "t"); });
  };
  const AddedToken fits{.content = "x", .id = 6};
  EXPECT_EQ(problem({.content = "a", .id = 5}, fits),
            "t: the added token 'a' has the number 5, but the piece of this name has 4");
  EXPECT_EQ(problem({.content = "y", .id = 5}, fits),
            "t: the added token 'y' has the number 5 of the piece 'b'; expected one from 6 on");
  EXPECT_EQ(problem({.content = "y", .id = 9999999}, fits),
            "t: the added token 'y' has the number 9999999, but there are 6 pieces; expected the next number");
  EXPECT_EQ(problem(fits, {.content = "y", .id = 6}), "t: the added token 'y' has the number 6 of the added token 'x'");
}

TEST(WordPiece, RulesOfOtherTokenisers) {
  const WordPiece pieces(
      {.pieces = "<s>\n</s>\n<unk>\nab\n_c\n",
       .rules = {.unknown = "<unk>", .begin = "<s>", .end = "</s>", .continued = "_", .most_characters = 3}},
      "vocab.txt");
  EXPECT_THAT(pieces.encode("abc abcc d"), ElementsAre(3, 4, 2, 2));
  EXPECT_EQ(pieces.cls(), 0);
  EXPECT_EQ(pieces.sep(), 1);
  const WordPiece keeps({.pieces = list_of("a\n##\x01\nb\n##\ufffd\n"), .options = {.drop_controls = false}},
                        "vocab.txt");
  EXPECT_THAT(keeps.encode("a\x01 b\u2003"
                           "a\ufffd\u3000b"),
              ElementsAre(4, 5, 6, 4, 7, 6));
}

TEST(WordPiece, OfEqualLinesTheLaterCounts) {
  const WordPiece pieces = cased("a\r\nb\na\n");
  EXPECT_THAT(pieces.encode("a b"), ElementsAre(6, 5));
}

TEST(WordPiece, SaysWhatIsWrong) {
  const auto problem = [](const std::string& contents) {
    return message_of([&] { WordPiece({.pieces = contents, .options = kCased}, "vocab.txt"); });
  };
  EXPECT_EQ(problem(""), "vocab.txt: the file is empty; expected one piece per line");
  EXPECT_EQ(problem("a\n\xff\n"), "vocab.txt: is not UTF-8; expected one piece per line");
  EXPECT_EQ(problem("a\n[UNK]\n[CLS]\n"), "vocab.txt: the piece [SEP] is missing; expected BERT's list of pieces");
}

TEST(EncoderVocab, KnowsCasedListsAndKeepsTheOptions) {
  EXPECT_FALSE(is_cased_vocabulary(list_of("paris\n##s\n")));
  EXPECT_TRUE(is_cased_vocabulary(list_of("Paris\n")));
  EXPECT_TRUE(is_cased_vocabulary(list_of("\u00c4\n")));
  const std::string list = list_of("a\n##a\n");
  const EncoderVocab vocab =
      EncoderVocab::word_pieces({.pieces = list, .options = {.lowercase = true, .strip_accents = false}}, "x");
  const EncoderVocab again = EncoderVocab::from_files(vocab.files(), "model");
  EXPECT_EQ(again.files(), vocab.files());
  EXPECT_EQ(again.files().at("wordpiece.txt"), "lowercase split-chinese\n");
  EXPECT_THAT(again.encode("\u00c1A"), ElementsAre(1)) << "accents stay";
  EXPECT_THAT(again.sequence(again.encode("aa")), ElementsAre(2, 4, 5, 3));
  EXPECT_THAT(again.sequence({4, 5, 5, 5}, 4), ElementsAre(2, 4, 5, 3));
  EXPECT_THAT(again.encode_word(""), ElementsAre(1));
  EXPECT_TRUE(again.is_special(2) && again.is_special(3) && !again.is_special(1));
}

TEST(EncoderVocab, KeepsRulesAndAddedTokens) {
  const EncoderVocab vocab = EncoderVocab::word_pieces(
      {.pieces = "<s>\n</s>\n[UNK]\na\n",
       .options = {.split_chinese = false, .drop_controls = false},
       .rules = {.begin = "<s>", .end = "</s>", .continued = "", .most_characters = 7},
       .added = {{.content = "x \"y\"\n", .id = 4, .single_word = true, .rstrip = true, .normalized = true}}},
      "x");
  const auto files = vocab.files();
  EXPECT_EQ(files.at("wordpiece.txt"),
            "lowercase strip-accents keep-controls begin=<s> end=</s> continued= most-characters=7\n");
  const EncoderVocab again = EncoderVocab::from_files(files, "model");
  EXPECT_EQ(again.files(), files);
  EXPECT_EQ(again.word_piece_model().rules, vocab.word_piece_model().rules);
  EXPECT_EQ(again.word_piece_model().added, vocab.word_piece_model().added);
  EXPECT_EQ(again.size(), 5);
  EXPECT_TRUE(again.has_pieces_of(vocab));
  EXPECT_EQ(message_of([] { EncoderVocab::word_pieces({.pieces = list_of("a\n"), .rules = {.begin = "a b"}}, "x"); }),
            "x: got 'a b' for the begin piece; expected a piece without blanks");
}

TEST(EncoderVocab, SaysWhatIsWrongWithFiles) {
  const auto problem = [](const std::map<std::string, std::string>& files) {
    return message_of([&] { EncoderVocab::from_files(files, "model"); });
  };
  EXPECT_EQ(problem({}), "model: damaged: expected the file units.spm, or vocab.txt and wordpiece.txt");
  EXPECT_EQ(
      problem({{"vocab.txt", list_of("a\n")}, {"wordpiece.txt", "upper"}}),
      "model: wordpiece.txt: got 'upper'; expected some of lowercase, strip-accents, split-chinese, keep-controls, "
      "unknown=PIECE, begin=PIECE, end=PIECE, continued=PIECE and most-characters=N");
  for (const char* word : {"begin", "most-characters=x", "most-characters=", "most-characters=9999999999", "start=a"})
    EXPECT_THAT(problem({{"vocab.txt", list_of("a\n")}, {"wordpiece.txt", word}}), HasSubstr(cat("got '", word, "'")));
  EXPECT_EQ(problem({{"vocab.txt", list_of("a\n")}, {"wordpiece.txt", ""}, {"added-tokens.json", "{"}}),
            "model/added-tokens.json: is not JSON");
  EXPECT_THAT(problem({{"vocab.txt", "a\n"}, {"wordpiece.txt", ""}}), HasSubstr("model/vocab.txt: the piece [UNK]"));
}

}  // namespace
}  // namespace fovea::text::wordpiece_test
