#include "fovea/tasks/bert/hugging_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"
#include "fovea/tasks/bert/baseline.h"

namespace fovea::bert::hugging_face_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::string kConfig =
    R"({"model_type": "bert", "vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, )"
    R"("intermediate_size": 16, "max_position_embeddings": 12, "type_vocab_size": 2, "layer_norm_eps": 1e-12, )"
    R"("hidden_dropout_prob": 0.1, "position_embedding_type": "absolute", "hidden_act": "gelu"})";
// The text with the value of this field replaced.
std::string with_value(const std::string& field, const std::string& value) {
  const size_t begin = kConfig.find(cat("\"", field, "\": ")) + field.size() + 4;
  return cat(kConfig.substr(0, begin), value, kConfig.substr(kConfig.find_first_of(",}", begin)));
}

TEST(HuggingFace, ReadsTheConfiguration) {
  const EncoderConfig config = parse_bert_config(kConfig, "config.json");
  EXPECT_EQ(config.dim_vocabs, std::vector<int64_t>{30});
  EXPECT_EQ(config.dim_emb, 8);
  EXPECT_EQ(config.norm_epsilon, 1e-12);
}

TEST(HuggingFace, RefusesNumbersOutOfRange) {
  for (const char* field : {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
                            "intermediate_size", "max_position_embeddings", "type_vocab_size"}) {
    for (const char* value : {"0", "-1", "1e3", "1.5", "9223372036854775807", "18446744073709551615", "1e300", "null",
                              "\"8\"", "[8]", "true"}) {
      const std::string message = message_of([&] { parse_bert_config(with_value(field, value), "config.json"); });
      EXPECT_THAT(message, StartsWith(cat("config.json: ", field, ": got "))) << value;
    }
  }
  for (const char* value : {"-1e-300", "2", "1e300", "\"x\"", "{}"})
    EXPECT_THAT(message_of([&] { parse_bert_config(with_value("layer_norm_eps", value), "config.json"); }),
                StartsWith("config.json: layer_norm_eps: got "))
        << value;
}

// Numbers that each fit, but not together, or not what a model of ours may have.
TEST(HuggingFace, NamesTheFileInEveryError) {
  for (const auto& [field, value] : {std::pair("hidden_size", "65536"),
                                     {"num_hidden_layers", "1000"},
                                     {"num_attention_heads", "1024"},
                                     {"hidden_dropout_prob", "0.99"}}) {
    try {
      parse_bert_config(with_value(field, value), "config.json");
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), StartsWith("config.json: ")) << field;
      EXPECT_EQ(dynamic_cast<const UsageError*>(&error), nullptr) << field << ": the command line is right";
    }
  }
}

// Whatever is wrong with a file, an Error of one line says so.
TEST(HuggingFace, GivesAValueOrAnErrorForAnyBytes) {
  for (size_t at = 0; at < kConfig.size(); ++at) {
    for (const char byte : {'\0', '"', '{', ']', '9', '-', 'e', '\xff', '\n'}) {
      std::string changed = kConfig;
      changed[at] = byte;
      for (const std::string& bytes : {changed, kConfig.substr(0, at)}) {
        try {
          parse_bert_config(bytes, "config.json");
        } catch (const Error& error) {
          EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
        }
      }
    }
  }
}

TEST(HuggingFace, RefusesDeepNestingWithoutMuchStack) {
  const std::string deep(1000000, '[');
  EXPECT_EQ(message_of([&] { parse_bert_config(deep, "config.json"); }), "config.json: is not a JSON object");
  const std::string value = cat(deep, std::string(deep.size(), ']'));
  EXPECT_THAT(message_of([&] { parse_bert_config(with_value("hidden_size", value), "config.json"); }),
              HasSubstr("got an array"));
}

TEST(Baseline, ReadsTheRowOfTheLayer) {
  const std::vector<std::string> lines = {"LAYER,P,R,F", "0,0.1,0.2,0.3", "1,-0.5, 0.25 ,2e-1"};
  EXPECT_EQ(parse_baseline(lines, "b.tsv", 1).precision, -0.5);
  EXPECT_EQ(parse_baseline(lines, "b.tsv", 1).recall, 0.25);
  EXPECT_EQ(parse_baseline(lines, "b.tsv", 1).f1, 0.2);
  EXPECT_EQ(message_of([&] { parse_baseline(lines, "b.tsv", 2); }),
            "--bertscore-baseline: 'b.tsv' has 2 rows; expected one for layer 2 (LAYER,P,R,F)");
}

TEST(Baseline, RefusesWhatIsNotABaseline) {
  for (const char* row : {"1,0,0,0", "0,1,0,0", "0,-1.5,0,0", "0,-1e308,0,0", "0,nan,0,0", "0,0x0p1,0,0", "0,0,0", "",
                          "0,0,0,0,0", "x,0,0,0", "0,1e999,0,0", "0,,0,0"}) {
    const std::vector<std::string> lines = {"LAYER,P,R,F", row};
    EXPECT_EQ(message_of([&] { parse_baseline(lines, "b.tsv", 0); }),
              cat("--bertscore-baseline: 'b.tsv', line 2: got '", row,
                  "'; expected 0,P,R,F with numbers from -1 to below 1"));
  }
}

}  // namespace
}  // namespace fovea::bert::hugging_face_test
