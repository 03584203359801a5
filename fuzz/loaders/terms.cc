#include "fovea/text/terms.h"

#include <algorithm>

#include "loaders/loaders.h"

namespace fovea::fuzz {

// A term's own source is found as one place of its words.
void load_terms(std::string_view bytes) {
  const text::TermList terms = text::TermList::from_text(bytes, "terms");
  for (const text::Term& term : terms.terms()) {
    const auto places = terms.find(term.source);
    require(places.size() == 1, "a source is not found in itself");
    const bool has_target =
        std::ranges::any_of(places.front(), [&](size_t t) { return terms.terms().at(t).target == term.target; });
    require(has_target, "a source is found without its target");
  }
}

}  // namespace fovea::fuzz
