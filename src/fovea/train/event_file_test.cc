#include "fovea/train/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <string>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"

// The reader of these tests works by the definitions alone: TFRecord's framing, CRC32C bit by bit, protobuf's wire
// format.
namespace fovea::train::event_file_test {
namespace {

uint32_t crc32c_by_definition(std::string_view bytes) {
  uint32_t sum = 0xffffffffU;
  for (const char byte : bytes) {
    sum ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) sum = (sum & 1U) != 0 ? (sum >> 1) ^ 0x82f63b78U : sum >> 1;
  }
  return ~sum;
}

uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

uint32_t masked(std::string_view bytes) {
  const uint32_t sum = crc32c_by_definition(bytes);
  return (sum >> 15 | sum << 17) + 0xa282ead8U;
}

// The payloads of all whole records; every checksum is compared.
std::vector<std::string> records_in(std::string_view file) {
  std::vector<std::string> payloads;
  while (file.size() >= 12) {
    const uint64_t size = little_endian(file.substr(0, 8));
    if (file.size() < 16 + size) break;
    EXPECT_EQ(little_endian(file.substr(8, 4)), masked(file.substr(0, 8)));
    EXPECT_EQ(little_endian(file.substr(12 + size, 4)), masked(file.substr(12, size)));
    payloads.emplace_back(file.substr(12, size));
    file.remove_prefix(16 + size);
  }
  return payloads;
}

uint64_t take_varint(std::string_view& message) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(message.at(0));
    message.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7fU) << shift;
    if (byte < 0x80) return value;
  }
}

// The values of each field, as bytes: numbers in eight, little endian.
std::multimap<uint64_t, std::string> fields_in(std::string_view message) {
  std::multimap<uint64_t, std::string> fields;
  while (!message.empty()) {
    const uint64_t key = take_varint(message), type = key & 7;
    std::string value;
    if (type == 0) {
      const uint64_t number = take_varint(message);
      for (int i = 0; i < 8; ++i) value.push_back(static_cast<char>(number >> (8 * i) & 0xff));
    } else {
      const size_t size = type == 1 ? 8 : type == 5 ? 4 : take_varint(message);
      value = message.substr(0, size);
      message.remove_prefix(size);
    }
    fields.emplace(key >> 3, value);
  }
  return fields;
}

std::string only(const std::multimap<uint64_t, std::string>& fields, uint64_t number) {
  EXPECT_EQ(fields.count(number), 1U) << number;
  const auto found = fields.find(number);
  return found == fields.end() ? "" : found->second;
}

TEST(EventFile, TheTestsChecksumIsCrc32c) { EXPECT_EQ(crc32c_by_definition("123456789"), 0xe3069283U); }

std::string bytes_of_only_file(const std::filesystem::path& folder) {
  const std::set<std::string> names = names_in(folder);
  EXPECT_EQ(names.size(), 1U);
  EXPECT_TRUE(names.begin()->starts_with("events.out.tfevents."));
  EXPECT_TRUE(EventFile::is_own(folder / *names.begin()));
  return read_file(folder / *names.begin());
}

TEST(EventFile, HoldsScalarsWithStepsAndTimes) {
  const TestFolder folder;
  const std::filesystem::path events = folder.path() / "a/tensorboard";
  EventFile file(events, 40);
  file.write(50, {{"train/loss", 2.5}, {"valid/bleu", -1e30}});
  file.write(int64_t{1} << 40, {{"train/loss", 0.1}});
  const std::vector<std::string> records = records_in(bytes_of_only_file(events));
  ASSERT_EQ(records.size(), 4U);
  EXPECT_EQ(only(fields_in(records[0]), 3), "brain.Event:2");
  const auto start = fields_in(records[1]);
  EXPECT_EQ(little_endian(only(start, 2)), 41U) << "TensorBoard drops earlier files' steps from this one on";
  EXPECT_EQ(little_endian(only(fields_in(only(start, 7)), 1)), 1U) << "SessionLog.START";
  const auto event = fields_in(records[2]);
  const auto time = std::bit_cast<double>(little_endian(only(event, 1)));
  EXPECT_GT(time, 1.7e9);
  EXPECT_LT(time, 4e9);
  EXPECT_EQ(little_endian(only(event, 2)), 50U);
  std::map<std::string, float> scalars;
  for (const auto& [number, value] : fields_in(only(event, 5))) {
    EXPECT_EQ(number, 1U);
    const auto scalar = fields_in(value);
    scalars[only(scalar, 1)] = std::bit_cast<float>(static_cast<uint32_t>(little_endian(only(scalar, 2))));
  }
  EXPECT_EQ(scalars, (std::map<std::string, float>{{"train/loss", 2.5F}, {"valid/bleu", -1e30F}}));
  EXPECT_EQ(little_endian(only(fields_in(records[3]), 2)), uint64_t{1} << 40);
}

TEST(EventFile, IsNotHarmedByAnotherThatWasCut) {
  const TestFolder folder;
  write_file(folder.path() / "events.out.tfevents.1.host.1.fovea", "\x18\0\0\0");
  EventFile file(folder.path(), 0);
  file.write(1, {{"a", 1.0}});
  EXPECT_EQ(folder.names().size(), 2U);
  EXPECT_EQ(read_file(folder.path() / "events.out.tfevents.1.host.1.fovea"), "\x18");
  EXPECT_FALSE(EventFile::is_own(folder.path() / "events.out.tfevents.1.host.1.fovea")) << "a name alone does not tell";
}

TEST(EventFile, SaysWhyItCannotBeMade) {
  const TestFolder folder;
  write_file(folder.path() / "file", "");
  EXPECT_THAT(message_of([&] { EventFile(folder.path() / "file/tensorboard", 0); }),
              testing::HasSubstr("--tensorboard: cannot make the folder '"));
  EXPECT_FALSE(EventFile::is_own("events.out.tfevents.1.other"));
}

}  // namespace
}  // namespace fovea::train::event_file_test
