#include "fovea/spec/draw.h"

#include <algorithm>
#include <variant>

#include "fovea/base/strings.h"
#include "fovea/spec/attention_parameters.h"

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

// A query's own block, and '+' for the keys of the blocks of which the best are seen.
std::string draw_blocks(const BlockChoice& choice, int64_t length, AttentionKind kind) {
  std::string out;
  for (int64_t query = 0; query < length; ++query) {
    const int64_t own = query / choice.block * choice.block;
    const bool causal = kind == AttentionKind::kCausal;
    const int64_t limit = causal ? query + 1 : length;
    std::string line(static_cast<size_t>(length), '.');
    if (choice.best > 1) std::fill_n(line.begin(), limit, '+');
    std::fill(line.begin() + own, line.begin() + std::min(own + choice.block, limit), '#');
    out += line + "\n";
  }
  if (choice.best == 1) return out;
  return cat(out, "#: the query's own block; +: of these blocks of ", choice.block, ", the ", choice.best - 1,
             " with the greatest scores are seen too\n");
}

std::string selected_line(const All&) { return ""; }
std::string selected_line(const TopK& top) {
  return cat("Of a query's candidates, the ", top.k, " with the greatest scores are selected\n");
}
std::string selected_line(const TopP& top) {
  return cat("Of a query's candidates, the fewest that have ", shortest(top.p), " of the weight are selected\n");
}

// Lines about the stages, which a picture of candidates does not show.
std::string stage_lines(const AttentionSpec& spec) {
  std::string out = std::visit([](const auto& item) { return selected_line(item); }, spec.selection);
  if (lacks_bias(spec))
    out += cat("Training sets the bias of ", Sigmoid::kName,
               " to -ln(greatest length) and stores it: ", print(with_bias({{0, spec}}, 1024)), " for 1,024 tokens\n");
  if (spec.cap)
    out += cat("Each score s becomes ", shortest(spec.cap->cap), " tanh(s / ", shortest(spec.cap->cap), ")\n");
  if (spec.scale)
    out += cat("A query with n candidates is multiplied by ",
               scales_by_input(spec.transform) ? "1 + softplus(x b) (ln(n + 1))^(2 tanh(x g)), x the layer's input\n"
                                               : "s ln(n), s learned for each head\n");
  return out;
}

}  // namespace

std::string draw(const LayerSpec& spec, int64_t length, AttentionKind kind) {
  require_groups_fit(spec);
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
    } else if (const IndexedKeys* indexed = group.spec.indexed()) {
      out += draw_pairs({}, length, kind, stream);
      out += cat("Of a query's candidates, the ", indexed->count, " that the indexer scores highest are seen\n");
    } else if (const BlockChoice* blocks = group.spec.blocks()) {
      out += draw_blocks(*blocks, length, kind);
    } else {
      out += draw_pairs(group.spec.pairs(), length, kind, stream);
    }
    out += stage_lines(group.spec);
    ++stream;
  }
  return out;
}

}  // namespace fovea
