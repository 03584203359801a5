#include "fovea/text/unit_table.h"

namespace fovea::text {

void UnitTable::encode(std::string_view line, int32_t unk, std::vector<int32_t>& ids) const {
  const auto append = [&](std::string_view piece) {
    const auto known = ids_.find(piece);
    ids.push_back(known == ids_.end() ? unk : known->second);
  };
  if (type_ == VocabType::kChar) {
    each_character_unit(line, append);
    return;
  }
  std::string piece(kBlankSign);
  each_word(line, [&](std::string_view word) {
    piece.resize(kBlankSign.size());
    append(piece += word);
  });
}

}  // namespace fovea::text
