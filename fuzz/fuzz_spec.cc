#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "fovea/spec/attention_spec.h"
#include "fovea/spec/draw.h"

// Any text parses or is refused with a column within it; what parses prints to a text that reads back as itself, and
// its spans are its definition.
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check_pairs(const fovea::Pairs& pairs) {
  for (const bool causal : {false, true}) {
    for (const int64_t query : {0, 4, 8}) {
      const fovea::Row row{query, 9, causal, 5};
      std::string by_spans(9, '.');
      for (const fovea::Span& span : fovea::spans(pairs, row))
        for (int64_t key = span.begin; key < span.end; ++key) by_spans.at(static_cast<size_t>(key)) = '#';
      for (int64_t key = 0; key < 9; ++key)
        require((by_spans[static_cast<size_t>(key)] == '#') == fovea::contains(pairs, row, key));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const fovea::LayerSpec spec = fovea::parse_layer_spec(text);
    const std::string printed = fovea::print(spec);
    require(fovea::parse_layer_spec(printed) == spec);
    require(fovea::print(fovea::parse_layer_spec(printed)) == printed);
    for (const fovea::HeadGroup& group : spec) {
      require(fovea::hash_value(group.spec) == fovea::hash_value(fovea::parse_attention(fovea::print(group.spec))));
      check_pairs(group.spec.pairs());
      if (group.spec.keep) check_pairs(*group.spec.keep);
    }
  } catch (const fovea::SpecError& error) {
    require(error.column() >= 1 && error.column() <= size + 1);
  }
  return 0;
}
