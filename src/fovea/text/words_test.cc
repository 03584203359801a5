#include "fovea/text/words.h"

#include <gtest/gtest.h>

#include <string>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"

namespace fovea::text::words_test {
namespace {

using Words = std::vector<int64_t>;

constexpr const char* kText =
    "the cat sat on the mat .\nthe dog sat on a log .\na cat and a dog and a hat .\n10 cats\nthe little dogs were "
    "sleeping under a green table\ncats like sleeping on little mats and tables\nsome green frogs were jumping over "
    "the logs\nthe frog jumped over the table and slept\nnobody likes a jumping dog\nunder the hats slept some cats\n";

Vocab trained(const std::string& type, int64_t size, const std::string& normalization = kIdentity) {
  const TestFolder folder;
  write_file(folder / "a.txt", kText);
  VocabTraining training{.inputs = {folder / "a.txt"}, .output = folder / "v.spm", .size = size};
  training.type = type;
  training.normalization = normalization;
  train_vocab(training);
  return Vocab::load(folder / "v.spm");
}

// The words' number for each piece, counted from the pieces' own signs of a blank: right for text that normalisation
// leaves as it is.
Words counted(const Vocab& vocab, const std::string& line) {
  Words words;
  int64_t word = -1;
  for (const std::string& piece : vocab.pieces(line)) words.push_back(word += piece.starts_with("\u2581") ? 1 : 0);
  return words;
}

TEST(Words, ArePiecesBetweenBlanks) {
  for (const char* type : {"unigram", "bpe"}) {
    const Vocab vocab = trained(type, 40);
    for (const std::string line : {"the cat sat .", "a dog", "catdogmat the", "unseen zebra", "x"}) {
      const WordPieces found = encode_words(vocab, line);
      EXPECT_EQ(found.pieces, vocab.encode(line));
      EXPECT_EQ(found.words, counted(vocab, line)) << type << ": " << line;
      EXPECT_EQ(found.num_words, static_cast<int64_t>(split_words(line).size()));
    }
  }
}

TEST(Words, OfCountedVocabularies) {
  const Vocab words = trained("word", 0);
  const WordPieces by_word = encode_words(words, "  the zebra   ran\tthe dog");
  EXPECT_EQ(by_word.pieces, words.encode("  the zebra   ran\tthe dog"));
  EXPECT_EQ(by_word.words, (Words{0, 1, 2, 3, 4}));
  const Vocab characters = trained("char", 0);
  const WordPieces by_character = encode_words(characters, "the zz at");
  EXPECT_EQ(by_character.pieces, characters.encode("the zz at"));
  EXPECT_EQ(by_character.words, (Words{0, 0, 0, 1, 1, 1, 2, 2, 2}));  // a blank goes with the word behind it
}

TEST(Words, SurviveNormalisation) {
  const Vocab vocab = trained("unigram", 40, "nmt_nfkc");
  // A no-break space is none of the line's own blanks, but a blank for SentencePiece; an ideographic space, too.
  for (const std::string line : {"the 10\u00a0cats sat", "the a\u3000dog sat", "the \u00b4 sat"}) {
    const WordPieces found = encode_words(vocab, line);
    EXPECT_EQ(found.pieces, vocab.encode(line));
    ASSERT_EQ(found.num_words, 3) << line;
    EXPECT_EQ(found.words.front(), 0);
    EXPECT_EQ(found.words.back(), 2);
    bool has_second = false;
    for (size_t i = 1; i < found.words.size(); ++i) {
      EXPECT_LE(found.words[i - 1], found.words[i]);
      has_second |= found.words[i] == 1;
    }
    EXPECT_TRUE(has_second) << line;
  }
}

TEST(Words, OfNoText) {
  const Vocab vocab = trained("unigram", 40);
  for (const char* line : {"", "  \t "}) {
    const WordPieces found = encode_words(vocab, line);
    EXPECT_EQ(found.num_words, 0);
    EXPECT_TRUE(found.pieces.empty());
    EXPECT_TRUE(found.words.empty());
  }
}

TEST(Words, StayAsManyWhenPiecesAreCut) {
  const Vocab vocab = trained("word", 0);
  WordPieces line = encode_words(vocab, "the cat sat");
  cut(line, 5);
  EXPECT_EQ(line.pieces.size(), 3U);
  cut(line, 2);
  EXPECT_EQ(line.pieces, vocab.encode("the cat"));
  EXPECT_EQ(line.words, (Words{0, 1}));
  EXPECT_EQ(line.num_words, 3);
}

TEST(Words, OfProducedPieces) {
  for (const char* type : {"unigram", "bpe", "word", "char"}) {
    const Vocab vocab = trained(type, 40);
    for (const std::string line : {"the cat sat .", "a hat and a log ."}) {
      const std::vector<int64_t> pieces = vocab.encode(line);
      const WordPieces found = words_of_pieces(vocab, pieces);
      EXPECT_EQ(found.pieces, pieces);
      EXPECT_EQ(found.words, encode_words(vocab, line).words) << type << ": " << line;
      EXPECT_EQ(found.num_words, static_cast<int64_t>(split_words(vocab.decode(pieces)).size()));
    }
    // Two unknown pieces side by side, as a beam may make them.
    const WordPieces unknown = words_of_pieces(vocab, std::vector<int64_t>{vocab.unk(), vocab.unk()});
    EXPECT_EQ(unknown.num_words, static_cast<int64_t>(split_words(vocab.decode(unknown.pieces)).size())) << type;
  }
}

}  // namespace
}  // namespace fovea::text::words_test
