#include "fovea/text/byte_pairs.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"
#include "fovea/text/byte_pairs_json.h"
#include "fovea/text/units.h"

namespace fovea::text::byte_pairs_test {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// The character that stands for a byte in GPT-2's alphabet, written a second time.
std::string letter_of(int byte) {
  int shifted = 0x100;
  for (int b = 0; b < 256; ++b) {
    const bool shown = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
    const int point = shown ? b : shifted++;
    if (b != byte) continue;
    if (point < 0x80) return {static_cast<char>(point)};
    return {static_cast<char>(0xc0 | (point >> 6)), static_cast<char>(0x80 | (point & 63))};
  }
  return "";
}
std::string letters_of(std::string_view bytes) {
  std::string letters;
  for (const char byte : bytes) letters += letter_of(static_cast<unsigned char>(byte));
  return letters;
}

// Merges as texts of bytes.
const std::vector<std::pair<std::string, std::string>> kMerges = {
    {"a", "b"}, {" ", "a"}, {"ab", "ab"}, {" a", "b"}, {"\xc3", "\xa4"}, {"\n", "\n"}, {"b", "a"}, {"aba", "b"}};

Json tokenizer() {
  Json vocabulary = Json::object(), merges = Json::array();
  for (int byte = 0; byte < 256; ++byte) vocabulary[letter_of(byte)] = byte;
  vocabulary[letters_of("aba")] = 256;
  for (const auto& [left, right] : kMerges) {
    const std::string whole = letters_of(left + right);
    if (!vocabulary.contains(whole)) vocabulary[whole] = vocabulary.size();
    merges.push_back(cat(letters_of(left), " ", letters_of(right)));
  }
  const Json split = {
      {"type", "Split"}, {"pattern", {{"Regex", kLlama3}}}, {"behavior", "Isolated"}, {"invert", false}};
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return {{"normalizer", {{"type", "NFC"}}},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}}},
          {"post_processor", nullptr},
          {"added_tokens",
           {{{"id", 300}, {"content", "<end>"}, {"special", true}},
            {{"id", 301}, {"content", "<endless>"}, {"special", false}}}},
          {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merges}}}};
}

BytePairs made(const Json& json) { return {parse_byte_pairs_json(json.dump(), "t"), "t"}; }
std::vector<int32_t> ids_of(const BytePairs& pairs, std::string_view text) {
  std::vector<int32_t> ids;
  pairs.encode(text, true, ids);
  return ids;
}

// The definition: as long as neighbours can be joined, the first pair of the lowest rank is.
std::vector<std::string> joined(std::string_view word) {
  std::vector<std::string> parts;
  for (const char byte : word) parts.emplace_back(1, byte);
  for (;;) {
    size_t best = kMerges.size(), place = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = std::ranges::find(kMerges, std::pair(parts[i], parts[i + 1]));
      const auto rank = static_cast<size_t>(found - kMerges.begin());
      if (rank < best) best = rank, place = i;
    }
    if (best == kMerges.size()) return parts;
    parts[place] += parts[place + 1];
    parts.erase(parts.begin() + static_cast<int64_t>(place) + 1);
  }
}

TEST(BytePairs, JoinsTheLowestRankFirst) {
  Json json = tokenizer();
  json["normalizer"] = nullptr;
  json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = ".*";
  const BytePairs pairs = made(json);
  Rng rng(1);
  for (int round = 0; round < 2000; ++round) {
    std::string word;
    for (uint64_t size = rng.below(14); size > 0; --size) word.push_back(" aabbab"[rng.below(7)]);
    std::vector<std::string> got;
    for (const int32_t id : ids_of(pairs, word)) got.push_back(pairs.surface(id));
    EXPECT_EQ(got, joined(word)) << "'" << word << "'";
  }
}

TEST(BytePairs, AWordThatIsATokenStaysWhole) {
  Json json = tokenizer();
  json["model"]["vocab"][letters_of("bbb")] = 290;
  EXPECT_EQ(ids_of(made(json), "bbb").size(), 3U);
  json["model"]["ignore_merges"] = true;
  EXPECT_THAT(ids_of(made(json), "bbb"), ElementsAre(290));
}

