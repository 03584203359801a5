#include "fovea/text/vocab_count.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "fovea/base/file.h"
#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"

namespace fovea::text::vocab_count_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> pieces_of(const Vocab& vocab) {
  std::vector<std::string> pieces;
  for (int64_t id = 2; id < vocab.size(); ++id) pieces.push_back(vocab.piece(id));
  return pieces;
}

class CountedVocabTest : public testing::Test {
 protected:
  Vocab counted(const std::string& type, const std::string& text, int64_t size = 0) {
    write_file(folder_ / "c.txt", text);
    train_vocab({.inputs = {folder_ / "c.txt"}, .output = folder_ / "c.spm", .size = size, .type = type});
    return Vocab::load(folder_ / "c.spm");
  }
  std::string counting_says(const std::string& type, const std::string& text, int64_t size = 0) {
    return message_of([&] { counted(type, text, size); });
  }
  TestFolder folder_;
};

TEST_F(CountedVocabTest, WordsAreWhatStandsBetweenWhiteSpace) {
  const Vocab vocab =
      counted("word", " the cat @-@ \u00bd \n\nthe\tcat\u3000\uff21\uff22\u00a0the\u2581cat sat <unk>\r\n");
  EXPECT_EQ(vocab.type(), VocabType::kWord);
  EXPECT_EQ(vocab.eos(), 0);
  EXPECT_EQ(vocab.unk(), 1);
  EXPECT_THAT(pieces_of(vocab),
              ElementsAre("\u2581cat", "\u2581the", "\u2581@-@", "\u2581sat", "\u2581\u00bd", "\u2581\uff21\uff22"));
  EXPECT_THAT(vocab.encode("  the\u2003\u00bd\tthe "), ElementsAre(3, 6, 3));
  EXPECT_EQ(vocab.decode(vocab.encode("  the\u2003\u00bd\t@-@ ")), "the \u00bd @-@");
  EXPECT_TRUE(vocab.encode(" \u3000 ").empty());
}

TEST_F(CountedVocabTest, EveryUnknownWordOrCharacterIsOne) {
  const Vocab words = counted("word", "the cat the\n");
  EXPECT_THAT(words.encode("a bc the <unk> d\u00e4"), ElementsAre(1, 1, 2, 1, 1));
  EXPECT_THAT(words.pieces("a bc the"), ElementsAre("\u2581a", "\u2581bc", "\u2581the"));
  EXPECT_EQ(words.decode({1, 1, 2, 1}), "<unk> <unk> the <unk>");
  const Vocab characters = counted("char", "the cat the\n");
  EXPECT_THAT(characters.encode("x\u00e4\U0001f600t"), ElementsAre(1, 1, 1, 2));
  EXPECT_THAT(characters.pieces("x\u00e4t"), ElementsAre("x", "\u00e4", "t"));
  EXPECT_EQ(characters.decode({1, 1, 2}), "\u2047\u2047t");
}

TEST_F(CountedVocabTest, CharactersComeBackAsTheyAre) {
  const std::string text = "  a\tb \uff21\u00bd  \u4f60\u597d\U0001f600e\u0301\u3000\u00a0c\rd ";
  const Vocab vocab = counted("char", text + "\r\n\n" + text);
  EXPECT_EQ(vocab.type(), VocabType::kChar);
  EXPECT_EQ(vocab.piece(2), "\u2581");  // the most frequent one
  EXPECT_EQ(vocab.size(), 2 + 16);
  EXPECT_EQ(vocab.encode(text).size(), 21U);
  EXPECT_THAT(vocab.encode(text), testing::Not(testing::Contains(vocab.unk())));
  EXPECT_EQ(vocab.decode(vocab.encode(text)), text);
}

// The trained list against counts of a map, with ties and a limit.
TEST_F(CountedVocabTest, TakesTheMostFrequent) {
  Rng rng(5);
  std::map<std::string, int64_t> words;
  std::string text;
  for (int i = 0; i < 3000; ++i) {
    const std::string word = cat("w", rng.below(rng.below(300) + 1));
    ++words[word];
    text += word + (rng.below(5) == 0 ? "\n" : " ");
  }
  std::vector<std::pair<int64_t, std::string>> order;
  for (const auto& [word, count] : words) order.emplace_back(-count, word);
  std::sort(order.begin(), order.end());
  for (const int64_t size : {int64_t{3}, int64_t{52}, std::ssize(words) + 2, int64_t{100000}}) {
    const Vocab vocab = counted("word", text, size);
    const int64_t kept = std::min(size - 2, std::ssize(words));
    ASSERT_EQ(vocab.size(), kept + 2);
    for (int64_t i = 0; i < kept; ++i) EXPECT_EQ(vocab.piece(i + 2), "\u2581" + order[static_cast<size_t>(i)].second);
  }
}

