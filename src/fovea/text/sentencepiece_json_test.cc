#include "fovea/text/sentencepiece_json.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/text/piece_order.h"
#include "fovea/text/vocab.h"

namespace fovea::text::sentencepiece_json_test {
namespace {

using Json = nlohmann::json;

// A tokeniser of the letters a and b, which has all merges of its pieces.
Json tokenizer() {
  return {{"added_tokens",
           {{{"id", 0}, {"content", "<s>"}},
            {{"id", 1}, {"content", "<pad>"}},
            {{"id", 2}, {"content", "</s>"}},
            {{"id", 3}, {"content", "<unk>"}},
            {{"id", 10}, {"content", "deu_Latn"}},
            {{"id", 11}, {"content", "<mask>"}}}},
          {"normalizer",
           {{"type", "Sequence"},
            {"normalizers", {{{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}}}}}},
          {"pre_tokenizer",
           {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}, {"split", true}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"fuse_unk", true},
            {"byte_fallback", false},
            {"vocab",
             {{"<s>", 0},
              {"<pad>", 1},
              {"</s>", 2},
              {"<unk>", 3},
              {"\u2581", 4},
              {"a", 5},
              {"b", 6},
              {"ab", 7},
              {"\u2581a", 8},
              {"\u2581ab", 9}}},
            {"merges", {"a b", "\u2581 a", "\u2581 ab", "\u2581a b"}}}}};
}

Vocab vocab_of(const std::string& json) {
  const std::vector<std::string> pieces = parse_nllb_pieces(json, "f");
  return Vocab::from_bytes(with_piece_order(parse_nllb_model(json, "f"), pieces, "f", NewPieces::kPrintNothing).bytes,
                           "f");
}

