#include "fovea/text/long_lines.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fovea/base/strings.h"
#include "fovea/text/sentencepiece_model.h"
#include "fovea/text/vocab.h"

namespace fovea::text::long_lines_test {
namespace {

std::string times(std::string_view text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

bool has_no_letter(std::string_view text) {
  return text.find_first_of("abcdefghijklmnopqrstuvwxyz") == std::string_view::npos;
}

TEST(ShortLine, LeavesOutTheMiddleOfUnknownRuns) {
  const std::string line = times("abc ", 3000) + times("\u4e00", 9000) + times("x", 5000) + times("\u4e01", 8000) + "y";
  const ShortLine shorter = without_long_runs(line, has_no_letter);
  ASSERT_EQ(shorter.cuts.size(), 2U);
  EXPECT_LT(shorter.text.size(), 12000U + 5000U + 4 * 4096U);
  EXPECT_TRUE(is_valid_utf8(shorter.text));
  // With what was left out, the text is the line.
  std::string whole;
  size_t done = 0, left_out = 0;
  for (const ShortLine::Cut& cut : shorter.cuts) {
    whole += shorter.text.substr(done, cut.at - done);
    const size_t bytes = cut.bytes - left_out;
    const std::string middle = line.substr(whole.size(), bytes);
    EXPECT_TRUE(has_no_letter(middle));
    whole += middle;
    done = cut.at;
    left_out = cut.bytes;
  }
  EXPECT_EQ(whole + shorter.text.substr(done), line);
  EXPECT_EQ(shorter.in_line(0), 0U);
  EXPECT_EQ(shorter.in_line(12000), 12000U);
  EXPECT_EQ(shorter.in_line(shorter.text.size()), line.size());
  EXPECT_TRUE(shorter.has_cut(12000, shorter.cuts.front().at + 1));
  EXPECT_FALSE(shorter.has_cut(0, shorter.cuts.front().at));
}

TEST(ShortLine, KeepsALineWithoutLongRuns) {
  for (const std::string& line : {times("abc ", 9000), times("\u4e00a", 9000), times("\u4e00", 2000), std::string()}) {
    const ShortLine shorter = without_long_runs(line, has_no_letter);
    EXPECT_EQ(shorter.text, line);
    EXPECT_TRUE(shorter.cuts.empty());
  }
}

TEST(PartsOfLine, EndBetweenCharactersOrBehindWords) {
  const std::string line = times("\u4e00", 10) + "  ab \u00a0 cd";
  std::string whole;
  for (const std::string_view part : parts_of_line(line, PartEnd::kCharacter, 4)) {
    EXPECT_TRUE(is_valid_utf8(part));
    whole += part;
  }
  EXPECT_EQ(whole, line);
  EXPECT_EQ(parts_of_line(line, PartEnd::kWord, 4),
            (std::vector<std::string_view>{line.substr(0, 30), "  ab", " \u00a0 cd"}));
}

// Vocabularies of words and of characters, whose lines are encoded in parts.
TEST(LongLines, AreEncodedAsTheirUnits) {
  const std::vector<CountedPiece> words = {{"\u2581the", 3}, {"\u2581cat", 2}}, characters = {{"a", 3}, {"\u2581", 2}};
  const Vocab by_word = Vocab::from_bytes(write_counted_model(VocabType::kWord, words), "words");
  const Vocab by_character = Vocab::from_bytes(write_counted_model(VocabType::kChar, characters), "characters");
  const std::string line = times("the  dog zzz cat ", 3000), letters = times("ab \u4e00", 5000);
  for (const auto& [vocab, text] : {std::pair(&by_word, line), {&by_character, letters}}) {
    const std::vector<int64_t> ids = vocab->encode(text);
    const std::vector<PieceSpan> spans = vocab->encode_spans(text);
    ASSERT_EQ(spans.size(), ids.size());
    ASSERT_EQ(vocab->pieces(text).size(), ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(spans[i].id, ids[i]);
      if (i > 0) {
        EXPECT_EQ(spans[i].begin, spans[i - 1].end);
      }
    }
    EXPECT_EQ(spans.front().begin, 0U);
  }
  EXPECT_EQ(by_word.encode(line).size(), 12000U);
  EXPECT_EQ(by_character.encode(letters).size(), 20000U);
}

}  // namespace
}  // namespace fovea::text::long_lines_test
