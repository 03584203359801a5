#include "fovea/data/image_set.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"
#include "fovea/data/npy.h"
#include "fovea/data/png.h"

namespace fovea::data::image_set_test {
namespace {

using testing::HasSubstr;

std::string npy_file(const std::string& dictionary, const std::string& values, char version = 1) {
  std::string bytes = cat("\x93NUMPY", version, '\0');
  const size_t length_bytes = version == 1 ? 2 : 4;
  for (size_t i = 0; i < length_bytes; ++i) bytes += static_cast<char>(dictionary.size() >> (8 * i));
  return bytes + dictionary + values;
}

std::string dictionary_of(const std::string& shape, const std::string& type = "'|u1'",
                          const std::string& order = "False") {
  return cat("{'descr': ", type, ", 'fortran_order': ", order, ", 'shape': ", shape, ", }          \n");
}

// Bytes from 0 on, modulo 251.
std::string counted(size_t size) {
  std::string bytes;
  for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(i % 251);
  return bytes;
}

Image counted_image(const ImageShape& shape, uint8_t first) {
  Image image = {shape, {}};
  for (int64_t i = 0; i < shape.values(); ++i) image.values.push_back(static_cast<uint8_t>(first + i));
  return image;
}

std::vector<uint8_t> values_of_image(const ImageSet& images, int64_t index) {
  const auto values = images.at(index);
  return {values.begin(), values.end()};
}

// A record whose channel c of pixel p is 100 c + p % 50.
std::string cifar_record(char label) {
  std::string record(1, label);
  for (int channel = 0; channel < 3; ++channel) {
    for (int pixel = 0; pixel < 1024; ++pixel) record += static_cast<char>(100 * channel + pixel % 50);
  }
  return record;
}

class ImageSetTest : public testing::Test {
 protected:
  std::string file(const std::string& name, std::string_view content) const {
    write_file(folder_ / name, content);
    return folder_ / name;
  }
  std::string refusal(const std::string& path) const {
    const std::string text = message_of([&] { load_images({path}, "--train-sets"); });
    EXPECT_EQ(text.find('\n'), std::string::npos);
    return text;
  }
  std::string refusal_of_npy(const std::string& dictionary, size_t values) const {
    return refusal(file("a.npy", npy_file(dictionary, counted(values))));
  }
  TestFolder folder_;
};

TEST_F(ImageSetTest, CifarPlanesBecomePixels) {
  const ImageSet images = load_images({file("batch.bin", cifar_record(3) + cifar_record(9))}, "--train-sets");
  ASSERT_EQ(images.size(), 2);
  EXPECT_EQ(images.shape(), (ImageShape{32, 32, 3}));
  for (int64_t i = 0; i < 2; ++i) {
    const auto values = images.at(i);
    ASSERT_EQ(values.size(), 3072);
    for (size_t v = 0; v < values.size(); ++v) ASSERT_EQ(values[v], 100 * (v % 3) + v / 3 % 50) << v;
  }
}

TEST_F(ImageSetTest, CompressedCifarIsTheSame) {
  LineWriter writer(folder_ / "batch.bin.xz");
  writer.write(cifar_record(0) + cifar_record(1));
  writer.close();
  const std::string plain = file("batch.bin", cifar_record(5) + cifar_record(7));
  EXPECT_EQ(fingerprint(load_images({folder_ / "batch.bin.xz"}, "x")), fingerprint(load_images({plain}, "x")))
      << "labels play no part";
}

TEST_F(ImageSetTest, SaysWhatIsWrongWithCifar) {
  const std::string record = cifar_record(2);
  EXPECT_THAT(refusal(file("empty", "")), HasSubstr("empty': is empty; expected images"));
  EXPECT_THAT(refusal(file("text", "some text\n")),
              HasSubstr("its first byte is 115; expected PNG, .npy or the binary version of CIFAR-10"));
  EXPECT_THAT(refusal(file("label", record + cifar_record(10))), HasSubstr("label', record 2: the label is 10"));
  EXPECT_THAT(refusal(file("cut", record + record.substr(0, 3000))),
              HasSubstr("cut': ends after 3,000 bytes of record 2; expected a multiple of 3,073 bytes"));
  EXPECT_THAT(refusal(file("short", record.substr(0, 5))), HasSubstr("ends after 5 bytes of record 1"));
  EXPECT_THAT(refusal(folder_ / "gone"), HasSubstr("--train-sets: no such file"));
}

TEST_F(ImageSetTest, NpyIsReadAsItLies) {
  for (const char version : {1, 2, 3}) {
    const std::string bytes = counted(2 * 3 * 4 * 3);
    const ImageSet images = load_images({file("a.npy", npy_file(dictionary_of("(2, 3, 4, 3)"), bytes, version))}, "x");
    ASSERT_EQ(images.size(), 2);
    EXPECT_EQ(images.shape(), (ImageShape{3, 4, 3}));
    for (int64_t i = 0; i < 72; ++i) ASSERT_EQ(images.at(i / 36)[static_cast<size_t>(i % 36)], i);
  }
  const std::string other = "{\"shape\":(1,1,2,1),'fortran_order':False,'descr':'|u1'}";
  EXPECT_EQ(values_of_image(load_images({file("a.npy", npy_file(other, "ab"))}, "x"), 0),
            (std::vector<uint8_t>{'a', 'b'}));
}

// A mapped file would end the process with SIGBUS.
TEST_F(ImageSetTest, NpyThatIsCutMeanwhileIsAnError) {
  const std::string path = file("a.npy", npy_file(dictionary_of("(4, 32, 32, 3)"), counted(4 * 3072)));
  const ImageSet images = load_images({path}, "x");
  std::filesystem::resize_file(path, 5000);
  EXPECT_EQ(images.at(0).size(), 3072);
  EXPECT_THAT(message_of([&] { images.at(3); }), HasSubstr("a.npy' was cut while it was in use: it had 12,"));
}

TEST_F(ImageSetTest, SaysWhatIsWrongWithNpy) {
  EXPECT_THAT(refusal_of_npy(dictionary_of("(1, 2, 2, 3)", "'<f4'"), 48),
              HasSubstr("a.npy': an array of type '<f4'; expected '|u1', which is uint8"));
  EXPECT_THAT(refusal_of_npy(dictionary_of("(1, 2, 2, 3)", "[('a', '|u1')]"), 12), HasSubstr("an array of records"));
  EXPECT_THAT(refusal_of_npy(dictionary_of("(1, 2, 2, 3)", "'|u1'", "True"), 12),
              HasSubstr("an array in Fortran's order; expected C order; save numpy.ascontiguousarray(array)"));
  for (const char* shape : {"(12,)", "()", "(2, 2, 3)", "(0, 2, 2, 3)", "(1, 2, 2, 4)", "(1, 1, 2, 2, 3)"})
    EXPECT_THAT(refusal_of_npy(dictionary_of(shape), 12),
                HasSubstr("expected [images, height, width, channels] with 1 or 3 channels"));
  EXPECT_THAT(refusal_of_npy(dictionary_of("(1, 2, 2, 3)"), 11),
              HasSubstr("the header says [1, 2, 2, 3], but the file has 11 bytes of values"));
  EXPECT_THAT(refusal_of_npy(dictionary_of("(1, 2, 2, 3)"), 13), HasSubstr("truncated or damaged"));
  // 2^61 x 2 x 2 x 1 is 0 in 64 bits.
  EXPECT_THAT(refusal_of_npy(dictionary_of("(2305843009213693952, 2, 4, 1)"), 0), HasSubstr("has 0 bytes of values"));
  EXPECT_THAT(refusal_of_npy(dictionary_of("(1, 4294967296, 4294967296, 1)"), 0), HasSubstr("expected at most"));
  EXPECT_THAT(refusal_of_npy(dictionary_of("(1, 2, 2, 99999999999999999999)"), 0), HasSubstr("a whole number"));
  EXPECT_THAT(refusal_of_npy(dictionary_of("(1, -2, 2, 3)"), 0), HasSubstr("a whole number"));
  EXPECT_THAT(refusal_of_npy("{'descr': '|u1'}", 0), HasSubstr("the keys descr, fortran_order and shape"));
  EXPECT_THAT(refusal_of_npy("{'descr': '|u1', 'evil': 1}", 0), HasSubstr("got the key 'evil'"));
  EXPECT_THAT(refusal_of_npy("{'descr': '|u1', 'descr': '|u1'}", 0), HasSubstr("got the key 'descr'"));
  EXPECT_THAT(refusal_of_npy("__import__('os')", 0), HasSubstr("expected '{'"));
  EXPECT_THAT(refusal_of_npy("{'descr", 0), HasSubstr("expected the end of a name"));
  const std::string whole = npy_file(dictionary_of("(1, 2, 2, 3)"), counted(12));
  for (size_t size = 6; size < whole.size() - 12; ++size)
    ASSERT_THAT(refusal(file("a.npy", whole.substr(0, size))), HasSubstr("truncated")) << size;
  EXPECT_THAT(refusal(file("a.npy", npy_file("{}", "", 9))), HasSubstr("version 9; expected 1, 2 or 3"));
  EXPECT_THAT(refusal(file("a.npy", "\x93NUMPY\2" + std::string(1, '\0') + "\xff\xff\xff\xff")),
              HasSubstr("a damaged .npy header"));
  LineWriter writer(folder_ / "a.npy.gz");
  writer.write(whole);
  writer.close();
  EXPECT_THAT(refusal(folder_ / "a.npy.gz"), HasSubstr("a compressed .npy"));
}

TEST_F(ImageSetTest, AFolderHasItsPngFilesByName) {
  const ImageShape shape = {2, 3, 3};
  std::filesystem::create_directory(folder_ / "pngs");
  for (const char* name : {"pngs/b.png", "pngs/a.PNG", "pngs/c.png"})
    file(name, encode_png(counted_image(shape, static_cast<uint8_t>(name[5]))));
  file("pngs/notes.txt", "not an image");
  const ImageSet images = load_images({folder_ / "pngs", folder_ / "pngs/b.png"}, "x");
  ASSERT_EQ(images.size(), 4);
  EXPECT_EQ(images.shape(), shape);
  const std::string order = "abcb";
  for (int64_t i = 0; i < 4; ++i)
    EXPECT_EQ(values_of_image(images, i),
              counted_image(shape, static_cast<uint8_t>(order[static_cast<size_t>(i)])).values);
}

TEST_F(ImageSetTest, SaysWhatIsWrongWithAFolder) {
  std::filesystem::create_directory(folder_ / "pngs");
  EXPECT_THAT(refusal(folder_ / "pngs"), HasSubstr("pngs': the folder has no .png file (0 other files)"));
  file("pngs/a.jpg", "x");
  EXPECT_THAT(refusal(folder_ / "pngs"), HasSubstr("(1 other file)"));
  file("pngs/a.png", encode_png(counted_image({2, 2, 3}, 0)));
  file("pngs/b.png", encode_png(counted_image({2, 3, 3}, 0)));
  EXPECT_THAT(refusal(folder_ / "pngs"), HasSubstr("b.png': an image of 2x3x3, but '"));
  EXPECT_THAT(refusal(folder_ / "pngs"), HasSubstr("a.png' has 2x2x3 (height x width x channels); expected one size"));
  file("pngs/b.png", encode_png(counted_image({2, 2, 1}, 0)));
  EXPECT_THAT(refusal(folder_ / "pngs"), HasSubstr("an image of 2x2x1"));
  file("pngs/b.png", "GIF89a");
  EXPECT_THAT(refusal(folder_ / "pngs"), HasSubstr("b.png': is not a PNG file"));
  EXPECT_THAT(message_of([&] {
                load_images({folder_ / "pngs/a.png", file("batch.bin", cifar_record(1))}, "x");
              }),
              HasSubstr("batch.bin': an image of 32x32x3, but '"));
}

TEST_F(ImageSetTest, FingerprintsAreOfValuesAndShape) {
  const std::string bytes = counted(24);
  const auto of = [&](const std::string& shape, const std::string& values) {
    return fingerprint(load_images({file("a.npy", npy_file(dictionary_of(shape), values))}, "x"));
  };
  std::string changed = bytes;
  changed[23] = '\xff';
  EXPECT_EQ(of("(2, 2, 2, 3)", bytes), of("(2, 2, 2, 3)", bytes));
  EXPECT_NE(of("(2, 2, 2, 3)", bytes), of("(2, 2, 2, 3)", changed));
  EXPECT_NE(of("(2, 2, 2, 3)", bytes), of("(2, 1, 4, 3)", bytes));
}

}  // namespace
}  // namespace fovea::data::image_set_test