// Longer than what is read at once, in one line: with words and characters across the ends of what is read.
TEST_F(CountedVocabTest, OneLongLineIsAsGoodAsMany) {
  std::string text;
  while (text.size() < (3U << 20)) text += "the\u00e4 \u4f60\u597d cat ";
  std::string lines = text;
  for (size_t at = 0; (at = lines.find("cat ", at)) != std::string::npos;) lines[at + 3] = '\n';
  const std::vector<std::string> words = pieces_of(counted("word", text));
  EXPECT_THAT(words, ElementsAre("\u2581cat", "\u2581the\u00e4", "\u2581\u4f60\u597d"));
  EXPECT_EQ(words, pieces_of(counted("word", lines)));
  EXPECT_EQ(counted("char", text).size(), 2 + 9);
}

// Numbers come from a table of our own, pieces from the library.
TEST_F(CountedVocabTest, EncodesAsTheLibraryDoes) {
  const std::vector<std::string> parts = {"the",    "cat",      " ",      "  ",     "\t",        "\u3000",
                                          "\u2581", "\u00e4",   "\u4f60", "<unk>",  "</s>",      "\r",
                                          "\xff",   "\xe4\xbd", "\ufffd", "\u0001", "\U0001f600"};
  for (const char* type : {"word", "char"}) {
    const Vocab vocab = counted(type, "the cat \u4f60 \ufffd <unk>\u0001 \t\rthecat </s>\n");
    const std::vector<std::string> all = pieces_of(vocab);
    Rng rng(1);
    for (int round = 0; round < 500; ++round) {
      std::string line;
      for (uint64_t size = rng.below(10); size > 0; --size) line += parts[rng.below(parts.size())];
      const std::vector<std::string> pieces = vocab.pieces(line);
      const std::vector<int64_t> ids = vocab.encode(line);
      ASSERT_EQ(ids.size(), pieces.size()) << type << " '" << line << "'";
      for (size_t i = 0; i < ids.size(); ++i) {
        const auto known = std::ranges::find(all, pieces[i]);
        EXPECT_EQ(ids[i], known == all.end() ? vocab.unk() : known - all.begin() + 2) << type << " '" << line << "'";
      }
    }
  }
}

TEST_F(CountedVocabTest, SameTextSameFile) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += cat("w", i % 7, " v", i % 40, "\n");
  for (const char* type : {"word", "char"}) {
    const std::string bytes = counted(type, text).bytes();
    LineWriter packed(folder_ / "p.gz");
    packed.write(text.substr(0, text.find('\n') + 1));
    packed.close();
    write_file(folder_ / "rest.txt", text.substr(text.find('\n') + 1));
    train_vocab({.inputs = {folder_ / "rest.txt", folder_ / "p.gz"},
                 .output = folder_ / "p.spm",
                 .type = type,
                 .seed = 7,
                 .threads = 3});
    EXPECT_EQ(checksum(read_file(folder_ / "p.spm")), checksum(bytes));
  }
}

TEST_F(CountedVocabTest, SaysWhatIsWrong) {
  for (const char* type : {"word", "char"}) {
    EXPECT_THAT(counting_says(type, "\n\n"), HasSubstr("--train-sets: no "));
    EXPECT_THAT(counting_says(type, "a\nb\xff\n"), HasSubstr("c.txt', line 2: is not UTF-8"));
    EXPECT_THAT(counting_says(type, std::string("a\n\nb\0", 5)), HasSubstr("c.txt', line 3: has a NUL byte"));
    EXPECT_THAT(counting_says(type, "a b", 2),
                HasSubstr("--dim-vocabs: got 2; expected 0, the default, or at least 3"));
    VocabTraining options = {.inputs = {folder_ / "c.txt"}, .output = folder_ / "c.spm", .type = type};
    const auto says = [&](const VocabTraining& training) { return message_of([&] { train_vocab(training); }); };
    VocabTraining bytes = options, coverage = options, sample = options;
    bytes.byte_fallback = true;
    coverage.character_coverage = 0.99;
    sample.max_sentences = 10;
    EXPECT_THAT(says(bytes), HasSubstr(cat("--byte-fallback: is for --type unigram and bpe; got --type ", type)));
    EXPECT_THAT(says(coverage), HasSubstr("--character-coverage: is for"));
    EXPECT_THAT(says(sample), HasSubstr("--max-lines: is for"));
  }
  EXPECT_THAT(counting_says("word", "<unk> \u3000\n"), HasSubstr("no words in"));
  EXPECT_THAT(counting_says("syllable", "a"),
              HasSubstr("--type: got 'syllable'; expected one of unigram, bpe, word, char"));
}

}  // namespace
}  // namespace fovea::text::vocab_count_test
