#include "fovea/data/token_text.h"

#include <gmock/gmock.h>

#include "fovea/base/file.h"
#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"

namespace fovea::data::token_text_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using text::Units;

std::string decoded(const Units& units, const TokenText& text) {
  const std::vector<int64_t> ids(text.ids.begin(), text.ids.end());
  return units.decode(ids);
}

class TokenTextTest : public testing::Test {
 protected:
  std::string file(const std::string& name, std::string_view content) const {
    write_file(folder_ / name, content);
    return folder_ / name;
  }
  Units trained(const std::string& normalization = text::kIdentity) const {
    const std::string path = file("v.txt", "aba abba bab\nbaba abab\naab \u00e4\u00df\n");
    text::train_vocab(
        {.inputs = {path}, .output = folder_ / "v.spm", .size = 9, .type = "bpe", .normalization = normalization});
    return Units::load(folder_ / "v.spm");
  }
  TokenText load(const Units& units, std::string_view content, Documents documents = Documents::kNo) const {
    return load_token_text({file("a.txt", content)}, units, {.documents = documents});
  }
  TestFolder folder_;
};

TEST_F(TokenTextTest, HoldsTheTextAndCountsIt) {
  const std::string text = "ab  ba\u00a0aba\r\n\n\t\u3000bab";
  const TokenText bytes = load(Units::bytes(), text);
  EXPECT_EQ(decoded(Units::bytes(), bytes), text);
  EXPECT_EQ(bytes.bytes, std::ssize(text));
  EXPECT_EQ(bytes.words, 4);
  EXPECT_EQ(bytes.lines, 3);
  EXPECT_THAT(bytes.documents, ElementsAre(0));
  const Units pieces = trained("nmt_nfkc");
  const TokenText encoded = load(pieces, text);
  EXPECT_EQ(encoded.bytes, bytes.bytes);
  EXPECT_EQ(encoded.words, bytes.words);
  EXPECT_EQ(encoded.lines, bytes.lines);
  EXPECT_EQ(decoded(pieces, encoded), "ab ba aba\n\nbab");
}

