#include "fovea/text/tokenizer_json.h"

#include <gmock/gmock.h>

#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"
#include "fovea/text/json_values.h"

namespace fovea::text::tokenizer_json_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kFile = R"({
  "version": "1.0", "truncation": null, "padding": null,
  "added_tokens": [{"id": 4, "content": "<x>", "single_word": true, "lstrip": false, "rstrip": false,
                    "normalized": true, "special": false},
                   {"id": 0, "content": "[UNK]", "special": true}],
  "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
                 "lowercase": false},
  "pre_tokenizer": {"type": "BertPreTokenizer"},
  "post_processor": {"type": "TemplateProcessing",
                     "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                                {"SpecialToken": {"id": "</s>", "type_id": 0}}]},
  "decoder": {"type": "WordPiece"},
  "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 50, "vocab": {"</s>": 3, "<s>": 2, "a": 1, "[UNK]": 0}}
})";

// The file with a change, in the words of RFC 7396: null takes a field out.
std::string changed(const std::string& patch) {
  Json file = Json::parse(kFile);
  file.merge_patch(Json::parse(patch));
  return file.dump();
}

TEST(TokenizerJson, SaysAllOfATokeniser) {
  const WordPieceModel model = parse_tokenizer_json(kFile, "t.json");
  EXPECT_EQ(model.pieces, "[UNK]\na\n<s>\n</s>\n");
  EXPECT_EQ(model.options, (WordPieceOptions{.lowercase = false, .strip_accents = false}));
  EXPECT_EQ(model.rules, (WordPieceRules{.begin = "<s>", .end = "</s>", .most_characters = 50}));
  EXPECT_THAT(model.added, ElementsAre(AddedToken{.content = "<x>", .id = 4, .single_word = true, .normalized = true},
                                       AddedToken{.content = "[UNK]", .id = 0, .special = true}));
  EXPECT_EQ(parse_added_tokens(print_added_tokens(model.added), "list"), model.added);
}

TEST(TokenizerJson, OtherForms) {
  const auto parse = [](const std::string& patch) { return parse_tokenizer_json(changed(patch), "t.json"); };
  const WordPieceOptions options = parse(R"({"normalizer": {"lowercase": true, "strip_accents": false,
                                             "handle_chinese_chars": false, "clean_text": false}})")
                                       .options;
  EXPECT_EQ(options, (WordPieceOptions{.strip_accents = false, .split_chinese = false, .drop_controls = false}));
  EXPECT_TRUE(parse(R"({"normalizer": {"lowercase": true}})").options.strip_accents) << "null follows the case";
  EXPECT_EQ(parse(R"({"post_processor": null})").rules.begin, "[CLS]");
  EXPECT_EQ(
      parse(R"({"post_processor": {"type": "BertProcessing", "single": null, "sep": ["a", 1], "cls": ["<s>", 2]}})")
          .rules.end,
      "a");
  EXPECT_EQ(parse(R"({"model": {"type": null}})").pieces.size(), 17U) << "old files do not say the type";
  EXPECT_EQ(parse(R"({"model": {"vocab": {"a": null}}})").pieces, "[UNK]\n\n<s>\n</s>\n") << "a number without piece";
  EXPECT_TRUE(parse(R"({"added_tokens": null})").added.empty());
}

TEST(TokenizerJson, RefusesOthersInOneLine) {
  const auto problem = [](const std::string& patch) {
    return message_of([&] { parse_tokenizer_json(changed(patch), "t.json"); });
  };
  EXPECT_EQ(message_of([] { parse_tokenizer_json("[UNK]\n", "t.json"); }), "t.json: is not a JSON object");
  EXPECT_EQ(message_of([] { parse_tokenizer_json("{}", "t.json"); }), "t.json: model is missing");
  EXPECT_EQ(problem(R"({"model": {"type": "BPE"}})"),
            "t.json: model: got the type 'BPE'; expected WordPiece, as BERT's tokenisers have");
  EXPECT_THAT(problem(R"({"model": {"type": null, "continuing_subword_prefix": null}})"), HasSubstr("the type 'none'"));
  EXPECT_THAT(problem(R"({"normalizer": {"type": "Lowercase"}})"), HasSubstr("normalizer: got the type 'Lowercase'"));
  EXPECT_THAT(problem(R"({"normalizer": null})"),
              HasSubstr("normalizer: got the type 'none'; expected BertNormalizer"));
  EXPECT_THAT(problem(R"({"pre_tokenizer": {"type": "Whitespace"}})"), HasSubstr("expected BertPreTokenizer"));
  EXPECT_THAT(problem(R"({"post_processor": {"type": "RobertaProcessing"}})"),
              HasSubstr("post_processor: got the type 'RobertaProcessing'; expected TemplateProcessing"));
  EXPECT_THAT(problem(R"({"post_processor": {"single": []}})"), HasSubstr("expected one before it and one behind it"));
  EXPECT_THAT(problem(R"({"post_processor": {"single": [1, 2, 3]}})"), HasSubstr("got other tokens around a text"));
  EXPECT_EQ(problem(R"({"model": {"vocab": {"a": 0}}})"),
            "t.json: vocab: the pieces '[UNK]' and 'a' both have the number 0");
  for (const char* number : {"-1", "1.5", "\"1\"", "1e300", "99999999999999999999", "100000"})
    EXPECT_THAT(problem(cat(R"({"model": {"vocab": {"b": )", number, "}}}")), HasSubstr("vocab: the piece 'b': got "))
        << number;
  EXPECT_THAT(problem(R"({"model": {"vocab": {"b\n": 4}}})"), HasSubstr("has a line end"));
  EXPECT_THAT(problem(R"({"model": {"vocab": []}})"), HasSubstr("vocab: got an array; expected an object"));
  EXPECT_THAT(problem(R"({"model": {"unk_token": 3}})"), HasSubstr("model: unk_token: got 3; expected a text"));
  EXPECT_THAT(problem(R"({"model": {"max_input_chars_per_word": -1}})"), HasSubstr("max_input_chars_per_word: got -1"));
  EXPECT_THAT(problem(R"({"normalizer": {"lowercase": "yes"}})"),
              HasSubstr("normalizer: lowercase: got \"yes\"; expected true or false"));
  EXPECT_THAT(problem(R"({"added_tokens": {}})"), HasSubstr("added_tokens: got an object; expected a list"));
  EXPECT_THAT(problem(R"({"added_tokens": [3]})"), HasSubstr("added_tokens 1: got 3; expected an object"));
  EXPECT_THAT(problem(R"({"added_tokens": [{"content": "x"}]})"), HasSubstr("added_tokens 1: id is missing"));
  EXPECT_THAT(problem(R"({"added_tokens": [{"id": 4, "content": ""}]})"), HasSubstr("content is missing"));
  EXPECT_THAT(problem(R"({"added_tokens": [{"id": 4, "content": "x", "special": 1}]})"), HasSubstr("special: got 1"));
  EXPECT_THAT(problem(R"({"added_tokens": [{"id": 99999999, "content": "x"}]})"),
              HasSubstr("added_tokens 1: id: got 9"));
}

}  // namespace
}  // namespace fovea::text::tokenizer_json_test
