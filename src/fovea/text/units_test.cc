#include "fovea/text/units.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "fovea/base/file.h"
#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"
#include "fovea/text/unit_decoder.h"
#include "fovea/text/utf8.h"

namespace fovea::text::units_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kAwkward[] = {"",
                                    "\n",
                                    "\n\nbaba abab\n\n",
                                    "baba",
                                    "ba  ba\tab \n  abba",
                                    "\r\nbaba\r\n",
                                    "ab\u2581ba\n\u2581\n",
                                    "ba\u00e4\U0001f600\u4f60\u597d ab\U0001f468\u200d\U0001f469\n"};

std::vector<int32_t> ids_of(const Units& units, std::string_view text) {
  std::vector<int32_t> ids;
  units.encode(text, ids);
  return ids;
}
std::vector<int64_t> wide(const std::vector<int32_t>& ids) { return {ids.begin(), ids.end()}; }

class UnitsTest : public testing::Test {
 protected:
  UnitsTest() { write_file(folder_ / "a.txt", "aba abba bab\nbaba abab\naab \u00e4\u00df\n"); }
  Units trained(const std::string& type, bool byte_fallback = false, const std::string& normalization = kIdentity) {
    const std::string path = folder_ / cat(type, byte_fallback, normalization, ".spm");
    train_vocab({.inputs = {folder_ / "a.txt"},
                 .output = path,
                 .size = byte_fallback ? 265 : 9,
                 .type = type,
                 .normalization = normalization,
                 .byte_fallback = byte_fallback});
    return Units::load(path);
  }
  TestFolder folder_;
};

TEST_F(UnitsTest, BytesAreTheTextItself) {
  const Units units = Units::load("bytes");
  EXPECT_TRUE(units.is_bytes());
  EXPECT_EQ(units.size(), 257);
  EXPECT_EQ(units.eos(), 256);
  EXPECT_EQ(units.unk(), std::nullopt);
  EXPECT_EQ(units.unit_name(), "byte");
  EXPECT_THAT(ids_of(units, "a\r\n\xff"), ElementsAre('a', '\r', '\n', 0xff));
  for (const char* text : kAwkward) EXPECT_EQ(units.decode(wide(ids_of(units, text))), text);
  const std::vector<int64_t> two_documents = {'a', 256, 'b'};
  EXPECT_EQ(units.decode(two_documents), "ab");
}

TEST_F(UnitsTest, TheEndOfASentenceIsTheLineEnd) {
  for (const char* type : {"unigram", "bpe"}) {
    const Units units = trained(type);
    EXPECT_EQ(units.unit_name(), "piece");
    const auto eos = static_cast<int32_t>(units.eos());
    EXPECT_THAT(ids_of(units, "\n\r\n"), ElementsAre(eos, eos));
    EXPECT_THAT(ids_of(units, "baba"), testing::Not(testing::Contains(eos)));
    std::vector<int32_t> lines = ids_of(units, "baba abab\n");
    EXPECT_EQ(lines.back(), eos);
    units.encode("aba\n", lines);
    EXPECT_EQ(lines, ids_of(units, "baba abab\r\naba\n"));
    EXPECT_EQ(units.decode(wide(lines)), "baba abab\naba\n");
    EXPECT_EQ(units.decode(wide(ids_of(units, "\n\naba\n\nab"))), "\n\naba\n\nab");
  }
}

// The library decodes whole lines; the decoder puts them together piece by piece.
TEST_F(UnitsTest, DecodesLinesAsTheLibraryDoes) {
  const std::vector<Units> all = {trained("unigram"),   trained("bpe"),  trained("unigram", true),
                                  trained("bpe", true), trained("word"), trained("char")};
  for (const Units& units : all) {
    Rng rng(1);
    for (int round = 0; round < 300; ++round) {
      std::vector<int64_t> line;
      for (uint64_t size = rng.below(12); size > 0; --size) {
        const auto id = static_cast<int64_t>(rng.below(static_cast<uint64_t>(units.size())));
        if (id != units.eos()) line.push_back(id);
      }
      EXPECT_EQ(units.decode(line), units.vocab()->decode(line)) << units.unit_name() << " round " << round;
    }
  }
}

