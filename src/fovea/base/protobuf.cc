#include "fovea/base/protobuf.h"

#include <bit>
#include <limits>

namespace fovea {
namespace {

constexpr uint64_t kVarint = 0, kEightBytes = 1, kLength = 2, kGroup = 3, kGroupEnd = 4, kFourBytes = 5;

void put_varint(std::string& message, uint64_t value) {
  for (; value > 0x7f; value >>= 7) message.push_back(static_cast<char>(0x80 | (value & 0x7f)));
  message.push_back(static_cast<char>(value));
}

// The lowest byte comes first.
float float_of(std::string_view message) {
  uint32_t bits = 0;
  for (size_t i = 0; i < 4; ++i) bits |= static_cast<uint32_t>(static_cast<unsigned char>(message[i])) << (8 * i);
  return std::bit_cast<float>(bits);
}

}  // namespace

bool take_protobuf_number(std::string_view& message, uint64_t& number) {
  number = 0;
  for (int shift = 0; shift < 64 && !message.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(message.front());
    message.remove_prefix(1);
    number |= static_cast<uint64_t>(byte & 0x7fU) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

bool take_protobuf_field(std::string_view& message, ProtobufField& field) {
  uint64_t key = 0, number = 0, size = 0;
  if (!take_protobuf_number(message, key) || key > std::numeric_limits<uint32_t>::max()) return false;
  const uint64_t type = key & 7;
  if ((type == kVarint || type == kLength) && !take_protobuf_number(message, number)) return false;
  if (type == kEightBytes) size = 8;
  if (type == kLength) size = number;
  if (type == kFourBytes) size = 4;
  if (type == kGroup || type == kGroupEnd || type > kFourBytes || size > message.size()) return false;
  field = {key >> 3, std::nullopt, std::nullopt, std::nullopt};
  if (type == kVarint) field.value = number;
  if (type == kLength) field.bytes = message.substr(0, size);
  if (type == kFourBytes) field.real = float_of(message);
  message.remove_prefix(size);
  return true;
}

void put_protobuf_number(std::string& message, uint64_t field, int64_t value) {
  put_varint(message, field << 3 | kVarint);
  put_varint(message, static_cast<uint64_t>(value));
}

void put_protobuf_bytes(std::string& message, uint64_t field, std::string_view bytes) {
  put_varint(message, field << 3 | kLength);
  put_varint(message, bytes.size());
  message += bytes;
}

void put_protobuf_float(std::string& message, uint64_t field, float value) {
  put_varint(message, field << 3 | kFourBytes);
  const auto bits = std::bit_cast<uint32_t>(value);
  for (int shift = 0; shift < 32; shift += 8) message.push_back(static_cast<char>(bits >> shift & 0xff));
}

void put_protobuf_double(std::string& message, uint64_t field, double value) {
  put_varint(message, field << 3 | kEightBytes);
  const auto bits = std::bit_cast<uint64_t>(value);
  for (int shift = 0; shift < 64; shift += 8) message.push_back(static_cast<char>(bits >> shift & 0xff));
}

}  // namespace fovea