// Longer than the blocks in which a text is read, with lines longer than them and words across their ends.
TEST_F(TokenTextTest, LongTextsAreCutWithoutATrace) {
  Rng rng(1);
  std::string text;
  int64_t words = 0, lines = 0;
  while (text.size() < (3U << 20)) {
    const bool is_long = rng.below(40) == 0;
    for (uint64_t left = is_long ? 60'000 : rng.below(9); left > 0; --left, ++words)
      text += rng.below(2) == 0 ? "aba " : "bab\u00e4\u3000";
    text += '\n';
    ++lines;
  }
  const TokenText bytes = load(Units::bytes(), text);
  EXPECT_TRUE(decoded(Units::bytes(), bytes) == text);
  EXPECT_EQ(bytes.words, words);
  EXPECT_EQ(bytes.lines, lines);
  const Units pieces = trained();
  const TokenText encoded = load(pieces, text);
  EXPECT_EQ(encoded.words, words);
  std::vector<int32_t> whole;
  pieces.encode(text, whole);
  EXPECT_TRUE(encoded.ids == whole);
}

TEST_F(TokenTextTest, ThreadsAndPackingChangeNothing) {
  const std::string text = "aba ab\n\nbab\u00e4 aba\n  \nab\n";
  std::string many;
  for (int i = 0; i < 10000; ++i) many += text;
  const std::string plain = file("plain.txt", many);
  LineWriter packed(folder_ / "packed.xz");
  packed.write(many);
  packed.close();
  const Units units = trained();
  const TokenText one = load_token_text({plain}, units, {.documents = Documents::kBlank});
  const TokenText three = load_token_text({plain}, units, {.documents = Documents::kBlank, .threads = 3});
  const TokenText unpacked = load_token_text({folder_ / "packed.xz"}, units, {.documents = Documents::kBlank});
  EXPECT_EQ(one.documents.size(), 20001U);
  EXPECT_EQ(one.fingerprint(), three.fingerprint());
  EXPECT_EQ(one.fingerprint(), unpacked.fingerprint());
  EXPECT_EQ(one.bytes, unpacked.bytes);
  EXPECT_NE(one.fingerprint(), load_token_text({plain}, units, {}).fingerprint());
}

// Bytes are data; pieces are of text, which a byte order mark is not.
TEST_F(TokenTextTest, AByteOrderMarkIsNoText) {
  const std::string text = "ab\nba\n", marked = cat(kByteOrderMark, text);
  EXPECT_EQ(decoded(Units::bytes(), load(Units::bytes(), marked)), marked);
  const Units pieces = trained();
  EXPECT_EQ(load(pieces, marked).fingerprint(), load(pieces, text).fingerprint());
}

TEST_F(TokenTextTest, AnEmptyLineBeginsADocument) {
  const std::string text = "\n\nab\nba\n\n \r\nbab\n\n";
  const TokenText bytes = load(Units::bytes(), text, Documents::kBlank);
  EXPECT_THAT(bytes.documents, ElementsAre(0, 13));
  EXPECT_EQ(bytes.ids[12], 256);
  EXPECT_EQ(bytes.ids[13], 'b');
  EXPECT_EQ(bytes.size(), std::ssize(text) + 1);
  EXPECT_EQ(bytes.bytes, std::ssize(text));
  EXPECT_EQ(decoded(Units::bytes(), bytes), text);
  const Units pieces = trained();
  const TokenText encoded = load(pieces, text, Documents::kBlank);
  ASSERT_EQ(encoded.documents.size(), 2U);
  const std::vector<int64_t> second(encoded.ids.begin() + encoded.documents[1], encoded.ids.end());
  EXPECT_EQ(pieces.decode(second), "bab\n\n");
  EXPECT_EQ(encoded.size(), load(pieces, text).size());  // nothing stands between documents
}

TEST_F(TokenTextTest, EveryFileIsADocument) {
  const std::vector<std::string> paths = {file("0.txt", ""), file("1.txt", "ab\n\nab"), file("2.txt", ""),
                                          file("3.txt", "bab\n")};
  const TokenText bytes = load_token_text(paths, Units::bytes(), {.documents = Documents::kFile});
  EXPECT_THAT(bytes.documents, ElementsAre(0, 7));
  EXPECT_EQ(bytes.ids[6], 256);
  EXPECT_EQ(bytes.lines, 4);
  EXPECT_EQ(bytes.words, 3);
  const TokenText one = load_token_text(paths, Units::bytes(), {});
  EXPECT_THAT(one.documents, ElementsAre(0));
  EXPECT_EQ(one.size(), bytes.size() - 1);
  const Units pieces = trained("nmt_nfkc");  // of blanks it leaves nothing
  const std::vector<std::string> blank_ends = {file("4.txt", " "), paths[1], file("5.txt", "  ")};
  EXPECT_THAT(load_token_text(blank_ends, pieces, {.documents = Documents::kFile}).documents, ElementsAre(0));
}

TEST_F(TokenTextTest, ALastLineWithoutAnEndIsALine) {
  const std::vector<std::string> files = {file("1.txt", "aba\nbab"), file("2.txt", ""), file("3.txt", "aab\n")};
  const Units pieces = trained();
  for (const Documents documents : {Documents::kNo, Documents::kBlank, Documents::kFile}) {
    const TokenText text = load_token_text(files, pieces, {.documents = documents});
    EXPECT_EQ(decoded(pieces, text), "aba\nbab\naab\n");
    EXPECT_EQ(text.lines, 3);
  }
  const auto text_and_log = [&](Documents documents) {
    testing::internal::CaptureStderr();
    const TokenText text = load_token_text(files, Units::bytes(), {.documents = documents});
    return std::pair(decoded(Units::bytes(), text), testing::internal::GetCapturedStderr());
  };
  const auto [joined, log] = text_and_log(Documents::kNo);
  EXPECT_EQ(joined, "aba\nbabaab\n");
  EXPECT_THAT(log, HasSubstr(cat("the last line of ", input_name(files[0]), " has no line end, so the text of ",
                                 input_name(files[2]), " continues this line")));
  EXPECT_THAT(text_and_log(Documents::kFile).second, Not(HasSubstr("line end")));
}

TEST(DocumentFinder, FindsTheSameInAnyParts) {
  const std::string text = " \n\nab\n\n\n cd\nef\n\t\r\n\u3000\u200b\n\ngh\n\n";
  DocumentFinder at_once;
  EXPECT_THAT(at_once.find(text), ElementsAre(text.find(" cd"), text.find("gh")));
  for (size_t cut = 1; cut < text.size(); ++cut) {
    if ((static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80) continue;  // inside a character
    DocumentFinder finder;
    std::vector<size_t> found = finder.find(text.substr(0, cut));
    for (const size_t at : finder.find(text.substr(cut))) found.push_back(cut + at);
    // A line whose white space is in the first part begins, for the finder, with the second.
    const size_t first = cut == text.find(" cd") + 1 ? cut : text.find(" cd");
    EXPECT_THAT(found, ElementsAre(first, text.find("gh"))) << cut;
  }
}

TEST_F(TokenTextTest, SaysWhatIsWrong) {
  const Units pieces = trained();
  const auto load_says = [&](const std::string& content) { return message_of([&] { load(pieces, content); }); };
  EXPECT_THAT(load_says(""), HasSubstr("--train-sets: no text in '" + (folder_ / "a.txt") + "'; expected"));
  EXPECT_THAT(message_of([&] { load(Units::bytes(), ""); }), HasSubstr("expected a file that is not empty"));
  EXPECT_THAT(load_says("ab\na\xff\n"), testing::AllOf(HasSubstr("a.txt', line 2 (after 4 bytes): is not UTF-8"),
                                                       HasSubstr("or use --vocabs bytes")));
  EXPECT_THAT(load_says("ab\nab\xc3"), HasSubstr("line 2 (after 5 bytes): is not UTF-8"));
  EXPECT_THAT(load_says(std::string("ab\n\nab\0b", 8)),
              HasSubstr("line 3 (after 6 bytes): has a NUL byte and is not text"));
  std::string late;
  for (int i = 0; i < 500'000; ++i) late += "ab\n\n";
  EXPECT_THAT(load_says(late + "\xff" + late + "\xff"), HasSubstr("line 1,000,001 (after 2,000,000 bytes)"));
  EXPECT_EQ(load(Units::bytes(), std::string("a\0\xff", 3)).size(), 3);
  EXPECT_THAT(message_of([&] { load_token_text({folder_ / "none"}, pieces, {.option = "--valid-sets"}); }),
              HasSubstr("--valid-sets: no such file"));
}

}  // namespace
}  // namespace fovea::data::token_text_test