TEST_F(UnitsTest, WordsAndCharactersGiveTheTextBack) {
  const Units words = trained("word"), characters = trained("char");
  EXPECT_EQ(words.unit_name(), "word");
  EXPECT_EQ(characters.unit_name(), "char");
  for (const std::string text : {"", "\n", "\n\nbaba  abab\n\n", "ab  \u00e4b ", "  \n ab", "baba"}) {
    EXPECT_EQ(characters.decode(wide(ids_of(characters, text))), text);
    EXPECT_EQ(ids_of(characters, text).size(), text.size() - (text.find("\u00e4") != std::string::npos ? 1 : 0));
  }
  EXPECT_EQ(words.decode(wide(ids_of(words, " aba\u3000 bab \r\n\taab nix\n\nnix nix"))),
            "aba bab\naab <unk>\n\n<unk> <unk>");
  EXPECT_EQ(characters.decode(wide(ids_of(characters, "axx\r\nb"))), "a\u2047\u2047\nb");
}

// Only U+2581 comes back changed from a vocabulary that does not normalise.
TEST_F(UnitsTest, PiecesGiveTheTextBack) {
  write_file(folder_ / "a.txt", read_file(folder_ / "a.txt") + "ab\tba\n");
  const std::vector<Units> all = {trained("unigram", true), trained("bpe", true)};
  for (const Units& units : all) {
    for (std::string text : kAwkward) {
      const std::string given = text;
      for (size_t at = 0; (at = text.find("\u2581")) != std::string::npos;) text.replace(at, 3, " ");
      text.erase(std::remove(text.begin(), text.end(), '\r'), text.end());
      EXPECT_EQ(units.decode(wide(ids_of(units, given))), text);
    }
  }
}

// A SentencePiece model of a folder encodes a text whole: a line end is a byte, and </s> only ends the text.
TEST_F(UnitsTest, ASentencePieceModelOfAFolderKeepsLineEnds) {
  const Units lines = trained("bpe", true);
  const Units units = Units::from_files(
      {{"tokenizer.model", lines.contents()},
       {"tokenizer_config.json", R"({"eos_token": "</s>", "bos_token": "<unk>", "add_bos_token": true})"}},
      "folder");
  EXPECT_TRUE(units.is_of_folder());
  EXPECT_FALSE(units.has_lines());
  EXPECT_EQ(units.begin(), lines.vocab()->unk());
  for (const std::string text : {"", "baba abab\nab  ba\r\n", "\n\nab\u00e4 ba ab\nba aba\n ab"}) {
    const std::vector<int32_t> whole = ids_of(units, text);
    EXPECT_EQ(units.decode(wide(whole)), text);
    EXPECT_THAT(whole, testing::Not(testing::Contains(static_cast<int32_t>(units.eos()))));
    for (size_t most = 1; most <= text.size(); ++most) {
      const size_t cut = units.cut(text, most);
      if (cut == 0) continue;
      std::vector<int32_t> both = ids_of(units, text.substr(0, cut));
      units.encode(std::string_view(text).substr(cut), both, Units::Begin::kInside);
      EXPECT_EQ(both, whole) << "'" << text << "' cut at " << cut;
    }
  }
  EXPECT_THAT(message_of([&] {
                Units::from_files({{"tokenizer.model", lines.contents()}}, "folder");
              }),
              HasSubstr("expected units.spm or units.txt"));
}

TEST_F(UnitsTest, ASentencePieceModelFindsAddedTokens) {
  const Units lines = trained("bpe", true);
  const int64_t size = lines.vocab()->size();
  const std::string model = lines.contents();
  const auto with = [&](const std::string& config, std::map<std::string, std::string> more = {}) {
    more["tokenizer.model"] = model;
    more["tokenizer_config.json"] = config;
    return Units::from_files(more, "folder");
  };
  const std::string ends = R"("eos_token": "</s>", "add_bos_token": false)";
  const std::string list = cat(R"({"<a>": )", size, R"(, "<b>": )", size + 5, "}");
  const Units units = with(cat("{", ends, "}"), {{"added_tokens.json", list}});
  EXPECT_EQ(units.size(), size + 6);
  EXPECT_EQ(units.find("<b>"), size + 5);
  EXPECT_EQ(units.surface(size), "<a>");
  EXPECT_EQ(units.surface(size + 2), "");
  const auto joined = [&](std::vector<int32_t> first, int64_t token, const std::vector<int32_t>& last) {
    first.push_back(static_cast<int32_t>(token));
    first.insert(first.end(), last.begin(), last.end());
    return first;
  };
  EXPECT_EQ(ids_of(units, "aba<a>bab"), joined(ids_of(lines, "aba"), size, ids_of(lines, "bab")));
  EXPECT_EQ(units.decode(wide(ids_of(units, "aba<a>bab"))), "aba<a> bab");
  // Without a blank behind tokens, the text keeps its own.
  const Units plain = with(cat("{", ends, R"(, "legacy": false})"), {{"added_tokens.json", list}});
  EXPECT_EQ(plain.decode(wide(ids_of(plain, "aba<a>bab <b> ab"))), "aba<a>bab <b> ab");
  // The flags of tokenizer_config.json; the end of a text is found, too.
  const Units flags = with(cat("{", ends, R"(, "added_tokens_decoder": {")", size,
                               R"(": {"content": "<a>", "rstrip": true}, "0": {"content": "</s>"}}})"));
  EXPECT_EQ(ids_of(flags, "aba<a>  bab</s>"),
            joined(joined(ids_of(lines, "aba"), size, ids_of(lines, "bab")), flags.eos(), {}));
  for (const char* wrong : {R"({"x": {"content": "a"}})", R"({"4": 1})", R"({"5000000": {"content": "a"}})"})
    EXPECT_THAT(message_of([&] { with(cat("{", ends, R"(, "added_tokens_decoder": )", wrong, "}")); }),
                HasSubstr("folder"));
}

