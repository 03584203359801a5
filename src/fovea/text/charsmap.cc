#include "fovea/text/charsmap.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <string_view>
#include <vector>

#include "fovea/text/sentencepiece_model.h"
#include "fovea/text/utf8.h"

namespace fovea::text {
namespace {

// A double array of darts-clone (see sentencepiece_check.cc). Each beginning of a key has a block of 256 units, in
// which the unit of the next byte has that byte as its number. No key begins with another one; all have the value 0,
// which is the first unit of the last block.
class WhiteSpaceTrie {
 public:
  WhiteSpaceTrie() {
    for (const std::string_view space : kWhiteSpaces) number_beginnings(space);
    number_beginnings(kBlankSign);
    units_.resize(kBlock * (blocks_.size() + 2));
    units_[0] = offset_bits(0, blocks_[""]);
    for (const auto& [beginning, block] : blocks_) units_[kBlock * block] = kNoLabel;
    units_[kBlock * value_block()] = kIsValue;
    for (const std::string_view space : kWhiteSpaces) add(space);
    add(kBlankSign);
  }
  const std::vector<uint32_t>& units() const { return units_; }

 private:
  static constexpr uint32_t kBlock = 256, kHasLeaf = 1U << 8, kIsValue = 1U << 31;
  static constexpr uint32_t kNoLabel = 0xff;  // at the place of byte 0

  static uint32_t offset_bits(uint32_t unit, uint32_t block) { return (unit ^ (kBlock * block)) << 10; }
  uint32_t value_block() const { return static_cast<uint32_t>(blocks_.size()) + 1; }

  void number_beginnings(std::string_view key) {
    for (size_t size = 0; size < key.size(); ++size)
      blocks_.emplace(key.substr(0, size), static_cast<uint32_t>(blocks_.size()) + 1);
  }

  void add(std::string_view key) {
    for (size_t size = 0; size < key.size(); ++size) {
      const auto byte = static_cast<unsigned char>(key[size]);
      const uint32_t unit = kBlock * blocks_[key.substr(0, size)] + byte;
      const bool is_last = size + 1 == key.size();
      const uint32_t next = is_last ? value_block() : blocks_[key.substr(0, size + 1)];
      units_[unit] = offset_bits(unit, next) | (is_last ? kHasLeaf : 0) | byte;
    }
  }

  std::map<std::string_view, uint32_t> blocks_;  // by the beginning of keys, from 1
  std::vector<uint32_t> units_;
};

}  // namespace

std::string white_space_charsmap() {
  const std::vector<uint32_t> units = WhiteSpaceTrie().units();
  const auto size = static_cast<uint32_t>(units.size() * sizeof(units[0]));
  std::string map(sizeof(size) + size, '\0');
  std::memcpy(map.data(), &size, sizeof(size));
  std::memcpy(map.data() + sizeof(size), units.data(), size);
  return map + std::string(" \0", 2);
}

}  // namespace fovea::text
