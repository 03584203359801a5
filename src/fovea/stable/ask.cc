#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/kernels/call/checks.h"
#include "fovea/kernels/call/indexer.h"
#include "fovea/kernels/routing/rows.h"
#include "fovea/spec/attention_cache.h"
#include "fovea/spec/attention_parameters.h"
#include "fovea/spec/description.h"
#include "fovea/spec/resolved_layer.h"
#include "fovea/stable/schemas.h"

// Questions about specs, which Python asks by ctypes: they have no tensors, and so no place among operators, which
// modes of torch intercept. A question is "what\x1fargument\x1f..."; so is the answer, in lines.
namespace fovea::stable {
namespace {

constexpr char kBetween = '\x1f';

std::string answer(const std::vector<std::string>& parts) { return join(parts, std::string(1, kBetween)); }
std::string digit(bool value) { return value ? "1" : "0"; }

// A line for the norm, then one for each head group.
std::string layer(const std::vector<std::string>& in) {
  const auto resolved = resolved_layer(in.at(2), std::stoll(in.at(1)));
  const NormParts norm = parts_of(resolved->norm);
  const AttentionParameters& reads = resolved->reads;
  std::vector<std::string> lines{answer({std::string(name_of(resolved->norm)), digit(norm.gate), digit(norm.bias),
                                         digit(norm.centred), digit(reads.gain), digit(reads.gate), digit(reads.bias),
                                         digit(reads.alpha), digit(reads.sinks), digit(resolved->positional)})};
  for (size_t g = 0; g < resolved->groups.size(); ++g) {
    const AttentionLayer::Group& group = resolved->groups[g];
    // The keys of a block, how many blocks, whether by bounds; zeros without blocktopk.
    const BlockChoice* blocks = group.spec.blocks();
    const BlockChoice choice = blocks != nullptr ? *blocks : BlockChoice{.block = 0, .best = 0};
    lines.push_back(answer({cat(group.num_heads), print(group.spec), digit(group.reads_alpha), digit(group.is_routed()),
                            cat(group.span), print(resolved->listed[g].spec), cat(choice.block), cat(choice.best),
                            digit(choice.score == BlockChoice::Score::kBounds)}));
  }
  return join(lines, "\n");
}

// The first argument of a transform or a selection; 0 without.
template <class T>
std::string number_of(const T& item) {
  if constexpr (std::tuple_size_v<decltype(T::fields())> == 0) {
    return "0";
  } else {
    return shortest(static_cast<double>(item.*std::get<0>(T::fields()).member));
  }
}

// The transform, its argument, whether it is learned; the selection, its argument, and whether it keeps pairs; whether
// all pairs are candidates, whether pairs are drawn, the limit of an adaptive span (0: none), and the soft cap of the
// scores (0: none).
std::string parts(const std::vector<std::string>& in) {
  const AttentionSpec spec = parse_attention_once(in.at(1));
  const auto name = std::visit([](const auto& t) { return std::string(t.kName); }, spec.transform);
  const std::string selection(spec.selects() ? name_of(spec.selection) : "");
  const AdaptiveSpan* span = adaptive_span(spec);
  return answer({name, std::visit([](const auto& item) { return number_of(item); }, spec.transform),
                 digit(learns_argument(spec.transform)), selection,
                 std::visit([](const auto& item) { return number_of(item); }, spec.selection),
                 digit(spec.keep.has_value()), digit(spec.pairs().is_full()), digit(uses_random(spec)),
                 cat(span != nullptr ? span->limit : 0), shortest(spec.cap ? spec.cap->cap : 0)});
}

// The clusters and the window of a routed mechanism, whether it has centroids, and the mechanism within a cluster,
// whose pairs are all.
std::string route(const std::vector<std::string>& in) {
  AttentionSpec spec = parse_attention_once(in.at(1));
  if (spec.route() == nullptr) throw Error(cat("attention '", in.at(1), "' is not routed"));
  const Routed found = *spec.route();
  spec.source = Pairs{};
  return answer({cat(found.clusters), cat(found.window), digit(found.has_centroids()), print(spec)});
}

// Throws the Error of a condition that Python has found broken.
std::string refuse(const std::vector<std::string>& in) {
  const std::string& what = in.at(1);
  if (what == "layout") kernels::refuse_layout(in.at(2), in.at(3));
  if (what == "scale") kernels::check_scale(std::stod(in.at(3)), in.at(2));
  if (what == "kernel") kernels::check_kernel(in.at(2));
  if (what == "tangents") kernels::refuse_tangents(in.at(2));
  if (what == "second") kernels::refuse_second_derivatives(in.at(2));
  if (what == "indices") {  // the caller, the least and the greatest of them, and the number of keys
    kernels::check_index_range(std::stoll(in.at(3)), std::stoll(in.at(4)), std::stoll(in.at(5)), in.at(2));
  }
  if (what == "row") {  // keys, heads, the MiB that are needed, and those that are allowed
    kernels::refuse_row({std::stoll(in.at(2)), std::stoll(in.at(3)), std::stod(in.at(4))}, std::stod(in.at(5)));
  }
  throw Error(cat("fovea: '", what, "' is not refused"));
}

std::string constants(const std::vector<std::string>&) {
  return answer({shortest(kernels::kLeastAlpha), shortest(kernels::kGreatestAlpha), shortest(kernels::kNormEps),
                 shortest(kernels::kRoutingNormEps), shortest(kernels::kCountBias)});
}

std::string parse(const std::vector<std::string>& in) {
  return canonical_layer(in.at(2), in.at(1).empty() ? std::nullopt : std::optional(std::stoll(in.at(1))));
}

std::string all_schemas(const std::vector<std::string>&) {
  using namespace schemas;
  return join(std::vector<std::string>{kAttention, kAttentionWeights, kAttentionForward, kAttentionBackward, kHeadNorm,
                                       kHeadNormBackward, kIndexTopk, kIndexTarget, kBlockTopk, kIndexLossKernel,
                                       kParse, kParameters, kProperties, kAlphaRange, kSpecNames},
              "\n");
}

struct Question {
  const char* name;
  std::string (*answer)(const std::vector<std::string>& in);
};
constexpr Question kQuestions[] = {
    {"layer", &layer},
    {"parts", &parts},
    {"route", &route},
    {"refuse", &refuse},
    {"constants", &constants},
    {"reference_mib", [](const std::vector<std::string>&) { return shortest(kernels::reference_mib()); }},
    {"parse", &parse},
    {"parameters", [](const std::vector<std::string>& in) { return join(parameter_names(in.at(1)), "\n"); }},
    {"properties", [](const std::vector<std::string>& in) { return join(property_names(in.at(1)), "\n"); }},
    {"names", [](const std::vector<std::string>&) { return join(spec_name_lines(), "\n"); }},
    {"schemas", &all_schemas},
};

std::string answer_of(const std::vector<std::string>& in) {
  for (const Question& question : kQuestions) {
    if (in.at(0) == question.name) return question.answer(in);
  }
  throw Error(cat("fovea: the library knows no question '", in.at(0), "'; the package's files are of two versions"));
}

}  // namespace

// Returns "=" and the answer, or "!" and an error's text, valid until the thread asks again.
extern "C" __attribute__((visibility("default"))) const char* fovea_ask(const char* question) {
  static thread_local std::string text;
  try {
    text = "=" + answer_of(split(question, kBetween));
  } catch (const std::exception& error) {
    text = cat('!', error.what());
  }
  return text.c_str();
}

}  // namespace fovea::stable
