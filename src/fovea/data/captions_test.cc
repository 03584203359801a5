#include "fovea/data/captions.h"

#include <gmock/gmock.h>

#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"

namespace fovea::data::captions_test {
namespace {

using testing::ElementsAre;

std::vector<Caption> parsed(std::string_view bytes, const std::vector<std::string>& splits = {"train"}) {
  return parse_captions(bytes, "'file'", splits);
}
std::string refused(std::string_view bytes, const std::vector<std::string>& splits = {"train"}) {
  return message_of([&] { parsed(bytes, splits); });
}

TEST(Captions, OfTsv) {
  EXPECT_THAT(parsed("7\ta dog\r\nb.jpg\ta cat\ta mat\n7\t\n"),
              ElementsAre(Caption{"7", "a dog"}, Caption{"b.jpg", "a cat\ta mat"}, Caption{"7", ""}));
  EXPECT_THAT(parsed("7\tno end"), ElementsAre(Caption{"7", "no end"}));
}

TEST(Captions, OfFlickr8k) {
  EXPECT_THAT(parsed("1.jpg#0\ta dog\n1.jpg#1\ta #1 dog\n"),
              ElementsAre(Caption{"1.jpg", "a dog"}, Caption{"1.jpg", "a #1 dog"}));
  EXPECT_THAT(parsed("1.jpg#0\ta\n2.jpg\tb\n"), ElementsAre(Caption{"1.jpg#0", "a"}, Caption{"2.jpg", "b"}))
      << "a part of a name";
  EXPECT_THAT(parsed("#0\ta\n"), ElementsAre(Caption{"#0", "a"}));
}

TEST(Captions, OfSpreadsheets) {
  EXPECT_THAT(parsed("7\t\"a \"\"big\"\" dog\"\r\n8\ta cat\n9\t\"two\nlines\"\n"),
              ElementsAre(Caption{"7", "a \"big\" dog"}, Caption{"8", "a cat"}, Caption{"9", "two lines"}));
  EXPECT_THAT(parsed("7\t\"a\" dog\n8\tthe 5\" cat\n"),
              ElementsAre(Caption{"7", "\"a\" dog"}, Caption{"8", "the 5\" cat"}));
}

TEST(Captions, IdsOfAnyNumberOfDigits) {
  EXPECT_THAT(parsed(R"({"annotations": [{"image_id": 18446744073709551616, "caption": "a"},
    {"image_id": 123456789012345678901234567890, "caption": "b"}]})"),
              ElementsAre(Caption{"18446744073709551616", "a"}, Caption{"123456789012345678901234567890", "b"}));
  EXPECT_EQ(refused(R"({"annotations": [{"image_id": 1.5, "caption": "a"}]})"),
            "'file': annotation 1 has no id (image_id, cocoid or imgid)");
}

TEST(Captions, OfCoco) {
  EXPECT_THAT(parsed(R"( {"info": {"year": 2014, "image_id": 5},
    "images": [{"id": 57, "file_name": "x.jpg", "size": [1.5, null, true]}],
    "annotations": [{"image_id": 57, "id": 1, "caption": "A dog."}, {"caption": "two \"cats\"\u00e9", "image_id": "s9"}]})"),
              ElementsAre(Caption{"57", "A dog."}, Caption{"s9", "two \"cats\"é"}));
}

TEST(Captions, OfJsonAreSingleLines) {
  EXPECT_THAT(parsed(R"({"annotations": [{"image_id": 1, "caption": "A dog.\n"}, {"image_id": 1, "caption": "\n"},
    {"image_id": 2, "caption": " A cat  on\r\n\n a mat."}, {"image_id": 2, "caption": " two  cats "}]})"),
              ElementsAre(Caption{"1", "A dog."}, Caption{"1", ""}, Caption{"2", "A cat  on a mat."},
                          Caption{"2", " two  cats "}));
  EXPECT_THAT(parsed(R"({"images": [{"split": "train", "imgid": 1, "sentences": [{"raw": "A dog\nruns."}]}]})"),
              ElementsAre(Caption{"1", "A dog runs."}));
}

constexpr const char* kKarpathy = R"({"dataset": "coco", "images": [
  {"split": "train", "cocoid": 42, "imgid": 0, "filename": "a.jpg", "sentids": [1, 2],
   "sentences": [{"tokens": ["a", "dog"], "raw": "A dog!", "imgid": 0}, {"raw": "Another dog."}]},
  {"sentences": [{"tokens": ["kept"]}], "split": "restval", "imgid": 3},
  {"split": "val", "cocoid": 43, "sentences": [{"tokens": ["a", "cat"]}]}]})";

TEST(Captions, OfKarpathysSplits) {
  EXPECT_THAT(parsed(kKarpathy, {"train", "restval"}),
              ElementsAre(Caption{"42", "a dog"}, Caption{"42", "Another dog."}, Caption{"3", "kept"}));
  EXPECT_THAT(parsed(kKarpathy, {"val"}), ElementsAre(Caption{"43", "a cat"}));
  EXPECT_EQ(refused(kKarpathy, {"test"}), "'file': has no captions of the split test; it has restval, train, val");
}

TEST(Captions, SayWhatIsWrong) {
  EXPECT_EQ(refused(""), "'file': the file is empty; expected captions");
  EXPECT_EQ(refused("7\ta\nno tab\n"), "'file': line 2 is 'no tab'; expected an image's id, a tab and a caption");
  EXPECT_EQ(refused("\ta\n"), "'file': line 1 is ' a'; expected an image's id, a tab and a caption");
  EXPECT_EQ(refused("7\ta\xff\n"), "'file': is not UTF-8 text; expected TSV or JSON");
  EXPECT_THAT(refused(R"({"annotations": [)"), testing::StartsWith("'file': is not JSON: "));
  EXPECT_EQ(refused(R"({"annotations": []})"),
            "'file': is JSON without captions; expected COCO's annotations or Karpathy's images with sentences");
  EXPECT_EQ(refused(R"({"annotations": [{"image_id": 1, "caption": "a"}, {"caption": "b"}]})"),
            "'file': annotation 2 has no id (image_id, cocoid or imgid)");
  EXPECT_EQ(refused(R"({"images": [{"split": "train", "sentences": [{"raw": "a"}]}]})"),
            "'file': image 1 has no id (image_id, cocoid or imgid)");
  EXPECT_EQ(refused(R"({"a":)" + std::string(200, '[')), "'file': is nested too deeply");
}

}  // namespace
}  // namespace fovea::data::captions_test
