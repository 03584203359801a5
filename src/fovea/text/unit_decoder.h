#pragma once
#include <cstdint>
#include <string>

#include "fovea/text/units.h"

namespace fovea::text {

// Turns units into text one by one. The results of push() and finish() together are Units::decode() of all units. Bytes
// wait until the character to which they belong is whole.
class UnitDecoder {
 public:
  explicit UnitDecoder(Units units) : units_(std::move(units)) {}
  // The text that is certain now; often empty for single bytes. Throws an Error for a number that is not a unit's.
  std::string push(int64_t id);
  // Returns the text that still waits. The decoder then stands at the beginning of a text.
  std::string finish();

 private:
  std::string take_whole_characters();
  std::string take_all();
  std::string piece_text(int64_t id);

  Units units_;
  std::string held_;  // bytes of a character that is not whole yet
  bool is_line_empty_ = true;
};

}  // namespace fovea::text
