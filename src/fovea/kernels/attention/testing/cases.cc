#include "fovea/kernels/attention/testing/cases.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <numbers>
#include <string>

#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/spec/testing/examples.h"
#include "fovea/spec/testing/random_spec.h"

namespace fovea::kernels::testing_suite {
namespace {

using Lengths = std::vector<std::pair<int64_t, int64_t>>;  // queries, keys

// Several sequences a call, empty ones and the steps of a decoder among them.
const std::vector<Lengths> kSelfLengths = {
    {{65, 65}, {0, 0}, {7, 7}},
    {{33, 33}, {1, 1}},
    {{2, 2}, {1, 33}, {3, 65}},
    {{7, 33}, {7, 7}},
    {{1, 1}},
    {{0, 0}},
    {{0, 5}, {33, 65}},
    {{1, 65}, {1, 2}, {1, 7}},
};
const std::vector<Lengths> kCrossLengths = {
    {{7, 33}, {65, 2}, {0, 3}, {1, 1}}, {{33, 7}, {2, 65}}, {{2, 0}, {5, 1}}, {{1, 65}, {1, 33}}, {{0, 0}},
};
constexpr std::array<int64_t, 6> kHeadDims = {1, 3, 16, 64, 129, 256};

AttentionProblem problem_of(const Suite& suite, const AttentionSpec& spec, AttentionKind kind, Rng& rng) {
  AttentionProblem p;
  p.spec = spec;
  p.kind = kind;
  p.dtype = suite.dtype;
  p.num_heads = 1 + static_cast<int64_t>(rng.below(3));
  p.head_dim = kHeadDims.at(rng.below(kHeadDims.size()));
  p.needs_backward = rng.below(4) != 0;
  p.dropout = rng.below(3) == 0 ? 0.3F : 0;
  const auto& choices = kind == AttentionKind::kCross ? kCrossLengths : kSelfLengths;
  int64_t q = 0, k = 0;
  for (const auto& [queries, keys] : choices.at(rng.below(choices.size()))) {
    p.sequences.push_back({q, queries, k, keys});
    q += queries, k += keys;
  }
  return p;
}

// One term alone, or several, in turn. The ranges lie at either end of the offsets, hold them all, or are narrower.
OffsetRanges draw_offsets(int number, Rng& rng) {
  const auto range = [&](int64_t most) {
    return OffsetRange{-static_cast<int64_t>(rng.below(static_cast<uint64_t>(most))),
                       1 + static_cast<int64_t>(rng.below(static_cast<uint64_t>(most)))};
  };
  OffsetRanges out;
  const int which = number % 6;
  if (which == 0 || which == 2 || which == 5) out.by_head = range(90);
  if (which == 1 || which == 2 || which == 5) out.by_query = range(40);
  if (which == 3 || which == 5) out.product = range(70);
  if (which == 4 || which == 5) out.sums = range(30);
  return out;
}

// Lists of keys or blocks, shared by the heads or not, shorter and longer than the sequences.
GivenPairs choose_given(int number) {
  constexpr ListHeads kKeys = ListHeads::kOfKeys, kQueries = ListHeads::kOfQueries;
  constexpr std::array<GivenPairs, 9> kChoices = {{{1, 6},
                                                   {1, 40, kKeys},
                                                   {5, 3, kKeys},
                                                   {128, 2},
                                                   {1, 0},
                                                   {4, 9},
                                                   {16, 3, kQueries},
                                                   {3, 5, kQueries},
                                                   {20, 2, kKeys}}};
  return kChoices.at(static_cast<size_t>(number) % kChoices.size());
}

// Lists that kernels may be given: some rows empty, some full.
std::vector<int32_t> draw_given(const AttentionProblem& p, int64_t queries, Rng& rng) {
  const int64_t heads = p.list_heads(), count = p.given.count;
  std::vector<int32_t> lists(static_cast<size_t>(queries * heads * count) + 16, -1);
  for (const Sequence& s : p.sequences) {
    for (int64_t i = 0; i < s.q_length; ++i) {
      const int64_t limit = std::max<int64_t>(row_of(p, s, i).limit(), 0);
      const int64_t units = (limit + p.given.block - 1) / p.given.block;
      for (int64_t h = 0; h < heads; ++h) {
        int32_t* list = lists.data() + ((s.q_begin + i) * heads + h) * count;
        // Each unit with a chance that is drawn by row.
        const uint64_t chance = rng.below(5);
        int64_t at = 0;
        for (int64_t unit = 0; unit < units && at < count; ++unit) {
          if (rng.below(4) < chance) list[at++] = static_cast<int32_t>(unit);
        }
      }
    }
  }
  return lists;
}

// Grouped queries in every fourth case: whole groups, and calls that begin or end within one.
void share_keys(int number, AttentionProblem& p) {
  if (number % 4 != 3) return;
  Rng rng(2026, static_cast<uint64_t>(number));
  p.num_heads = 2 + static_cast<int64_t>(rng.below(4));
  p.keys.share = 2 + static_cast<int64_t>(rng.below(3));
  if (rng.below(3) == 0) p.keys.skipped = static_cast<int64_t>(rng.below(static_cast<uint64_t>(p.keys.share)));
}

bool is_allowed(const AttentionSpec& spec, AttentionKind kind) {
  try {
    validate(spec, kind);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::vector<std::string> with_extras(const std::vector<SpecName>& names, std::initializer_list<const char*> extras) {
  std::vector<std::string> out = examples(names);
  out.insert(out.end(), extras.begin(), extras.end());
  return out;
}

// Patterns and transforms as the lists have them, and what is made of several or takes another way.
std::vector<AttentionSpec> systematic_specs() {
  const std::vector<std::string> transforms =
      with_extras(transform_names(), {"entmax(1.5)", "entmax(2.5)", "sigmoid(-2)", "sink(3)"});
  std::vector<AttentionSpec> out;
  for (const std::string& pairs :
       with_extras(pattern_names(),
                   {"window(4)|global(1)|random(3)", "(window(9)|global(2))&local(20)", "local(3)&global(1)"})) {
    for (const char* select : {"", "+topk(1)", "+topk(4)", "+topk(3,keep=window(2))", "+topk(3,keep=random(2))",
                               "+top-p(0.7)", "+top-p(0.4,keep=window(2))"}) {
      for (const std::string& transform : transforms)
        out.push_back(parse_attention(cat(pairs, select, "+", transform)));
    }
  }
  return out;
}

// Mechanisms under soft caps that bend most scores, some, and none.
std::vector<AttentionSpec> capped_specs() {
  std::vector<AttentionSpec> out;
  for (const char* pairs : {"full", "window(4)|global(1)", "random(5)", "local(9)"}) {
    for (const char* cap : {"softcap(0.7)", "softcap(3)", "softcap(50)"}) {
      for (const char* rest : {"", "+topk(4)", "+topk(3,keep=window(2))", "+top-p(0.7)", "+sink(3)", "+sparsemax",
                               "+entmax(1.5)", "+relu", "+sigmoid(-2)", "+topk(3)+gelu"})
        out.push_back(parse_attention(cat(pairs, "+", cap, rest)));
    }
  }
  return out;
}

}  // namespace

std::vector<Case> every_nth(const std::vector<Case>& cases, size_t every, size_t first) {
  std::vector<Case> out;
  if (cases.empty()) return out;
  every = std::min(every, cases.size());
  for (size_t i = first % every; i < cases.size(); i += every) out.push_back(cases[i]);
  return out;
}

std::vector<Case> part_of(const Suite& suite, const std::vector<Case>& cases) {
  if (suite.only < 0) return every_nth(cases, static_cast<size_t>(suite.every), static_cast<size_t>(suite.first));
  std::vector<Case> out;
  std::copy_if(cases.begin(), cases.end(), std::back_inserter(out),
               [&](const Case& c) { return c.number == suite.only; });
  return out;
}

std::vector<Case> all_cases(const Suite& suite) {
  std::vector<Case> out;
  int next = 0;
  const auto add = [&](const AttentionSpec& spec) {
    for (const AttentionKind kind : {AttentionKind::kSelf, AttentionKind::kCausal, AttentionKind::kCross}) {
      if (!is_allowed(spec, kind)) continue;
      const int number = next++;
      Rng rng(2024, static_cast<uint64_t>(number));
      Case c{number, problem_of(suite, spec, kind, rng), static_cast<Layout>(rng.below(3)),
             static_cast<Layout>(rng.below(3)), rng()};
      share_keys(number, c.problem);
      if (suite.kernel->refuses(c.problem).empty()) out.push_back(std::move(c));
    }
  };
  const std::vector<AttentionSpec> specs = systematic_specs();
  for (const AttentionSpec& spec : specs) add(spec);
  Rng rng(7);
  for (int i = 0; i < suite.random_trees; ++i) {
    add(random_spec(rng));
  }
  // Terms by offset, with every third of the specs: the number of specs made of one pattern is not a multiple of it.
  for (size_t i = 0; i < specs.size(); ++i) {
    if (i % 3 != 0) continue;
    const auto kind = i / 3 % 2 == 0 ? AttentionKind::kSelf : AttentionKind::kCausal;
    if (!is_allowed(specs[i], kind)) continue;
    const int number = next++;
    Rng own(2025, static_cast<uint64_t>(number));
    Case c{number, problem_of(suite, specs[i], kind, own), static_cast<Layout>(own.below(3)),
           static_cast<Layout>(own.below(3)), own()};
    c.problem.offsets = draw_offsets(static_cast<int>(i / 6), own);
    share_keys(number, c.problem);
    if (suite.kernel->refuses(c.problem).empty()) out.push_back(std::move(c));
  }
  // A kernel that takes lists of blocks alone gets its cases here, every other one with terms.
  constexpr ListHeads kHeads[] = {ListHeads::kOfQueries, ListHeads::kOfKeys, ListHeads::kShared};
  for (int variant = 0; out.empty() || out.back().problem.given.any(); ++variant) {
    if (variant == 120) break;
    constexpr std::array kSpecs = {"full", "sink", "sink(3)", "softcap(3)", "softcap(0.7)+sink"};
    const AttentionSpec spec = parse_attention(kSpecs.at(static_cast<size_t>(variant) % kSpecs.size()));
    const auto kind = static_cast<AttentionKind>(variant / 3 % 3);
    const int number = next++;
    Rng own(2028, static_cast<uint64_t>(number));
    Case c{number, problem_of(suite, spec, kind, own), static_cast<Layout>(own.below(3)),
           static_cast<Layout>(own.below(3)), own()};
    c.problem.given = {16 + variant % 4 * 5, 1 + variant / 2 % 7, kHeads[variant % 4 % 3]};
    if (variant % 2 == 1 && kind != AttentionKind::kCross) c.problem.offsets = draw_offsets(variant / 2, own);
    share_keys(number, c.problem);
    if (suite.kernel->refuses(c.problem).empty()) out.push_back(std::move(c));
  }
  // Cases with pairs that come with the call, by themselves and with terms.
  for (size_t i = 0; i < specs.size(); ++i) {
    if (i % 2 == 0 && !specs[i].pairs().is_full()) continue;
    const auto kind = static_cast<AttentionKind>(i % 3);
    if (!is_allowed(specs[i], kind)) continue;
    const int number = next++;
    Rng own(2027, static_cast<uint64_t>(number));
    Case c{number, problem_of(suite, specs[i], kind, own), static_cast<Layout>(own.below(3)),
           static_cast<Layout>(own.below(3)), own()};
    c.problem.given = choose_given(number);
    if (number % 5 == 0 && kind != AttentionKind::kCross) c.problem.offsets = draw_offsets(number / 5, own);
    share_keys(number, c.problem);
    if (suite.kernel->refuses(c.problem).empty()) out.push_back(std::move(c));
  }
  // Soft caps, every third with terms by offset and every fifth with pairs that come with the call.
  const std::vector<AttentionSpec> capped = capped_specs();
  for (size_t i = 0; i < capped.size(); ++i) {
    for (const AttentionKind kind : {AttentionKind::kSelf, AttentionKind::kCausal, AttentionKind::kCross}) {
      if (!is_allowed(capped[i], kind)) continue;
      const int number = 1'000'000 + static_cast<int>(3 * i) + static_cast<int>(kind);  // those of the others stay
      Rng own(2029, static_cast<uint64_t>(number));
      Case c{number, problem_of(suite, capped[i], kind, own), static_cast<Layout>(own.below(3)),
             static_cast<Layout>(own.below(3)), own()};
      if (number % 3 == 0 && kind != AttentionKind::kCross) c.problem.offsets = draw_offsets(number / 3, own);
      if (number % 5 == 0) c.problem.given = choose_given(number / 5);
      share_keys(number, c.problem);
      if (suite.kernel->refuses(c.problem).empty()) out.push_back(std::move(c));
    }
  }
  return out;
}

constexpr std::array kLongSpecs = {"full",
                                   "topk(8)",
                                   "topk(32)",
                                   "topk(5,keep=window(3))",
                                   "window(256)+topk(8)",
                                   "topk(8)+relu",
                                   "topk(12)+entmax(1.5)",
                                   "sparsemax",
                                   "entmax(1.5)",
                                   "entmax(1.3)",
                                   "entmax(1.8)",
                                   "entmax(3)",
                                   "topk(12)+entmax(2.5)",
                                   "entmax(learned)",
                                   "relu",
                                   "gelu",
                                   "window(64)",
                                   "dilated(20,9)",
                                   "block(100)",
                                   "random(16)",
                                   "strided(30)",
                                   "fixed(50,4)",
                                   "window(32)|global(3)",
                                   "blocks(50,1)",
                                   "sigmoid(-5)",
                                   "sink",
                                   "topk(12)+sink",
                                   "window(64)+sink(4)",
                                   "softcap(2)",
                                   "softcap(2)+relu",
                                   "window(64)+softcap(2)",
                                   "softcap(20)+sink",
                                   "softcap(2)+topk(8)",
                                   "others+softcap(3)"};

std::vector<Case> long_cases(const Suite& suite) {
  std::vector<Case> out;
  int number = -1, term_number = 100;
  for (const char* text : kLongSpecs) {
    ++number;
    Rng rng(99, static_cast<uint64_t>(number));
    Case c{number, {}, static_cast<Layout>(rng.below(3)), static_cast<Layout>(rng.below(3)), rng()};
    AttentionProblem& p = c.problem;
    p.spec = parse_attention(text);
    p.kind = number % 2 == 0 ? AttentionKind::kCausal : AttentionKind::kSelf;
    p.dtype = suite.dtype;
    p.num_heads = 2;
    if (number % 5 < 2) p.num_heads = 3, p.keys.share = 2;
    p.head_dim = number % 3 == 0 ? 64 : 40;
    p.needs_backward = true;
    p.dropout = number % 4 == 0 ? 0.2F : 0;
    p.sequences = {{0, 17, 0, 611}, {17, 20, 611, 300}};
    // Many queries too: several blocks of them, and backward in several parts. Smooth transforms only: among thousands
    // of scores some lie so close to relu's zero that rounding decides.
    const int64_t many = c.number == 0 ? 1030 : std::string_view(text) == "gelu" ? 730 : 0;
    if (many > 0) p.sequences.push_back({37, many, 911, many});
    if (suite.kernel->refuses(p).empty()) out.push_back(c);
    // This row with terms, each term by itself, as long as the row and shorter.
    constexpr OffsetRange kLong = {-700, 900}, kShort = {-33, 50};
    for (const OffsetRanges& offsets : {OffsetRanges{.by_head = kLong}, OffsetRanges{.by_query = kShort},
                                        OffsetRanges{.product = kLong}, OffsetRanges{.sums = kShort}}) {
      Case with_terms = c;
      with_terms.number = term_number++;
      with_terms.problem.offsets = offsets;
      if (suite.kernel->refuses(with_terms.problem).empty()) out.push_back(std::move(with_terms));
    }
    // This row with pairs that come with the call.
    const auto heads = [&](int which) { return static_cast<ListHeads>((number / 4 + which) % 3); };
    for (const GivenPairs& given : {GivenPairs{1, 60, heads(1)}, GivenPairs{128, 2, heads(2)},
                                    GivenPairs{32, 6, heads(0)}, GivenPairs{150, 20, heads(0)}}) {
      if (number % 4 != 0) continue;
      Case with_lists = c;
      with_lists.number = term_number++;
      with_lists.problem.given = given;
      if (suite.kernel->refuses(with_lists.problem).empty()) out.push_back(std::move(with_lists));
    }
  }
  return out;
}

namespace {

// Draws a number of mean 0 and variance 1: the sum of two numbers of a table of normal ones. Box and Muller's logarithm
// and cosine for each number would take a third of the whole suite's time.
double quick_normal(Rng& rng) {
  constexpr size_t kCount = 4096;
  static const std::vector<double> kTable = [] {
    Rng table_rng(1);
    std::vector<double> table;
    for (size_t i = 0; i < kCount; ++i) table.push_back(table_rng.normal() * std::numbers::sqrt2 / 2);
    return table;
  }();
  const uint64_t bits = rng();
  return kTable[bits % kCount] + kTable[bits / kCount % kCount];
}

}  // namespace

Inputs draw_inputs(const Case& c, const Draw& draw, uint64_t seed) {
  const AttentionProblem& p = c.problem;
  const Sequence last = p.sequences.back();
  const int64_t queries = last.q_begin + last.q_length, keys = last.k_begin + last.k_length;
  const auto array = [&](int64_t tokens) { return Array(p.dtype, c.inputs, tokens, p.num_heads, p.head_dim); };
  const auto of_keys = [&] { return Array(p.dtype, c.inputs, keys, p.num_key_heads(), p.head_dim); };
  Inputs in{array(queries), of_keys(), of_keys(), array(queries), {}, 0, {}};
  Rng rng(seed);
  const auto fill = [&](Array& to, double deviation, bool coarse) {
    for (int64_t t = 0; t < to.tokens(); ++t) {
      // Some rows are copies: equal keys tie, whatever the scores.
      const bool copy = coarse && t > 0 && rng.below(4) == 0, zero = coarse && rng.below(8) == 0;
      for (int64_t h = 0; h < to.heads(); ++h) {
        for (int64_t i = 0; i < to.width(); ++i) {
          const double drawn = coarse ? static_cast<double>(rng.below(9)) / 2 - 2 : quick_normal(rng);
          to.set(t, h, i, zero ? 0 : copy ? to.get(t - 1, h, i) : drawn * deviation);
        }
      }
    }
  };
  fill(in.q, draw.q, draw.coarse);
  fill(in.k, draw.k, draw.coarse);
  fill(in.v, draw.v, false);
  fill(in.grad_out, 1, false);
  constexpr float kAlphas[] = {1.2F, 2.4F, 1.35F, 1.7F};
  for (int64_t h = 0; h < p.num_heads; ++h) in.alpha.push_back(kAlphas[h % 4]);
  in.scale = draw.coarse ? 0.25F : 1 / std::sqrt(static_cast<float>(p.head_dim));
  in.random = {.seed = seed, .dropout_key = rng(), .layer = 2, .first_head = 3};
  const OffsetRanges& has = p.offsets;
  const auto term = [&] { return draw.coarse ? static_cast<double>(rng.below(9)) / 2 - 2 : quick_normal(rng); };
  for (int64_t i = 0; i < p.num_heads * has.by_head.count; ++i) in.by_head.push_back(static_cast<float>(term()));
  const auto floats = [&](int64_t width) { return Array(DType::kFloat32, c.inputs, queries, p.num_heads, width); };
  if (has.by_query.count > 0) {
    in.by_query = floats(has.by_query.count);
    for (int64_t t = 0; t < queries; ++t)
      for (int64_t h = 0; h < p.num_heads; ++h)
        for (int64_t i = 0; i < has.by_query.count; ++i) in.by_query.set(t, h, i, term());
  }
  if (has.product.count > 0) {
    in.queries = array(queries);
    in.rows = Array(p.dtype, c.inputs, has.product.count, seed % 2 == 0 ? 1 : p.num_heads, p.head_dim);
    fill(in.queries, draw.q, draw.coarse);
    fill(in.rows, draw.k, draw.coarse);
  }
  if (has.sums.count > 0) {
    in.grad_sums = floats(has.sums.count);
    fill(in.grad_sums, 1, false);
  }
  if (p.given.any()) in.given = draw_given(p, queries, rng);
  return in;
}

}  // namespace fovea::kernels::testing_suite
