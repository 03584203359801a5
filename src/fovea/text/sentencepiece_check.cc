#include "fovea/text/sentencepiece_check.h"

#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "fovea/base/protobuf.h"
#include "fovea/text/sentencepiece_model.h"

namespace fovea::text {
namespace {

// A unit of darts-clone's double array: a state of the trie or, behind one that has a leaf, a value. The next state is
// at the state's own index XOR its offset XOR the next byte, if that byte is the label there.
struct DartsUnit {
  uint32_t bits = 0;
  bool has_leaf() const { return (bits >> 8 & 1U) != 0; }
  uint32_t value() const { return bits & 0x7fffffffU; }
  uint32_t label() const { return bits & 0x800000ffU; }
  uint32_t offset() const { return (bits & 0x200U) != 0 ? bits >> 10 << 8 : bits >> 10; }
};

// Follows every path that a text can take, from unit 0.
bool all_paths_stay_inside(const std::vector<DartsUnit>& units, size_t num_string_bytes) {
  // The library has room for as many matches and reads on behind it if a text has more.
  constexpr int kMaxMatches = 32;
  std::vector<int> matches(units.size(), -1);  // the most on a path to each state found so far
  std::vector<uint32_t> open = {0};
  matches[0] = 0;
  while (!open.empty()) {
    const uint32_t state = open.back();
    open.pop_back();
    const uint32_t next = state ^ units[state].offset();
    if ((next | 0xffU) >= units.size() || matches[state] > kMaxMatches) return false;
    if (units[state].has_leaf() && units[next].value() >= num_string_bytes) return false;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t child = next ^ byte;
      if (units[child].label() != byte) continue;
      const int count = matches[state] + (units[child].has_leaf() ? 1 : 0);
      if (count <= matches[child]) continue;
      matches[child] = count;
      open.push_back(child);
    }
  }
  return true;
}

// The trie's size in bytes, the trie, and the strings that its values point into, each ended by a zero.
bool is_sound(std::string_view charsmap) {
  if (charsmap.empty()) return true;
  uint32_t size = 0;
  if (charsmap.size() < sizeof(size)) return false;
  std::memcpy(&size, charsmap.data(), sizeof(size));
  charsmap.remove_prefix(sizeof(size));
  if (size == 0 || size % sizeof(DartsUnit) != 0 || size >= charsmap.size() || charsmap.back() != '\0') return false;
  std::vector<DartsUnit> units(size / sizeof(DartsUnit));
  std::memcpy(units.data(), charsmap.data(), size);
  return all_paths_stay_inside(units, charsmap.size() - size);
}

// The bytes of a user's piece; of all others none.
std::string_view user_piece(std::string_view piece) {
  std::string_view text;
  bool is_users = false;
  all_protobuf_fields(piece, [&](const ProtobufField& field) {
    if (field.number == proto::kPieceText && field.bytes) text = *field.bytes;
    // The library takes 32 bits of the number.
    if (field.number == proto::kPieceKind && field.value)
      is_users |= static_cast<uint32_t>(*field.value) == proto::kUserPiece;
    return true;
  });
  return is_users ? text : std::string_view();
}

}  // namespace

bool has_sound_charsmaps(std::string_view model) {
  return all_protobuf_fields(model, [](const ProtobufField& field) {
    const bool is_spec = field.number == proto::kNormalizerSpec || field.number == proto::kDenormalizerSpec;
    if (!is_spec || !field.bytes) return true;
    return all_protobuf_fields(*field.bytes, [](const ProtobufField& inner) {
      return !inner.bytes || inner.number != proto::kCharsmap || is_sound(*inner.bytes);
    });
  });
}

bool has_sound_user_pieces(std::string_view model) {
  constexpr size_t kMostMatches = 64;
  std::set<std::string_view> pieces;
  const bool is_message = all_protobuf_fields(model, [&](const ProtobufField& field) {
    const bool is_piece = field.number == proto::kPieces && field.bytes;
    const std::string_view text = is_piece ? user_piece(*field.bytes) : std::string_view();
    if (!text.empty()) pieces.insert(text);
    return true;
  });
  // In their order, what a piece begins with comes before it.
  std::vector<std::string_view> beginnings;
  for (const std::string_view piece : pieces) {
    while (!beginnings.empty() && !piece.starts_with(beginnings.back())) beginnings.pop_back();
    beginnings.push_back(piece);
    if (beginnings.size() > kMostMatches) return false;
  }
  return is_message;
}

}  // namespace fovea::text
