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
#include "fovea/text/line_encoder.h"

namespace fovea::text::vocab_test {
namespace {

using testing::AllOf;
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

// Unknown text is one piece, however long it is.
TEST_F(VocabTest, LongUnknownRunsAreOnePiece) {
  for (const char* type : {"unigram", "bpe"}) {
    for (const char* rules : {kIdentity, "nmt_nfkc"}) {
      VocabTraining options = training("v.spm");
      options.type = type;
      options.normalization = rules;
      train_vocab(options);
      const Vocab vocab = Vocab::load(options.output);
      const auto line_of = [](int64_t size) {
        std::string run;
        for (int64_t i = 0; i < size; ++i) run += i % 3 == 0 ? "\u4e00" : "Q";
        return cat("badu ", run, "kel ", run, "mor");
      };
      const std::string line = line_of(20000), other = line_of(7);
      EXPECT_EQ(vocab.encode(line), vocab.encode(other));
      const std::vector<PieceSpan> spans = vocab.encode_spans(line), others = vocab.encode_spans(other);
      ASSERT_EQ(spans.size(), others.size());
      const std::vector<std::string> pieces = vocab.pieces(line);
      ASSERT_EQ(pieces.size(), spans.size());
      for (size_t i = 0; i < spans.size(); ++i) {
        EXPECT_EQ(spans[i].id, others[i].id);
        if (i > 0) {
          EXPECT_EQ(spans[i].begin, spans[i - 1].end);
        }
        if (spans[i].id == vocab.unk()) {
          EXPECT_EQ(pieces[i], line.substr(spans[i].begin, spans[i].end - spans[i].begin));
        }
      }
      EXPECT_EQ(spans.back().end, line.size());
      EXPECT_EQ(vocab.spelt(line), line);
    }
  }
}

// Full-width and other compatibility characters, blanks of all kinds, marks without width, tabs.
TEST_F(VocabTest, TextComesBackAsItIs) {
  const std::vector<std::string> lines = {"\uff08\u4ed6\u8bf4\uff0c\u201c\u662f\uff01\u201d\uff09",
                                          "\u3000\u4ed6\u662f\u3002\u3000",
                                          "\u00bd \ufb01n \u2460 \u2026 m\u00b2",
                                          "\u00ab\u00a0oui\u202f!\u00a0\u00bb",
                                          "  two  blanks   ",
                                          "a\tb",
                                          " ",
                                          "e\u0301 \u1112\u1161\u11ab \uff76\uff9e",
                                          "\u0645\u06cc\u200c\u062e",
                                          "\U0001f468\u200d\U0001f469\ufe0f",
                                          "\u00adx\ufeff"};
  write_file(folder_ / "b.txt", join(lines, "\n") + "\n");
  for (const char* type : {"unigram", "bpe", "char"}) {
    VocabTraining options = training("v.spm");
    options.type = type;
    if (options.type == "char") options.size = 0;
    train_vocab(options);
    const Vocab vocab = Vocab::load(options.output);
    EXPECT_TRUE(vocab.keeps_text());
    EXPECT_EQ(vocab.normalization(), kIdentity);
    for (const std::string& line : lines) {
      EXPECT_EQ(vocab.decode(vocab.encode(line)), line) << type;
      EXPECT_EQ(vocab.spelt(line), line);
    }
  }
}

TEST_F(VocabTest, NormalisationIsThatOfItsName) {
  write_file(folder_ / "b.txt", "\uff21 \ufb01n\u3000\u00bd \u200b x\tY\n");
  const std::map<std::string, std::string> spelt = {{"nfkc", "A fin 1\u20442 \u200b x\tY"},
                                                    {"nmt_nfkc", "A fin 1\u20442 x Y"},
                                                    {"nfkc_cf", "a fin 1\u20442 \u200b x\ty"},
                                                    {"nmt_nfkc_cf", "a fin 1\u20442 x y"}};
  for (const auto& [name, text] : spelt) {
    VocabTraining options = training("v.spm");
    options.normalization = name;
    train_vocab(options);
    const Vocab vocab = Vocab::load(options.output);
    EXPECT_EQ(vocab.normalization(), name);
    EXPECT_FALSE(vocab.keeps_text());
    EXPECT_EQ(vocab.spelt("\uff21 \ufb01n\u3000\u00bd \u200b x\tY"), text) << name;
    EXPECT_EQ(vocab.decode(vocab.encode("  kel   mor ")), "kel mor");
  }
}

// Unknown text stays as it is, in bytes too.
TEST_F(VocabTest, SpeltTextHasUnknownCharacters) {
  for (const bool bytes : {false, true}) {
    VocabTraining options = training("v.spm");
    options.normalization = "nfkc";
    options.byte_fallback = bytes;
    options.size = bytes ? 400 : 120;
    train_vocab(options);
    EXPECT_EQ(Vocab::load(options.output).spelt("\u4f60\uff0c \u03a9 mor"), "\u4f60, \u03a9 mor");
  }
}

TEST_F(VocabTest, WordsAndCharactersAreNotNormalised) {
  for (const char* type : {"word", "char"}) {
    VocabTraining options = training("v.spm");
    options.type = type;
    options.normalization = "nfkc";
    EXPECT_THAT(message_of([&] { train_vocab(options); }),
                HasSubstr(cat("--normalization nfkc: is for --type unigram and bpe; got --type ", type)));
  }
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

TEST_F(VocabTest, LinesAreCleanedOfWhatTheVocabularyLacks) {
  const std::string line = "\ufeffscho\u0308\u00a0ba\u00addu\u200b mor\u3000", clean = "sch\u00f6 badu mor";
  for (const char* type : {"unigram", "bpe", "char", "word"}) {
    VocabTraining options = training(cat(type, ".spm"));
    options.type = type;
    train_vocab(options);
    const Vocab plain = Vocab::load(options.output);
    Vocab vocab = plain;
    vocab.clean_lines();
    EXPECT_EQ(vocab.encode(line), plain.encode(clean)) << type;
    EXPECT_NE(plain.encode(line), plain.encode(clean)) << type;
    EXPECT_EQ(vocab.pieces(line), plain.pieces(clean)) << type;
    const std::vector<PieceSpan> spans = vocab.encode_spans(line), own = plain.encode_spans(clean);
    ASSERT_EQ(spans.size(), own.size()) << type;
    size_t last = 0;
    for (size_t i = 0; i < spans.size(); ++i) {
      EXPECT_EQ(spans[i].id, own[i].id);
      EXPECT_LE(last, spans[i].begin);
      EXPECT_LE(spans[i].begin, spans[i].end);
      last = spans[i].end;
    }
    EXPECT_LE(last, line.size());
    EXPECT_EQ(vocab.encode("ba  du "), plain.encode("ba  du ")) << "its own blanks stay: " << type;
    std::vector<int32_t> by_words;
    LineEncoder(vocab).encode("ba\u00a0 du", by_words);
    EXPECT_EQ(std::vector<int64_t>(by_words.begin(), by_words.end()), plain.encode("ba du")) << type;
  }
}

// A vocabulary of text that nobody cleaned has its characters; so do rules of normalisation that change them.
TEST_F(VocabTest, LinesKeepWhatTheVocabularyHas) {
  write_file(folder_ / "a.txt", some_text(400, 1) + "ba\u00a0du scho\u0308 ne\u00adl\n");
  VocabTraining options = training("v.spm");
  options.size = 130;
  train_vocab(options);
  const Vocab plain = Vocab::load(options.output);
  Vocab vocab = plain;
  vocab.clean_lines();
  const std::string line = "ba\u00a0du scho\u0308 ne\u00adl";
  EXPECT_EQ(vocab.encode(line), plain.encode(line));
  EXPECT_EQ(vocab.encode(line + "\u2009x"), plain.encode(line + " x"));
  options.normalization = "nmt_nfkc";
  train_vocab(options);
  const Vocab rules = Vocab::load(options.output);
  Vocab cleans = rules;
  cleans.clean_lines();
  for (const std::string text : {"ba\u200bdu", "ba\u00a0du", "scho\u0308", "ba\u2009\u3000du"})
    EXPECT_EQ(cleans.encode(text), rules.encode(text)) << text;
}

TEST_F(VocabTest, BytesForUnknownCharactersAreNotCharactersOfTheVocabulary) {
  VocabTraining options = training("v.spm");
  options.size = 400;
  options.byte_fallback = true;
  train_vocab(options);
  const Vocab plain = Vocab::load(options.output);
  Vocab vocab = plain;
  vocab.clean_lines();
  EXPECT_EQ(vocab.encode("ba\u00a0du"), plain.encode("ba du"));
  EXPECT_EQ(vocab.encode("ba\u4e2ddu"), plain.encode("ba\u4e2ddu"));
}

}  // namespace
}  // namespace fovea::text::vocab_test
