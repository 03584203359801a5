#include "fovea/text/line_encoder.h"

#include <gmock/gmock.h>

#include <string>

#include "fovea/base/file.h"
#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"

namespace fovea::text::line_encoder_test {
namespace {

// Words of letters of which some are in no vocabulary, short ones often.
std::string some_word(Rng& rng, uint64_t longest) {
  static constexpr const char* kLetters[] = {"a", "b", "c", "d", "e", "\u00e4", "\u00df", "\u4e2d", "1", "-"};
  std::string word;
  for (uint64_t left = 1 + rng.below(longest); left > 0; --left) word += kLetters[rng.below(rng.below(10) + 1)];
  return word;
}

// Lines with what ends the shortcuts: unknown characters, runs of blanks, blanks at the ends, other white space,
// U+2581, long words, bytes that are not UTF-8.
std::string some_line(Rng& rng) {
  static constexpr const char* kBetween[] = {" ", " ",  " ",  " ",      " ",      " ",      " ",
                                             " ", "  ", "\t", "\u00a0", "\u2581", " \u2581"};
  std::string line = rng.below(20) == 0 ? " " : "";
  for (uint64_t words = rng.below(12); words > 0; --words) {
    line += some_word(rng, rng.below(10) == 0 ? 40 : 5);
    if (rng.below(15) == 0) line += rng.below(2) == 0 ? "\U0001f600\U0001f601" : "\u0416";
    if (rng.below(200) == 0) line += "\xe2\x82";
    line += words > 1 ? kBetween[rng.below(rng.below(30) == 0 ? 13 : 8)] : "";
  }
  return rng.below(20) == 0 ? line + " " : line;
}

struct Trained {
  TestFolder folder;
  std::string path = folder / "v.spm";
  explicit Trained(const std::string& type, const std::string& normalization = kIdentity, bool byte_fallback = false,
                   bool with_accents = true) {
    Rng rng(1);
    std::string text;
    for (int i = 0; i < 2000; ++i) {
      std::string line = some_word(rng, 5);
      for (int word = 0; word < 8; ++word) line += " " + some_word(rng, 5);
      if (rng.below(20) == 0) line += "\tab";  // `fovea vocab` makes tabs pieces of the user
      if (!with_accents) std::erase_if(line, [](char c) { return (c & 0x80) != 0 || c == '\t'; });
      text += line + "\n";
    }
    write_file(folder / "text", text);
    train_vocab({.inputs = {folder / "text"},
                 .output = path,
                 .size = type == "char"  ? 0
                         : byte_fallback ? 400
                                         : 120,
                 .type = type,
                 .normalization = normalization,
                 .byte_fallback = byte_fallback});
  }
};

void expect_same(const std::string& path, const std::string& name) {
  const Vocab vocab = Vocab::load(path);
  LineEncoder encoder(vocab);
  const Units units = Units::load(path);
  UnitEncoder unit_encoder(units);
  Rng rng(7);
  int64_t unknown = 0;
  std::string text;
  for (int i = 0; i < 8'000; ++i) {
    const std::string line = some_line(rng);
    const std::vector<int64_t> expected = vocab.encode(line);
    ASSERT_EQ(encoder.encode(line), expected) << name << ": '" << line << "'";
    unknown += std::ranges::count(expected, vocab.unk());
    text += line + (rng.below(9) == 0 ? "\r\n" : "\n");
  }
  EXPECT_GT(unknown, name.find("bytes") == std::string::npos ? 100 : -1) << name;
  std::vector<int32_t> whole, own;
  units.encode(text, whole);
  unit_encoder.encode(text, own, Units::Begin::kLine);
  EXPECT_EQ(own, whole) << name;
}

TEST(LineEncoder, GivesThePiecesOfTheVocabulary) {
  expect_same(Trained("bpe").path, "bpe");
  expect_same(Trained("bpe", kIdentity, true).path, "bpe with bytes");
  expect_same(Trained("bpe", kIdentity, false, false).path, "bpe, most characters unknown");
  expect_same(Trained("bpe", "nmt_nfkc").path, "bpe, nmt_nfkc");
  for (const char* type : {"unigram", "word", "char"}) expect_same(Trained(type).path, type);
}

TEST(LineEncoder, LeavesLinesToWhatAddsPieces) {
  const Trained trained("bpe");
  Vocab vocab = Vocab::load(trained.path);
  vocab.add_pieces([](std::string_view line) { return std::vector<AddedPiece>{{line.size() / 2, 5}}; });
  LineEncoder encoder(vocab);
  for (const char* line : {"ab a ba", "ab a ba", "ba"}) EXPECT_EQ(encoder.encode(line), vocab.encode(line));
}

}  // namespace
}  // namespace fovea::text::line_encoder_test