TEST(BytePairs, FindsAddedTokensAndComposesCharacters) {
  const BytePairs pairs = made(tokenizer());
  EXPECT_THAT(ids_of(pairs, "b<end>b<endless>"), ElementsAre('b', 300, 'b', 301));
  EXPECT_EQ(ids_of(pairs, "a\u0308"), ids_of(pairs, "\u00e4"));
  Json strips = tokenizer();
  strips["added_tokens"][0]["lstrip"] = true;
  strips["added_tokens"][1]["rstrip"] = true;
  EXPECT_THAT(ids_of(made(strips), "b \n<end> b<endless>  \tb"), ElementsAre('b', 300, ' ', 'b', 301, 'b'));
  // Separators such as U+001C are not white space there.
  EXPECT_THAT(ids_of(made(strips), "\x1c\v<end><endless>\u00a0\x1f"), ElementsAre(0x1c, 300, 301, 0x1f));
}

TEST(BytePairs, ABlankStandsBeforeATextWithoutOne) {
  Json json = tokenizer();
  json["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"use_regex", true}};
  const BytePairs pairs = made(json);
  EXPECT_EQ(ids_of(pairs, "ab"), ids_of(pairs, " ab"));
  EXPECT_THAT(ids_of(pairs, "\tb"), ElementsAre(' ', '\t', 'b'));
  EXPECT_THAT(ids_of(pairs, "<end>\nb"), ElementsAre(300, ' ', '\n', 'b'));
  EXPECT_THAT(ids_of(pairs, ""), ElementsAre());
}

TEST(BytePairs, SplitsAsThePatternSays) {
  const SplitPattern pattern(kLlama3, "p");
  const auto parts = [&](std::string_view text) {
    std::vector<std::string> all;
    pattern.split(text, [&](std::string_view part) { all.emplace_back(part); });
    return all;
  };
  EXPECT_THAT(parts("It's 12345  \u00e4b\u4f60!?\n\n x\u000b"),
              ElementsAre("It", "'s", " ", "123", "45", " ", " \u00e4b\u4f60", "!?\n\n", " x", "\u000b"));
  EXPECT_THAT(parts("\U0001f600a \U0001f600"), ElementsAre("\U0001f600a", " \U0001f600"));
  EXPECT_THAT(parts(""), ElementsAre());
  // White space is Unicode's: \v and U+0085 too.
  EXPECT_THAT(parts("\u0085\u000b\u00a0"), ElementsAre("\u0085\u000b\u00a0"));
}

// As tokenizers.pre_tokenizers.Split(Regex(pattern), "isolated") does.
TEST(BytePairs, PatternsMeanWhatTheyDoInOniguruma) {
  const auto parts = [](const char* pattern, std::string_view text) {
    std::vector<std::string> all;
    SplitPattern(pattern, "p").split(text, [&](std::string_view part) { all.emplace_back(part); });
    return all;
  };
  EXPECT_THAT(parts("^.", "ab\ncd\r\ue000"), ElementsAre("a", "b\n", "c", "d\r\ue000"));
  EXPECT_THAT(parts("b+$", "bb\nb\rbb"), ElementsAre("bb", "\nb\r", "bb"));
  EXPECT_THAT(parts(".+", "a\rb\u2028c\nd"), ElementsAre("a\rb\u2028c", "\n", "d"));
  EXPECT_THAT(parts("\\w+", "a\u00bd\u2167\u24d0!\u2460"), ElementsAre("a\u00bd\u2167\u24d0", "!\u2460"));
  EXPECT_THAT(parts("\\W+", "a!\u200d\u00b2"), ElementsAre("a", "!\u200d", "\u00b2"));
  EXPECT_THAT(parts("\\h+", "x0fgA "), ElementsAre("x", "0f", "g", "A", " "));
  // Empty matches split the text too.
  EXPECT_THAT(parts("(?=(\\d{3})+(?!\\d))", "a1234567 12"), ElementsAre("a1", "234", "567 12"));
  EXPECT_THAT(parts("(?<=,)|b+", "abb,b,c"), ElementsAre("a", "bb", ",", "b,", "c"));
  EXPECT_THAT(parts("x*", "axxb\U0001f600"), ElementsAre("a", "xx", "b", "\U0001f600"));
}

TEST(BytePairs, CutsChangeNothing) {
  const BytePairs pairs = made(tokenizer());
  for (const std::string text :
       {"abab ab abba  ab\nba ab", "ab\u3002ab\uff0cabab ab", "ab <end>ab ab 12 ab", "ababab"}) {
    size_t cuts = 0;
    for (size_t most = 1; most <= text.size(); ++most) {
      const size_t cut = pairs.cut(text, most);
      EXPECT_LE(cut, most);
      if (cut == 0) continue;
      ++cuts;
      std::vector<int32_t> both = ids_of(pairs, text.substr(0, cut));
      pairs.encode(std::string_view(text).substr(cut), false, both);
      EXPECT_EQ(both, ids_of(pairs, text)) << "'" << text << "' cut at " << cut;
    }
    EXPECT_EQ(cuts == 0, text == "ababab");
  }
}

TEST(BytePairs, UnitsGiveTheTextBack) {
  const std::map<std::string, std::string> files = {{"tokenizer.json", tokenizer().dump()},
                                                    {"tokenizer_config.json", R"({"eos_token": "<end>"})"}};
  const Units units = Units::from_files(files, "folder");
  EXPECT_EQ(units.unit_name(), "token");
  EXPECT_EQ(units.eos(), 300);
  EXPECT_EQ(units.begin(), 300);
  EXPECT_EQ(units.size(), 302);
  EXPECT_EQ(units.with_rows(310).size(), 310);
  EXPECT_EQ(units.files(), files);
  for (const std::string text : {"", "abab\n\nab\r\n", "\u00e4\U0001f600 <endless> \t", "a\nb"}) {
    std::vector<int32_t> ids;
    units.encode(text, ids);
    std::vector<int64_t> wide(ids.begin(), ids.end());
    wide.push_back(300);  // the end of a text
    EXPECT_EQ(units.decode(wide), text);
  }
  EXPECT_EQ(units.with_rows(310).decode(std::vector<int64_t>{'a', 305, 'b'}), "ab");
}

TEST(BytePairs, ATokenMayBeginEachText) {
  Json json = tokenizer();
  json["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", {{{"SpecialToken", {{"id", "<endless>"}}}}, {{"Sequence", {{"id", "A"}}}}}}};
  const auto units = [&](const char* config) {
    return Units::from_files({{"tokenizer.json", json.dump()}, {"tokenizer_config.json", config}}, "f");
  };
  EXPECT_EQ(units(R"({"eos_token": {"content": "<end>"}})").begin(), 301);
  json["post_processor"] = nullptr;
  EXPECT_EQ(units(R"({"eos_token": "<end>", "bos_token": "<endless>"})").begin(), 300);
  EXPECT_EQ(units(R"({"eos_token": "<end>", "bos_token": "<endless>", "add_bos_token": true})").begin(), 301);
  EXPECT_THAT(message_of([&] { units("{}"); }), HasSubstr("eos_token is missing"));
  EXPECT_THAT(message_of([&] { units(R"({"eos_token": "<x>"})"); }), HasSubstr("eos_token: got '<x>'"));
}

