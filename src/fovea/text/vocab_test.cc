#include "fovea/text/vocab.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "fovea/base/file.h"
#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"

namespace fovea::text {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Words of our own making: enough different ones for a vocabulary of a few hundred pieces.
std::string some_text(int64_t lines, uint64_t seed) {
  static constexpr const char* kSyllables[] = {"ba", "du", "kel", "mor", "ni", "tra", "schö", "ß", "vel", "o"};
  Rng rng(seed);
  std::string text;
  for (int64_t i = 0; i < lines; ++i) {
    const uint64_t words = 3 + rng.below(9);
    for (uint64_t w = 0; w < words; ++w) {
      if (w > 0) text += ' ';
      for (uint64_t s = 1 + rng.below(3); s > 0; --s) text += kSyllables[rng.below(std::size(kSyllables))];
    }
    text += ".\n";
  }
  return text;
}

class VocabTest : public testing::Test {
 protected:
  VocabTest() {
    write_file(folder_ / "a.txt", some_text(400, 1));
    write_file(folder_ / "b.txt", some_text(400, 2));
  }
  VocabTraining training(const std::string& output) const {
    return {.inputs = {folder_ / "a.txt", folder_ / "b.txt"}, .output = folder_ / output, .size = 120};
  }
  TestFolder folder_;
};

TEST_F(VocabTest, TrainsWithMariansIds) {
  std::map<std::string, std::vector<std::string>> pieces;
  for (const char* type : {"unigram", "bpe"}) {
    VocabTraining options = training("v.spm");
    options.type = type;
    EXPECT_EQ(train_vocab(options), 120);
    const Vocab vocab = Vocab::load(options.output);
    EXPECT_EQ(vocab.size(), 120);
    EXPECT_EQ(vocab.eos(), 0);
    EXPECT_EQ(vocab.unk(), 1);
    EXPECT_EQ(vocab.piece(0), "</s>");
    EXPECT_EQ(vocab.piece(1), "<unk>");
    EXPECT_EQ(vocab.bytes(), read_file(options.output));
    for (int64_t id = 0; id < vocab.size(); ++id) pieces[type].push_back(vocab.piece(id));
  }
  EXPECT_NE(pieces["unigram"], pieces["bpe"]);
}

TEST_F(VocabTest, CoverageSaysHowRareACharacterMayBe) {
  write_file(folder_ / "a.txt", read_file(folder_ / "a.txt") + "ba Ж du\n");
  VocabTraining options = training("v.spm");
  for (const bool all : {true, false}) {
    options.character_coverage = all ? 1 : 0.999;
    train_vocab(options);
    const Vocab vocab = Vocab::load(options.output);
    EXPECT_EQ(testing::Value(vocab.encode("Ж"), testing::Contains(vocab.unk())), !all);
    EXPECT_THAT(vocab.encode("schöß"), testing::Not(testing::Contains(vocab.unk())));
  }
}

// Nine tenths of the text have letters that the first tenth has not.
TEST_F(VocabTest, TheSampleIsOfTheWholeText) {
  std::string text;
  for (int i = 0; i < 10000; ++i) text += i < 1000 ? "aaa bab\n" : "ccc dcd\n";
  write_file(folder_ / "a.txt", text);
  VocabTraining options = training("v.spm");
  options.inputs = {folder_ / "a.txt"};
  options.size = 9;
  options.type = "bpe";
  options.max_sentences = 1000;
  train_vocab(options);
  const Vocab vocab = Vocab::load(options.output);
  EXPECT_THAT(vocab.encode("ab cd"), testing::Not(testing::Contains(vocab.unk())));
}

TEST_F(VocabTest, DecodeUndoesEncode) {
  train_vocab(training("v.spm"));
  const Vocab vocab = Vocab::load(folder_ / "v.spm");
  for (const std::string& line : read_lines(folder_ / "a.txt")) {
    const std::vector<int64_t> ids = vocab.encode(line);
    EXPECT_EQ(vocab.decode(ids), line);
    const std::vector<std::string> pieces = vocab.pieces(line);
    ASSERT_EQ(pieces.size(), ids.size());
    for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(pieces[i], vocab.piece(ids[i]));
    for (const int64_t id : ids) EXPECT_GT(id, 1);
  }
  EXPECT_TRUE(vocab.encode("").empty());
  EXPECT_EQ(vocab.decode({}), "");
  EXPECT_EQ(vocab.decode({0}), "");
}

TEST_F(VocabTest, UnknownAndInvalidTextIsUnknownOrBytes) {
  train_vocab(training("v.spm"));
  const Vocab vocab = Vocab::load(folder_ / "v.spm");
  EXPECT_THAT(vocab.encode("Ω"), testing::Contains(vocab.unk()));
  EXPECT_THAT(vocab.encode("\xff\xfe"), testing::Contains(vocab.unk()));
  VocabTraining options = training("bytes.spm");
  options.byte_fallback = true;
  options.size = 400;
  train_vocab(options);
  const Vocab bytes = Vocab::load(options.output);
  EXPECT_THAT(bytes.encode("Ω 好"), testing::Not(testing::Contains(bytes.unk())));
  EXPECT_EQ(bytes.decode(bytes.encode("Ω 好")), "Ω 好");
}

TEST_F(VocabTest, SameInputSameFile) {
  VocabTraining options = training("1.spm");
  options.max_sentences = 300;  // of 800: the sample is drawn, not taken whole
  train_vocab(options);
  options.output = folder_ / "2.spm";
  train_vocab(options);
  EXPECT_EQ(checksum(read_file(folder_ / "1.spm")), checksum(read_file(folder_ / "2.spm")));
  options.output = folder_ / "3.spm";
  options.seed = 2;
  train_vocab(options);
  EXPECT_NE(checksum(read_file(folder_ / "1.spm")), checksum(read_file(folder_ / "3.spm")));
}

TEST_F(VocabTest, BpeDoesNotHangOnTheThreads) {
  VocabTraining options = training("1.spm");
  options.type = "bpe";
  train_vocab(options);
  options.output = folder_ / "3.spm";
  options.threads = 3;
  train_vocab(options);
  EXPECT_EQ(checksum(read_file(folder_ / "1.spm")), checksum(read_file(folder_ / "3.spm")));
}

TEST_F(VocabTest, ReadsPackedTextAsThePlainOne) {
  LineWriter packed(folder_ / "a.txt.gz");
  packed.write(read_file(folder_ / "a.txt"));
  packed.close();
  VocabTraining options = training("packed.spm");
  options.inputs[0] += ".gz";
  train_vocab(options);
  train_vocab(training("plain.spm"));
  EXPECT_EQ(checksum(read_file(folder_ / "packed.spm")), checksum(read_file(folder_ / "plain.spm")));
}

TEST_F(VocabTest, TrainingSaysWhatIsPossible) {
  for (const char* type : {"unigram", "bpe"}) {
    VocabTraining options = training("v.spm");
    options.type = type;
    options.size = 100000;
    EXPECT_THAT(message_of([&] { train_vocab(options); }),
                AllOf(HasSubstr("--dim-vocabs: got 100000; the text allows at most "), HasSubstr("give more text")));
    options.size = 5;
    EXPECT_THAT(message_of([&] { train_vocab(options); }),
                AllOf(HasSubstr("--dim-vocabs: got 5; expected at least "), HasSubstr("for each character")));
    EXPECT_FALSE(std::filesystem::exists(options.output));
  }
}

TEST_F(VocabTest, TheSizeNamedAsPossibleIsPossible) {
  for (const char* type : {"unigram", "bpe"}) {
    VocabTraining options = training("v.spm");
    options.type = type;
    options.size = 100000;
    const std::string message = message_of([&] { train_vocab(options); });
    options.size = std::stoll(message.substr(message.find("at most ") + 8));
    train_vocab(options);
    EXPECT_EQ(Vocab::load(options.output).size(), options.size);
  }
}

TEST_F(VocabTest, TheSmallestSizeIsPossibleAndItsAdviceToo) {
  for (const char* type : {"unigram", "bpe"}) {
    for (const bool bytes : {false, true}) {
      VocabTraining options = training("v.spm");
      options.type = type;
      options.byte_fallback = bytes;
      options.size = 5;
      const std::string message = message_of([&] { train_vocab(options); });
      EXPECT_THAT(message, HasSubstr("; ask for more, or lower --character-coverage"));
      EXPECT_EQ(message.find("and the 256 of --byte-fallback") != std::string::npos, bytes) << message;
      options.character_coverage = kMinCharacterCoverage;
      EXPECT_THAT(message_of([&] { train_vocab(options); }), testing::EndsWith("; ask for more"));
      options.character_coverage = 1;
      options.size = std::stoll(message.substr(message.find("at least ") + 9));
      train_vocab(options);
      EXPECT_EQ(Vocab::load(options.output).size(), options.size);
    }
  }
}

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
  const std::string text = some_text(300, 3);
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

// text8 is one line of 100 MB.
TEST_F(VocabTest, ATextOfLongLinesAloneIsCutAtBlanks) {
  std::string line = read_file(folder_ / "a.txt");
  std::ranges::replace(line, '\n', ' ');
  ASSERT_GT(line.size(), 10000U);
  write_file(folder_ / "long.txt", line + std::string(5000, 'x') + " q");
  for (const char* type : {"unigram", "bpe"}) {
    VocabTraining options = training("long.spm");
    options.type = type;
    options.inputs = {folder_ / "long.txt"};
    train_vocab(options);
    const Vocab vocab = Vocab::load(options.output);
    EXPECT_EQ(vocab.size(), 120);
    EXPECT_THAT(vocab.encode("kelmor sch\u00f6 q"), testing::Not(testing::Contains(vocab.unk())));
    EXPECT_THAT(vocab.encode("x"), testing::Contains(vocab.unk()));  // without a blank in 4192 bytes
    options.inputs = {folder_ / "long.txt", folder_ / "a.txt"};      // a line of usual length comes after it
    train_vocab(options);
    EXPECT_THAT(Vocab::load(options.output).encode("q"), testing::Contains(vocab.unk()));
  }
}

TEST_F(VocabTest, BadInputsOfTraining) {
  VocabTraining options = training("v.spm");
  options.inputs = {folder_ / "none.txt"};
  EXPECT_THAT(message_of([&] { train_vocab(options); }), HasSubstr("--train-sets: no such file"));
  write_file(folder_ / "empty.txt", "\n \n");
  options.inputs = {folder_ / "empty.txt"};
  EXPECT_THAT(message_of([&] { train_vocab(options); }), HasSubstr("no text in"));
  write_file(folder_ / "long.txt", std::string(5000, 'x') + "\n");
  options.inputs = {folder_ / "long.txt"};
  EXPECT_THAT(message_of([&] { train_vocab(options); }), HasSubstr("at most 4192 bytes"));
}

TEST_F(VocabTest, WhatNormalisesToNothingIsNoText) {
  for (const char* type : {"unigram", "bpe"}) {
    for (const std::string line :
         {"\ufeff", "\u2581\u2581", "\u3000 \u00a0\u200b", "\x01\x7f", "\ufffd", "a \u2585 b"}) {
      VocabTraining options = training("v.spm");
      options.type = type;
      write_file(folder_ / "blank.txt", cat(line, "\n", line, "\n"));
      options.inputs = {folder_ / "blank.txt"};
      EXPECT_THAT(message_of([&] { train_vocab(options); }),
                  AllOf(HasSubstr("--train-sets: no text in "), HasSubstr("with more than blanks and without U+2585")))
          << type << " '" << line << "'";
    }
  }
}

TEST_F(VocabTest, LinesWithoutTextDoNotCount) {
  VocabTraining options = training("1.spm");
  options.max_sentences = 300;
  train_vocab(options);
  write_file(folder_ / "a.txt", "\ufeff\n\u2581\n \u2585\n" + read_file(folder_ / "a.txt"));
  options.output = folder_ / "2.spm";
  train_vocab(options);
  EXPECT_EQ(checksum(read_file(folder_ / "1.spm")), checksum(read_file(folder_ / "2.spm")));
}

TEST_F(VocabTest, WhatIsNotAModelIsAnError) {
  EXPECT_THAT(message_of([&] { Vocab::load(folder_ / "none.spm"); }), HasSubstr("no such file"));
  EXPECT_THAT(message_of([&] { Vocab::load(folder_ / "a.txt"); }), HasSubstr("not a SentencePiece model"));
  EXPECT_THAT(message_of([&] { Vocab::from_bytes("", "e.spm"); }), HasSubstr("'e.spm'"));
  train_vocab(training("v.spm"));
  const std::string good = read_file(folder_ / "v.spm");
  std::string bad = good;
  bad[0] = 'x';
  EXPECT_THAT(message_of([&] { Vocab::from_bytes(bad, "bad.spm"); }), HasSubstr("not a SentencePiece model"));
  for (const size_t cut : {size_t{1}, size_t{2}, size_t{40}, good.size() / 2, good.size() - 1})
    EXPECT_THAT(message_of([&] { Vocab::from_bytes(good.substr(0, cut), "cut.spm"); }), HasSubstr("cut.spm")) << cut;
}

TEST_F(VocabTest, APieceThatTheLibraryThrowsAtIsDamage) {
  train_vocab(training("v.spm"));
  const std::string zero_piece("\x0a\x03\x0a\x01\x00", 5);  // a message's field 1 within field 1: one zero byte
  EXPECT_THAT(message_of([&] { Vocab::from_bytes(read_file(folder_ / "v.spm") + zero_piece, "v.spm"); }),
              HasSubstr("'v.spm' is not a SentencePiece model (damaged or cut short)"));
}

TEST_F(VocabTest, ForeignIdsAreRefused) {
  train_vocab(training("v.spm"));
  const Vocab vocab = Vocab::load(folder_ / "v.spm");
  EXPECT_THAT(message_of([&] { vocab.decode({5, 120}); }), HasSubstr("got piece 120; expected 0 to 119"));
  EXPECT_THAT(message_of([&] { vocab.piece(-1); }), HasSubstr("got piece -1"));
}

}  // namespace
}  // namespace fovea::text
