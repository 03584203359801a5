#include "fovea/data/png.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"

namespace fovea::data::png_test {
namespace {

using testing::HasSubstr;

std::string big_endian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

std::string chunk(const std::string& name, const std::string& data) {
  const std::string body = name + data;
  const auto sum = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(static_cast<uint32_t>(data.size())) + body + big_endian(static_cast<uint32_t>(sum));
}

struct PngHeader {
  uint32_t width, height;
  char bits, color;  // color: 0 grey, 2 RGB, 3 palette, 4 grey with alpha, 6 RGB with alpha
};

// A PNG file from its parts, without libpng. `rows` begin with a filter byte each.
std::string png_file(const PngHeader& header, const std::string& rows, const std::string& more_chunks = "") {
  std::string packed(compressBound(rows.size()), '\0');
  uLongf size = packed.size();
  compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(rows.data()), rows.size());
  packed.resize(size);
  const std::string fields =
      big_endian(header.width) + big_endian(header.height) + header.bits + header.color + std::string(3, '\0');
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", fields) + more_chunks + chunk("IDAT", packed) + chunk("IEND", "");
}

std::string refusal(const std::string& bytes) {
  return message_of([&] { decode_png(bytes, "'a.png'"); });
}

using namespace std::string_literals;

TEST(Png, ReadsGreyRgbAndPalettes) {
  const Image grey = decode_png(png_file({3, 2, 8, 0}, "\0abc\0def"s), "");
  EXPECT_EQ(grey.shape, (ImageShape{2, 3, 1}));
  EXPECT_EQ(grey.values, (std::vector<uint8_t>{'a', 'b', 'c', 'd', 'e', 'f'}));
  const Image rgb = decode_png(png_file({1, 2, 8, 2}, "\0abc\1def"s), "");
  EXPECT_EQ(rgb.shape, (ImageShape{2, 1, 3}));
  EXPECT_EQ(rgb.values, (std::vector<uint8_t>{'a', 'b', 'c', 'd', 'e', 'f'}));
  const Image bits = decode_png(png_file({4, 1, 1, 0}, "\0\xa0"s), "");
  EXPECT_EQ(bits.values, (std::vector<uint8_t>{255, 0, 255, 0}));
  const Image palette = decode_png(png_file({2, 1, 8, 3}, "\0\1\0"s, chunk("PLTE", "abcxyz")), "");
  EXPECT_EQ(palette.shape, (ImageShape{1, 2, 3}));
  EXPECT_EQ(palette.values, (std::vector<uint8_t>{'x', 'y', 'z', 'a', 'b', 'c'}));
  const Image gamma = decode_png(png_file({1, 1, 8, 0}, "\0\x40"s, chunk("gAMA", big_endian(100000))), "");
  EXPECT_EQ(gamma.values, std::vector<uint8_t>{0x40}) << "values stay as the file has them";
}

TEST(Png, WhatIsWrittenReadsBack) {
  Rng rng(1);
  for (const ImageShape& shape :
       {ImageShape{1, 1, 1}, ImageShape{1, 1, 3}, ImageShape{17, 5, 3}, ImageShape{4, 33, 1}}) {
    Image image = {shape, {}};
    for (int64_t i = 0; i < shape.values(); ++i) image.values.push_back(static_cast<uint8_t>(rng.below(256)));
    const Image again = decode_png(encode_png(image), "");
    EXPECT_EQ(again.shape, shape);
    EXPECT_EQ(again.values, image.values);
  }
}

TEST(Png, SaysWhatIsWrong) {
  EXPECT_EQ(refusal("GIF89a"), "'a.png': is not a PNG file");
  EXPECT_EQ(refusal(png_file({1, 1, 8, 6}, "\0abcd"s)),
            "'a.png': a PNG with transparency; expected grey or RGB without it; convert the image");
  EXPECT_THAT(refusal(png_file({1, 1, 8, 4}, "\0ab"s)), HasSubstr("a PNG with transparency"));
  EXPECT_THAT(refusal(png_file({1, 1, 8, 0}, "\0a"s, chunk("tRNS", "\0a"s))), HasSubstr("a PNG with transparency"));
  EXPECT_EQ(refusal(png_file({1, 1, 16, 0}, "\0ab"s)), "'a.png': a PNG with 16 bits per value; expected 8; convert it");
  EXPECT_EQ(refusal(png_file({100000, 100000, 8, 2}, "\0abc"s)),
            "'a.png': an image of 100,000 x 100,000 pixels; expected at most 16,777,216 values; make it smaller");
  EXPECT_THAT(refusal(png_file({0x7fffffff, 0x7fffffff, 8, 2}, "\0abc"s)), HasSubstr("expected at most 16,777,216"));
  EXPECT_THAT(refusal(png_file({0, 1, 8, 2}, "")), HasSubstr("'a.png': a damaged PNG: "));
  EXPECT_THAT(refusal(png_file({1, 5, 8, 0}, "\0a"s)), HasSubstr("'a.png': a damaged PNG: "));
  const std::string whole = png_file({3, 2, 8, 0}, "\0abc\0def"s);
  for (size_t size = 8; size < whole.size(); ++size) {
    const std::string text = refusal(whole.substr(0, size));
    ASSERT_THAT(text, HasSubstr("'a.png': a damaged PNG: ")) << size;
    ASSERT_EQ(text.find('\n'), std::string::npos);
  }
  std::string damaged = whole;
  damaged[45] ^= 1;  // inside the compressed values
  EXPECT_THAT(refusal(damaged), HasSubstr("'a.png': a damaged PNG: "));
}

}  // namespace
}  // namespace fovea::data::png_test