TEST(BytePairs, RefusesWhatItDoesNotCompute) {
  const auto problem = [](const std::function<void(Json&)>& change) {
    Json json = tokenizer();
    change(json);
    return message_of([&] { made(json); });
  };
  EXPECT_THAT(problem([](Json& j) { j["model"]["type"] = "Unigram"; }), HasSubstr("model: got the type 'Unigram'"));
  EXPECT_THAT(problem([](Json& j) { j["model"]["byte_fallback"] = true; }),
              HasSubstr("expected Prepend and Replace with U+2581"));
  EXPECT_THAT(problem([](Json& j) { j["model"]["vocab"].erase(letter_of(7)); }), HasSubstr("the byte 7"));
  EXPECT_THAT(problem([](Json& j) { j["model"]["vocab"]["new"] = 5; }), HasSubstr("the number 5 twice"));
  EXPECT_THAT(problem([](Json& j) { j["model"]["merges"].push_back("a zz"); }), HasSubstr("the token 'zz'"));
  EXPECT_THAT(problem([](Json& j) { j["model"]["merges"][0] = 3; }), HasSubstr("merges 1: got 3"));
  EXPECT_THAT(problem([](Json& j) { j["normalizer"]["type"] = "NFKC"; }), HasSubstr("normalizer: got the type 'NFKC'"));
  EXPECT_THAT(problem([](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Removed"; }),
              HasSubstr("behavior 'Removed'"));
  EXPECT_THAT(problem([](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "("; }),
              HasSubstr("'(' is not a regular expression"));
  EXPECT_THAT(problem([](Json& j) { j["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true; }),
              HasSubstr("add_prefix_space"));
  EXPECT_THAT(problem([](Json& j) { j["added_tokens"][0]["id"] = 3; }), HasSubstr("the number 3 twice"));
  EXPECT_THAT(problem([](Json& j) {
                j["post_processor"] = {{"type", "BertProcessing"}};
              }),
              HasSubstr("post_processor: got the type 'BertProcessing'"));
  EXPECT_THAT(message_of([] { parse_byte_pairs_json("[", "t"); }), HasSubstr("t: is not a JSON object"));
}

}  // namespace
}  // namespace fovea::text::byte_pairs_test
