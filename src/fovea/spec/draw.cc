#include "fovea/spec/draw.h"

#include "fovea/base/strings.h"

namespace fovea {
namespace {

std::string draw_pairs(const Pairs& pairs, int64_t length, AttentionKind kind, uint64_t stream) {
  std::string out;
  for (int64_t query = 0; query < length; ++query) {
    std::string line(static_cast<size_t>(length), '.');
    for (const Span& span : spans(pairs, {query, length, kind == AttentionKind::kCausal, stream}))
      line.replace(static_cast<size_t>(span.begin), static_cast<size_t>(span.end - span.begin),
                   static_cast<size_t>(span.end - span.begin), '#');
    out += line + "\n";
  }
  return out;
}

}  // namespace

std::string draw(const LayerSpec& spec, int64_t length, AttentionKind kind) {
  require_one_norm(spec);
  std::string out = print(spec) + "\n";
  uint64_t stream = 0;
  for (const HeadGroup& group : spec) {
    validate(group.spec, kind);
    if (spec.size() > 1) out += "\n" + print(LayerSpec{group}) + "\n";
    if (group.spec.clauses()) {
      out += "The candidates of clause depend on the text: those of a query are in its clause\n";
    } else if (group.spec.route()) {
      out +=
          cat("The candidates of ", Routed::kName, " depend on the data: those of a query share a cluster with it\n");
    } else {
      out += draw_pairs(group.spec.pairs(), length, kind, stream);
    }
    if (group.spec.select)
      out += cat("Of a query's candidates, the ", group.spec.select->k, " with the greatest scores are selected\n");
    ++stream;
  }
  return out;
}

}  // namespace fovea
