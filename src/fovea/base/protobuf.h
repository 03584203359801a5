#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// The part of protobuf's format that SentencePiece's models and TensorBoard's events need.
namespace fovea {

// A number of a protobuf message: seven bits a byte, the lowest first, the eighth bit set in all but the last. False at
// the end of the message.
bool take_protobuf_number(std::string_view& message, uint64_t& number);

struct ProtobufField {
  uint64_t number = 0;
  // The one that the field has. A field of 8 bytes shows none.
  std::optional<uint64_t> value;
  std::optional<std::string_view> bytes;
  std::optional<float> real;
};

// Takes the next field off `message`. False for bytes that are not a message, and for groups, which models do not have.
bool take_protobuf_field(std::string_view& message, ProtobufField& field);

// Shows `holds` each field; false if `holds` returns false for one, and for bytes that are not a message.
template <class Holds>
bool all_protobuf_fields(std::string_view message, const Holds& holds) {
  while (!message.empty()) {
    ProtobufField field;
    if (!take_protobuf_field(message, field) || !holds(field)) return false;
  }
  return true;
}

// Append a field to a message.
void put_protobuf_number(std::string& message, uint64_t field, int64_t value);
void put_protobuf_bytes(std::string& message, uint64_t field, std::string_view bytes);
void put_protobuf_float(std::string& message, uint64_t field, float value);
void put_protobuf_double(std::string& message, uint64_t field, double value);

}  // namespace fovea