TEST_F(UnitsTest, AFolderNamesTheEndsOfTexts) {
  const std::string model = trained("bpe", true).contents();
  const auto ends_of = [&](const std::string& generation) {
    return Units::from_files({{"tokenizer.model", model},
                              {"tokenizer_config.json", R"({"eos_token": "</s>", "add_bos_token": false})"},
                              {"generation_config.json", generation}},
                             "folder")
        .ends();
  };
  EXPECT_EQ(ends_of("{}"), std::vector<int64_t>{0});
  EXPECT_EQ(ends_of(R"({"eos_token_id": 3})"), (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(ends_of(R"({"eos_token_id": [5, 0, 3, 5]})"), (std::vector<int64_t>{0, 5, 3}));
  for (const char* wrong : {R"({"eos_token_id": -1})", R"({"eos_token_id": "x"})", R"({"eos_token_id": [[1]]})",
                            R"({"eos_token_id": 9999999})", "[]"})
    EXPECT_THAT(message_of([&] { ends_of(wrong); }), HasSubstr("folder/generation_config.json")) << wrong;
  // A folder whose config.json alone names them.
  write_file(folder_ / "tokenizer.model", model);
  write_file(folder_ / "tokenizer_config.json", R"({"eos_token": "</s>", "add_bos_token": false})");
  write_file(folder_ / "config.json", R"({"eos_token_id": [0, 4]})");
  const auto files = token_files(folder_ / ".");
  EXPECT_EQ(files.at("generation_config.json"), "{\n  \"eos_token_id\": [\n    0,\n    4\n  ]\n}\n");
  EXPECT_EQ(Units::from_files(files, "folder").ends(), (std::vector<int64_t>{0, 4}));
}

TEST_F(UnitsTest, DecodingAsItGoesGivesTheWholeText) {
  const std::vector<Units> all = {Units::bytes(), trained("unigram"), trained("bpe", true), trained("word"),
                                  trained("char")};
  for (const Units& units : all) {
    for (const char* text : kAwkward) {
      const std::vector<int64_t> ids = wide(ids_of(units, text));
      UnitDecoder decoder(units);
      std::string whole;
      for (const int64_t id : ids) {
        const std::string part = decoder.push(id);
        EXPECT_TRUE(is_valid_utf8(part)) << "'" << part << "' is cut in a character";
        whole += part;
      }
      whole += decoder.finish();
      EXPECT_EQ(whole, units.decode(ids)) << units.unit_name();
    }
  }
}

TEST_F(UnitsTest, ACharacterComesOutWithItsLastByte) {
  UnitDecoder decoder(Units::bytes());
  EXPECT_EQ(decoder.push('a'), "a");
  for (const int64_t byte : {0xf0, 0x9f, 0x98}) EXPECT_EQ(decoder.push(byte), "");
  EXPECT_EQ(decoder.push(0x80), "\U0001f600");
  EXPECT_EQ(decoder.push(0xf0), "");
  EXPECT_EQ(decoder.push('b'),
            "\xf0"
            "b");
  EXPECT_EQ(decoder.push(0xe4), "");
  EXPECT_EQ(decoder.finish(), "\xe4");
  EXPECT_EQ(decoder.push(0xe4), "");
  EXPECT_EQ(decoder.push(256), "\xe4");
}

// The text before a cut does not change the units of the text behind it.
TEST_F(UnitsTest, CutsChangeNothing) {
  const std::vector<Units> all = {Units::bytes(),  trained("unigram"), trained("bpe", true),
                                  trained("word"), trained("char"),    trained("bpe", false, "nmt_nfkc")};
  for (const Units& units : all) {
    for (const std::string text : {"baba abab\naba ab  ba\u00e4\u00df", "ab ab   ab\r\nab", "\u4f60\u597d ab\r\r\n ab",
                                   "ab \r\n  ab  \nab \u2581ab "}) {
      const std::vector<int32_t> whole = ids_of(units, text);
      for (size_t most = 1; most <= text.size(); ++most) {
        const size_t at = units.cut(text, most);
        EXPECT_LE(at, most);
        std::vector<int32_t> parts = ids_of(units, std::string_view(text).substr(0, at));
        const bool is_inside = at > 0 && text[at - 1] != '\n';
        units.encode(std::string_view(text).substr(at), parts, is_inside ? Units::Begin::kInside : Units::Begin::kLine);
        EXPECT_EQ(parts, whole) << units.unit_name() << " '" << text << "' at " << at;
      }
    }
  }
  EXPECT_EQ(Units::bytes().cut("ab\u00e4", 3), 2);
  EXPECT_EQ(all[1].cut("ab ab", 5), 2);
  EXPECT_EQ(all[1].cut("ab\nab ab", 8), 3);
  EXPECT_EQ(all[1].cut("abab", 4), 0);
  EXPECT_EQ(all[4].cut("ab\u00e4", 3), 2);
  EXPECT_EQ(all[4].cut("ab\r", 3), 2);
}

TEST_F(UnitsTest, ACheckpointsFileGivesThemBack) {
  const std::vector<Units> all = {Units::bytes(), trained("bpe")};
  for (const Units& units : all) {
    const Units again = Units::from_file(units.file_name(), units.contents());
    EXPECT_EQ(again.unit_name(), units.unit_name());
    EXPECT_EQ(again.contents(), units.contents());
  }
  EXPECT_EQ(Units::bytes().file_name(), "units.txt");
  EXPECT_EQ(Units::bytes().contents(), "bytes\n");
  EXPECT_EQ(all[1].file_name(), "units.spm");
}

TEST_F(UnitsTest, SaysWhatIsWrong) {
  EXPECT_THAT(message_of([&] { Units::load(folder_ / "none.spm"); }), HasSubstr("no such file"));
  EXPECT_THAT(message_of([&] { Units::from_file("units.txt", "chars\n"); }),
              HasSubstr("'units.txt' is damaged; expected the word 'bytes'"));
  EXPECT_THAT(message_of([&] { Units::from_file("source.spm", "x"); }),
              HasSubstr("got the file 'source.spm'; expected units.spm or units.txt"));
  EXPECT_THAT(message_of([&] { Units::bytes().decode(std::vector<int64_t>{257}); }),
              HasSubstr("got unit 257; expected 0 to 256"));
}

TEST(Utf8, ValidTextHasNoCutCharacter) {
  Rng rng(3);
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    constexpr unsigned char kBytes[] = {'a',  0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc1,
                                        0xc2, 0xe0, 0xed, 0xef, 0xf0, 0xf4, 0xf5};
    for (uint64_t size = 1 + rng.below(4); size > 0; --size)
      text.push_back(static_cast<char>(kBytes[rng.below(std::size(kBytes))]));
    EXPECT_TRUE(!is_valid_utf8(text) || cut_character(text) == 0);
  }
  EXPECT_EQ(cut_character("a\xf0\x9f\x98"), 3U);
  EXPECT_EQ(cut_character("\xe4\xbd"), 2U);
  EXPECT_EQ(cut_character("\xed\xa0"), 0U);  // a surrogate
}

TEST(Utf8, WhiteSpaceIsPythons) {
  for (const std::string_view space : kWhiteSpaces) EXPECT_EQ(white_space_size(space), space.size());
  for (const char* other : {"", "a", "\u200b", "\u2581", "\u00ad", "\u3001", "\ufeff", "\x1b"})
    EXPECT_EQ(white_space_size(other), 0U) << other;
}

}  // namespace
}  // namespace fovea::text::units_test
