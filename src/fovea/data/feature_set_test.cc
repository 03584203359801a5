#include "fovea/data/feature_set.h"

#include <gmock/gmock.h>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"

namespace fovea::data::feature_set_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string float_npy(const std::string& shape, const std::vector<float>& values, const std::string& type = "<f4",
                      int64_t length = 118) {
  std::string header = cat("{'descr': '", type, "', 'fortran_order': False, 'shape': ", shape, ", }");
  header.resize(static_cast<size_t>(length), ' ');
  std::string bytes("\x93NUMPY\1\0", 8);
  bytes += {static_cast<char>(length), '\0'};
  return bytes + header + std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

std::vector<float> values_of(const FeatureSet& features, int64_t index) {
  std::vector<float> values;
  features.append(index, values);
  return values;
}

TEST(FeatureSet, OfAnArray) {
  const TestFolder folder;
  write_file(folder / "a.npy", float_npy("(2, 2, 3)", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  const FeatureSet features = read_npy_features(folder / "a.npy");
  EXPECT_EQ(features.size(), 2);
  EXPECT_EQ(features.width(), 3);
  EXPECT_EQ(features.rows(1), 2);
  EXPECT_THAT(values_of(features, 1), ElementsAre(7, 8, 9, 10, 11, 12));
  FeatureSet twice = features;
  twice.add_all(features);
  EXPECT_THAT(values_of(twice, 2), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_NE(fingerprint(features), fingerprint(twice));
  write_file(folder / "b.npy", float_npy("(2, 2, 3)", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13}));
  EXPECT_NE(fingerprint(features), fingerprint(read_npy_features(folder / "b.npy")));
}

TEST(FeatureSet, ValuesMayBeginAtAnyByte) {
  const TestFolder folder;
  write_file(folder / "a.npy", float_npy("(1, 1, 2)", {1, 2}, "<f4", 101));
  EXPECT_THAT(values_of(read_npy_features(folder / "a.npy"), 0), ElementsAre(1, 2));
}

// A mapped file would end the process with SIGBUS.
TEST(FeatureSet, AFileThatIsCutMeanwhileIsAnError) {
  const TestFolder folder;
  const std::string path = folder / "a.npy";
  write_file(path, float_npy("(2000, 1, 3)", std::vector<float>(6000, 1)));
  const FeatureSet features = read_npy_features(path);
  std::filesystem::resize_file(path, 12000);
  EXPECT_THAT(values_of(features, 0), ElementsAre(1, 1, 1));
  EXPECT_THAT(message_of([&] { values_of(features, 1999); }),
              testing::AllOf(HasSubstr(cat("'", path, "' was cut while it was in use: it had 24,128 bytes")),
                             HasSubstr("restore the file")));
}

TEST(FeatureSet, SaysWhatIsWrongWithAnArray) {
  const TestFolder folder;
  const auto refusal = [&](const std::string& bytes) {
    write_file(folder / "a.npy", bytes);
    return message_of([&] { read_npy_features(folder / "a.npy"); });
  };
  EXPECT_THAT(refusal(""), HasSubstr("a.npy': the file is empty"));
  EXPECT_THAT(refusal("text"), HasSubstr("a.npy': is not an .npy file"));
  EXPECT_THAT(refusal(float_npy("(1, 1, 1)", {1, 2}, "<f8")),
              HasSubstr("an array of type '<f8'; expected '<f4', which is float32; convert it with "
                        "array.astype('float32')"));
  EXPECT_THAT(refusal(float_npy("(2, 3)", std::vector<float>(6))),
              HasSubstr("an array of the shape [2, 3]; expected [images, regions, width]"));
  EXPECT_THAT(refusal(float_npy("(0, 2, 3)", {})), HasSubstr("an array of the shape [0, 2, 3]"));
  EXPECT_THAT(refusal(float_npy("(2, 2, 3)", {1})), HasSubstr("the header says [2, 2, 3], but the file has 4 bytes"));
  EXPECT_THAT(refusal(float_npy("(9223372036854775807, 4096, 4096)", {1})), HasSubstr("the header says"));
  EXPECT_THAT(refusal(float_npy("(1, 4294967296, 4294967296)", {1})), HasSubstr("an array of the shape"));
  EXPECT_THAT(message_of([&] { read_npy_features(folder.path().string()); }), HasSubstr("is not a regular file"));
}

}  // namespace
}  // namespace fovea::data::feature_set_test
