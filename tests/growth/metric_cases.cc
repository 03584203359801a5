#include <algorithm>
#include <random>
#include <span>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/metrics/evaluate.h"
#include "growth.h"

// Scores of translations: one segment that grows.
namespace fovea::growth {
namespace {

// A metric with its options.
struct Scored {
  std::string name, tokenize = "13a";
  bool ter_normalized = false;
};

// Makes a hypothesis and its reference of about that size each.
struct Segment {
  std::string hypothesis, reference;
};
using MakeSegment = std::function<Segment(size_t bytes)>;

Case on_segment(const std::string& name, const Scored& scored, MakeSegment make) {
  metrics::EvaluateOptions options;
  options.metrics = {scored.name}, options.tokenize = scored.tokenize;
  options.ter_normalized = options.ter_asian_support = scored.ter_normalized;
  return {.name = cat(scored.name, scored.name == "bleu" ? cat(" ", scored.tokenize) : "",
                      scored.ter_normalized ? " normalized " : " ", name),
          .bytes = 1 << 15,
          .prepare = [options, make = std::move(make)](size_t size) {
            return [options, segment = make(size)] {
              const std::vector<metrics::NamedLines> references = {{{}, {segment.reference}}};
              (void)metrics::report(options, {{}, {segment.hypothesis}}, references);
            };
          }};
}

using Words = std::vector<std::string>;

Words numbered_words(size_t bytes) { return split(numbered("w# ", bytes), ' '); }

// Words drawn from a number of different ones.
Words drawn_words(size_t bytes, uint32_t kinds, uint32_t seed) {
  std::mt19937 random(seed);
  Words words;
  for (size_t made = 0; made < bytes; made += words.back().size() + 1) words.push_back(cat("w", random() % kinds));
  return words;
}

// Changes the words of the text in the hypothesis, block by block.
template <class Change>
MakeSegment changed_blocks(size_t blocks, const Change& change) {
  return [=](size_t bytes) {
    const Words reference = numbered_words(bytes);
    Words hypothesis = reference;
    const size_t size = blocks > 0 ? reference.size() / blocks : 40;
    for (size_t begin = 0; begin + size <= hypothesis.size(); begin += size)
      change(std::span(hypothesis).subspan(begin, size));
    return Segment{join(hypothesis, " "), join(reference, " ")};
  };
}

MakeSegment drawn(uint32_t kinds) {
  return [=](size_t bytes) {
    return Segment{join(drawn_words(bytes, kinds, 1), " "), join(drawn_words(bytes, kinds, 2), " ")};
  };
}

// Texts that are hard for the search of shifts: by the number of words that fit at several places, by the shifts that
// are made, and by the places that are far apart.
void add_ter_cases(std::vector<Case>& cases) {
  const auto add = [&](const std::string& name, MakeSegment make) {
    cases.push_back(on_segment(name, {.name = "ter"}, std::move(make)));
  };
  for (const uint32_t kinds : {1U, 2U, 30U, 1000U, 1000000000U}) add(cat("drawn from ", kinds), drawn(kinds));
  const auto swap = [](std::span<std::string> words) { std::swap(words[0], words[1]); };
  const auto move = [](std::span<std::string> words) { std::rotate(words.begin(), words.begin() + 1, words.end()); };
  const auto reverse = [](std::span<std::string> words) { std::reverse(words.begin(), words.end()); };
  add("many swaps", changed_blocks(0, swap));
  add("few swaps", changed_blocks(20, swap));
  add("many shifts", changed_blocks(0, move));
  add("long shifts", changed_blocks(2, move));
  add("many reversals", changed_blocks(0, reverse));
  add("a reversal", changed_blocks(1, reverse));
  add("a short reference", [](size_t n) { return Segment{repeated("a b c d ", n), "d a x c"}; });
  add("a short hypothesis", [](size_t n) { return Segment{"d a x c", repeated("a b c d ", n)}; });
  add("a reference of a tenth", [](size_t n) {
    return Segment{join(drawn_words(n, 100, 1), " "), join(drawn_words(n / 10, 100, 2), " ")};
  });
  add("a hypothesis of a tenth", [](size_t n) {
    return Segment{join(drawn_words(n / 10, 100, 1), " "), join(drawn_words(n, 100, 2), " ")};
  });
}

}  // namespace

std::vector<Case> metric_cases() {
  std::vector<Case> cases;
  std::vector<Scored> all = {{"chrf"}, {"chrf++"}, {"ter"}, {"multi-bleu"}, {"coco-bleu"}, {"cider"}};
  for (const char* const tokenize : {"13a", "none", "char", "zh", "intl"}) all.push_back({"bleu", tokenize});
  all.push_back({.name = "ter", .ter_normalized = true});
  for (const Scored& scored : all) {
    for (const char* const unit : {"the ", "x", " ", "&quot;", "<skipped>", "'s ", "3.", "3-", ",", "\u4e2d", "\u3002"})
      cases.push_back(on_segment(one_line(unit), scored, [=](size_t n) {
        const std::string text = repeated(unit, n);
        return Segment{text, cat("x ", text, "x")};
      }));
    cases.push_back(on_segment("words", scored, drawn(3000)));
  }
  add_ter_cases(cases);
  return cases;
}

}  // namespace fovea::growth
