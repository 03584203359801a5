#include "fovea/nn/safetensors.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"
#include "fovea/nn/safetensors_header.h"

namespace fovea::nn::safetensors_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A file as the format's description has it, written without the library.
std::string file_of(const std::string& json, size_t data_bytes) {
  std::string file(8, '\0');
  const uint64_t length = json.size();
  for (int i = 0; i < 8; ++i) file[i] = static_cast<char>(length >> (8 * i) & 255);
  file += json;
  for (size_t i = 0; i < data_bytes; ++i) file += static_cast<char>(i);
  return file;
}

std::string refusal(const std::string& json, size_t data_bytes) {
  return message_of([&] { parse_safetensors(file_of(json, data_bytes), "x.safetensors"); });
}

TEST(Safetensors, ReadsAFileOfTheFormat) {
  const std::string file =
      file_of(R"({"__metadata__":{"made":"by hand"},"b":{"dtype":"I16","shape":[2],"data_offsets":[4,8]},)"
              R"("a":{"dtype":"U8","shape":[2,2],"data_offsets":[0,4]}}  )",
              8);
  const NamedTensors tensors = parse_safetensors(file, "x");
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_TRUE(tensors.at("a").equal(at::tensor({0, 1, 2, 3}, at::kByte).view({2, 2})));
  EXPECT_TRUE(tensors.at("b").equal(at::tensor({4 + 256 * 5, 6 + 256 * 7}, at::kShort)));
  EXPECT_EQ(parse_safetensors_header(file, "x").metadata.at("made"), "by hand");
}

TEST(Safetensors, ReadsBackEveryTypeAndShape) {
  NamedTensors tensors;
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort,
                                    at::kChar, at::kByte, at::kBool})
    tensors[cat("type \"", toString(type), "\"\n")] = at::arange(6).to(type).view({2, 3});
  tensors["scalar"] = at::full({}, 3.5);
  tensors["empty"] = at::empty({0, 5});
  tensors["strided"] = at::arange(6, at::kFloat).view({2, 3}).t();
  const std::string file = print_safetensors(tensors, {{"key", "ä"}});
  const NamedTensors back = parse_safetensors(file, "x");
  ASSERT_EQ(back.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(back.at(name).scalar_type(), tensor.scalar_type());
    EXPECT_TRUE(back.at(name).equal(tensor)) << name;
  }
  for (const SafetensorsEntry& entry : parse_safetensors_header(file, "x").entries)
    EXPECT_EQ(entry.begin % safetensors_element_size(entry.dtype), 0U) << entry.name << " is not aligned";
  EXPECT_EQ(file, print_safetensors(back, {{"key", "ä"}}));
}

TEST(Safetensors, HoldsNothingToo) { EXPECT_TRUE(parse_safetensors(print_safetensors({}), "x").empty()); }

TEST(Safetensors, RefusesAFileCutShortAnywhere) {
  const std::string file = print_safetensors({{"a", at::arange(5, at::kFloat)}, {"b", at::arange(3, at::kByte)}});
  for (size_t length = 0; length < file.size(); ++length) {
    const std::string text = message_of([&] { parse_safetensors(file.substr(0, length), "x.safetensors"); });
    EXPECT_THAT(text, StartsWith("x.safetensors: ")) << length;
  }
  EXPECT_THAT(message_of([&] { parse_safetensors(file + "y", "x"); }), HasSubstr("1 bytes after the last tensor"));
}

// A flipped bit in the header may give another valid header, a flipped bit in the data other data: that is what
// checksums are for. It never gives a crash or another exception.
TEST(Safetensors, SurvivesEveryFlippedBit) {
  const std::string good = print_safetensors({{"a", at::arange(5, at::kFloat)}, {"b", at::arange(3, at::kByte)}});
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string file = good;
    file[bit / 8] = static_cast<char>(file[bit / 8] ^ (1 << (bit % 8)));
    try {
      parse_safetensors(file, "x");
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), StartsWith("x: "));
    }
  }
}

TEST(Safetensors, SaysWhatIsWrong) {
  const auto one = [](const std::string& shape, const std::string& offsets) {
    return R"({"a":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  EXPECT_THAT(refusal("", 0), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(refusal("[]", 0), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(refusal("{", 0), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("{\"a\xff\":{}}", 0), HasSubstr("not JSON"));
  EXPECT_THAT(refusal(one("[2]", "[0,4]"), 4), HasSubstr("'a' has 4 bytes, its shape and dtype need 8"));
  EXPECT_THAT(refusal(one("[-2]", "[0,8]"), 8), HasSubstr("not a whole number"));
  EXPECT_THAT(refusal(one("[2.5]", "[0,8]"), 8), HasSubstr("not a whole number"));
  EXPECT_THAT(refusal(one("[4611686018427387904,8]", "[0,0]"), 0), HasSubstr("impossible shape"));
  EXPECT_THAT(refusal(one("[9223372036854775807,0,9]", "[0,0]"), 0), HasSubstr("impossible shape"));
  EXPECT_THAT(refusal(one("[18446744073709551615]", "[0,0]"), 0), HasSubstr("impossible shape"));
  std::string many = "[1";
  for (int i = 1; i < 65; ++i) many += ",1";
  EXPECT_THAT(refusal(one(many + "]", "[0,4]"), 4), HasSubstr("'a' has 65 dimensions; expected at most 64"));
  EXPECT_THAT(refusal(one("[1]", "[4,8]"), 8), HasSubstr("a hole of 4 bytes before tensor 'a'"));
  EXPECT_THAT(refusal(one("[1]", "[8,4]"), 8), HasSubstr("not [begin, end]"));
  EXPECT_THAT(refusal(one("[1]", "[0]"), 4), HasSubstr("not [begin, end]"));
  EXPECT_THAT(refusal(one("[4]", "[0,16]"), 8), HasSubstr("cut short: tensor 'a' ends at byte 16"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F7","shape":[],"data_offsets":[0,4]}})", 4), HasSubstr("unknown dtype 'F7'"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":[]}})", 4), HasSubstr("'a'"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                      R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                      3),
              HasSubstr("'b' overlaps"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},)"
                      R"("a":{"dtype":"U8","shape":[],"data_offsets":[1,2]}})",
                      2),
              HasSubstr("'a' twice"));
  EXPECT_THAT(refusal(R"({"__metadata__":{"x":1}})", 0), HasSubstr("not a map of strings"));
  EXPECT_THAT(refusal(R"({"a":)" + std::string(100'000, '[') + "}", 0), HasSubstr("nested too deeply"));
  EXPECT_THAT(message_of([] { parse_safetensors(std::string(8, '\xff') + "{}", "x"); }), HasSubstr("would have"));
}

}  // namespace
}  // namespace fovea::nn::safetensors_test
