#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "fovea/base/strings.h"
#include "fovea/spec/attention_cache.h"
#include "fovea/spec/attention_parameters.h"
#include "fovea/spec/description.h"
#include "fovea/spec/resolved_layer.h"
#include "fovea/stable/problem.h"
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
                                         digit(reads.alpha), digit(resolved->positional)})};
  for (const AttentionLayer::Group& group : resolved->groups) {
    lines.push_back(answer({cat(group.num_heads), print(group.spec), digit(group.reads_alpha), digit(group.is_routed()),
                            cat(group.span)}));
  }
  return join(lines, "\n");
}

// The transform, its argument, whether it is learned; topk's k (0: none) and whether it keeps pairs; whether all pairs
// are candidates, whether pairs are drawn, and the limit of an adaptive span (0: none).
std::string parts(const std::vector<std::string>& in) {
  const AttentionSpec spec = parse_attention_once(in.at(1));
  std::string argument = "0";
  if (const auto* entmax = std::get_if<Entmax>(&spec.transform)) argument = shortest(entmax->alpha);
  if (const auto* leaky = std::get_if<LeakyRelu>(&spec.transform)) argument = shortest(leaky->slope);
  const auto name = std::visit([](const auto& t) { return std::string(t.kName); }, spec.transform);
  const AdaptiveSpan* span = adaptive_span(spec);
  return answer({name, argument, digit(learns_argument(spec.transform)), cat(spec.select ? spec.select->k : 0),
                 digit(spec.select && spec.select->keep), digit(spec.pairs().is_full()), digit(uses_random(spec)),
                 cat(span != nullptr ? span->limit : 0)});
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

// The call that a question describes: what, spec, kind, dropout, numbers. It has one sequence of the call's lengths.
kernels::AttentionProblem described(const std::vector<std::string>& in) {
  std::vector<int64_t> numbers;
  for (const std::string& number : split(in.at(4), ',')) numbers.push_back(std::stoll(number));
  kernels::AttentionProblem problem = problem_of({in.at(1), in.at(2), std::stod(in.at(3)), numbers});
  problem.sequences = {{0, numbers.at(kQueries), 0, numbers.at(kKeys)}};
  return problem;
}

// The numbers that forward leaves for backward, floats and integers per row.
std::string saved(const std::vector<std::string>& in) {
  const kernels::SavedPerRow size = kernels::saved_at_most(described(in));
  return answer({cat(size.floats), cat(size.ints)});
}

// A line for each kernel of the list, then "-> " and the one that runs.
std::string explain(const std::vector<std::string>& in) { return kernels::explain(described(in)); }

std::string parse(const std::vector<std::string>& in) {
  return canonical_layer(in.at(2), in.at(1).empty() ? std::nullopt : std::optional(std::stoll(in.at(1))));
}

std::string all_schemas(const std::vector<std::string>&) {
  using namespace schemas;
  return join(std::vector<std::string>{kAttention, kAttentionWeights, kAttentionForward, kAttentionBackward, kHeadNorm,
                                       kHeadNormBackward, kIndexTopk, kIndexTarget, kIndexLossKernel, kParse,
                                       kParameters, kProperties, kAlphaRange, kSpecNames},
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
    {"saved", &saved},
    {"explain", &explain},
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