std::string refusal(const std::function<void(Json&)>& change) {
  Json json = tokenizer();
  change(json);
  try {
    (void)parse_nllb_pieces(json.dump(), "f");
    (void)parse_nllb_model(json.dump(), "f");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(SentencePieceJson, LanguagesAreMarks) {
  EXPECT_EQ(parse_nllb_pieces(tokenizer().dump(), "f"),
            (std::vector<std::string>{"<s>", "<pad>", "</s>", "<unk>", "\u2581", "a", "b", "ab", "\u2581a", "\u2581ab",
                                      ">>deu_Latn<<", "<mask>"}));
}

TEST(SentencePieceJson, SplitsByTheOrderOfMerges) {
  const Vocab vocab = vocab_of(tokenizer().dump());
  const auto pieces = [&](const char* text) { return vocab.pieces(text); };
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(pieces("ab"), Pieces{"\u2581ab"});
  EXPECT_EQ(pieces("aab"), (Pieces{"\u2581a", "ab"}));
  EXPECT_EQ(pieces("ba  a"), (Pieces{"\u2581", "b", "a", "\u2581a"}));
  EXPECT_EQ(vocab.encode("xyb"), (std::vector<int64_t>{4, 3, 6}));
  EXPECT_EQ(vocab.encode(">>deu_Latn<< ab"), (std::vector<int64_t>{10, 9}));
  EXPECT_EQ(vocab.eos(), 2);
  // The other order: the blank joins first, and "ab" is never made behind it.
  Json other = tokenizer();
  other["model"]["merges"] = Json::array({Json::array({"\u2581", "a"}), Json::array({"a", "b"}),
                                          Json::array({"\u2581", "ab"}), Json::array({"\u2581a", "b"})});
  EXPECT_EQ(vocab_of(other.dump()).pieces("aab"), (Pieces{"\u2581a", "ab"}));
  EXPECT_EQ(vocab_of(other.dump()).pieces("ab"), Pieces{"\u2581ab"});
}

TEST(SentencePieceJson, OtherTokenisersAreRefused) {
  const auto says = [](const std::string& text, const std::function<void(Json&)>& change) {
    const std::string got = refusal(change);
    EXPECT_NE(got.find(text), std::string::npos) << got;
    EXPECT_TRUE(got.starts_with("f: ")) << got;
  };
  EXPECT_EQ(refusal([](Json&) {}), "");
  says("model: got the type 'Unigram'; expected BPE", [](Json& j) { j["model"]["type"] = "Unigram"; });
  says("model: byte_fallback: got true; expected false", [](Json& j) { j["model"]["byte_fallback"] = true; });
  says("model: fuse_unk: got false; expected true", [](Json& j) { j["model"].erase("fuse_unk"); });
  says("model: dropout: got 0.5; expected none", [](Json& j) { j["model"]["dropout"] = 0.5; });
  says("model: unk_token: got none", [](Json& j) { j["model"].erase("unk_token"); });
  says("model: unk_token: got '?'; expected a token of vocab", [](Json& j) { j["model"]["unk_token"] = "?"; });
  says("pre_tokenizer: got the type 'ByteLevel'; expected Metaspace",
       [](Json& j) { j["pre_tokenizer"]["type"] = "ByteLevel"; });
  says("pre_tokenizer: prepend_scheme: got 'first'; expected always",
       [](Json& j) { j["pre_tokenizer"]["prepend_scheme"] = "first"; });
  says("pre_tokenizer: replacement: got '_'; expected U+2581",
       [](Json& j) { j["pre_tokenizer"]["replacement"] = "_"; });
  says("pre_tokenizer: split: got false; expected true", [](Json& j) { j["pre_tokenizer"]["split"] = false; });
  says("normalizer: got the type 'NFKC'; expected Precompiled, Strip and Replace", [](Json& j) {
    j["normalizer"] = {{"type", "NFKC"}};
  });
  says("normalizer: got none that joins blanks", [](Json& j) { j["normalizer"]["normalizers"] = Json::array(); });
  says("normalizer: precompiled_charsmap: got another text; expected bytes in base64", [](Json& j) {
    j["normalizer"]["normalizers"].push_back({{"type", "Precompiled"}, {"precompiled_charsmap", "?"}});
  });
  says("added_tokens: got 3; expected a list", [](Json& j) { j["added_tokens"] = 3; });
  says("added_tokens: got 3; expected an object", [](Json& j) { j["added_tokens"].push_back(3); });
  says("added_tokens: content is missing", [](Json& j) { j["added_tokens"].push_back({{"id", 12}}); });
  says("the tokens 'a' and 'z' both have the number 5", [](Json& j) { j["model"]["vocab"]["z"] = 5; });
  says("the number 12 belongs to no token", [](Json& j) { j["model"]["vocab"]["z"] = 13; });
}

TEST(SentencePieceJson, OtherMergesAreRefused) {
  const auto says = [](const std::string& text, const Json& merges, const std::vector<const char*>& more = {}) {
    const std::string got = refusal([&](Json& j) {
      j["model"]["merges"] = merges;
      for (const char* const piece : more) j["model"]["vocab"][piece] = j["model"]["vocab"].size() + 2;
    });
    EXPECT_NE(got.find(text), std::string::npos) << got;
  };
  says("model: merges: got none; expected a list", nullptr);
  says("got 3 merges; expected 4, all pairs of tokens that give a third", {"a b", "\u2581 a", "\u2581 ab"});
  says("two places of merges that give '\u2581ab'", {"\u2581 ab", "a b", "\u2581 a", "\u2581a b"});
  says("got \"a b\" twice; expected each once", {"a b", "a b", "\u2581 a", "\u2581 ab"});
  says("got \"b a\"; expected two tokens of text that give a third", Json::array({"b a"}));
  says("got 3; expected two tokens", Json::array({3}));
  says("got \"a b c\"; expected two tokens", Json::array({"a b c"}));
  says("got an array; expected two tokens", Json::array({Json::array({"a"})}));
  const Json whole = {"a b", "\u2581 a", "\u2581 ab", "\u2581a b"};
  says("the token 'a\u2581b'; expected U+2581 at the beginning of tokens alone", whole, {"a\u2581b"});
  says("got a token of 300 bytes; expected tokens of 1 to 256", whole, {std::string(300, 'z').c_str()});
}

// Any bytes give a vocabulary or an Error of one line.
TEST(SentencePieceJson, ChangedBytesAreRefusedInOneLine) {
  const std::string json = tokenizer().dump();
  for (size_t at = 0; at < json.size(); ++at)
    for (const char byte : {'\0', '"', '}', '9', '\n', '\xff'}) {
      std::string changed = json;
      changed[at] = byte;
      try {
        (void)vocab_of(changed).encode("ab  ba xa");
      } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()).find_first_of("\r\n"), std::string::npos) << at << " " << error.what();
      }
      try {
        (void)vocab_of(json.substr(0, at));
        ADD_FAILURE() << "a file that is cut at " << at << " was read";
      } catch (const Error&) {
      }
    }
}

}  // namespace
}  // namespace fovea::text::sentencepiece_json_test
