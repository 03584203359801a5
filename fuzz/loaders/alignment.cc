#include "fovea/analysis/alignment.h"

#include <algorithm>

#include "loaders/loaders.h"

// Gold alignments that people made by hand or by other programs.
namespace fovea::fuzz {

void load_gold(std::string_view bytes) {
  if (bytes.empty()) return;
  const analysis::LinkFormat format{.base = bytes[0] & 1, .reversed = (bytes[0] & 2) != 0};
  const analysis::SentenceLengths lengths{20, 30};
  const analysis::GoldLinks gold = analysis::parse_gold_links(bytes.substr(1), format, lengths);
  require(std::ranges::includes(gold.possible, gold.sure), "a sure link is not possible");
  for (const analysis::Link& link : gold.possible) {
    require(link.source >= 0 && link.source < lengths.source && link.target >= 0 && link.target < lengths.target,
            "a link is outside of the sentences");
  }
  const analysis::GoldLinks again =
      must_load([&] { return analysis::parse_gold_links(analysis::print(gold.sure), {}, lengths); });
  require(again.sure == gold.sure, "links that were printed are not read as they were");
}

}  // namespace fovea::fuzz
