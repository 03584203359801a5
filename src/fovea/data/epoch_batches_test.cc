#include "fovea/data/epoch_batches.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "fovea/base/rng.h"
#include "fovea/base/strings.h"

namespace fovea::data::epoch_batches_test {
namespace {

std::vector<PairLength> some_lengths(int64_t pairs, uint64_t longest, uint64_t seed) {
  Rng rng(seed);
  std::vector<PairLength> lengths;
  for (int64_t i = 0; i < pairs; ++i)
    lengths.push_back({static_cast<uint32_t>(1 + rng.below(longest)), static_cast<uint32_t>(1 + rng.below(longest))});
  return lengths;
}

LengthSource source_of(const std::vector<PairLength>& lengths) {
  return {std::ssize(lengths), [&lengths](int64_t first, int64_t stride, std::span<PairLength> out) {
            for (PairLength& length : out)
              length = lengths.at(static_cast<size_t>(std::exchange(first, first + stride)));
          }};
}

template <class T>
void plain_shuffle(std::vector<T>& items, Rng& rng) {
  for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[rng.below(i)]);
}

// The definition, with everything in memory and the standard library's sort.
std::vector<Batch> expected_batches(const std::vector<PairLength>& lengths, const BatchOptions& options,
                                    int64_t epoch) {
  Rng rng(options.seed, static_cast<uint64_t>(epoch));
  Batch order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  plain_shuffle(order, rng);
  const auto length_of = [&](int64_t pair) { return lengths[static_cast<size_t>(pair)]; };
  std::vector<Batch> batches;
  for (size_t begin = 0; begin < order.size();) {
    double tokens = 0;
    size_t end = begin;
    while (end < order.size() && tokens < double(options.max_target_tokens) * double(options.maxi_batch) &&
           (options.max_sentences == 0 || int64_t(end - begin) < options.max_sentences * options.maxi_batch))
      tokens += length_of(order[end++]).target;
    std::stable_sort(order.begin() + long(begin), order.begin() + long(end), [&](int64_t a, int64_t b) {
      return std::pair(length_of(a).target, length_of(a).source) < std::pair(length_of(b).target, length_of(b).source);
    });
    int64_t target = 0, source = 0;
    bool is_new = true;
    for (; begin < end; ++begin) {
      const PairLength length = length_of(order[begin]);
      target += length.target, source += length.source;
      is_new = is_new || target > options.max_target_tokens || source > 4 * options.max_target_tokens ||
               (options.max_sentences > 0 && std::ssize(batches.back()) == options.max_sentences);
      if (is_new) {
        batches.emplace_back();
        target = length.target, source = length.source;
      }
      is_new = false;
      batches.back().push_back(order[begin]);
    }
  }
  plain_shuffle(batches, rng);
  return batches;
}

TEST(EpochBatches, AreThoseOfTheDefinition) {
  for (const auto& [pairs, longest] : {std::pair<int64_t, uint64_t>{1, 5},
                                       {63, 9},
                                       {64, 9},
                                       {65, 9},
                                       {3000, 60},
                                       {2000, 300},
                                       {500, 70'000},
                                       {50, 20'000'000}}) {
    const std::vector<PairLength> lengths = some_lengths(pairs, longest, static_cast<uint64_t>(pairs));
    for (const int64_t sentences : {0, 7})
      for (const int64_t maxi_batch : {1, 10, 1000})
        for (const int64_t epoch : {1, 2}) {
          const BatchOptions options = {static_cast<int64_t>(longest) * 3, sentences, maxi_batch, 5};
          EXPECT_EQ(batches_of_epoch(source_of(lengths), options, epoch), expected_batches(lengths, options, epoch))
              << cat(pairs, " pairs, longest ", longest, ", ", sentences, ", ", maxi_batch);
        }
  }
}

TEST(EpochBatches, OfSectionsHaveEachPairOnce) {
  const std::vector<PairLength> lengths = some_lengths(1000, 30, 3);
  for (const int64_t section_pairs : {100, 333, 999, 1000}) {
    const BatchOptions options = {.max_target_tokens = 90, .maxi_batch = 4, .section_pairs = section_pairs};
    EpochBatches epoch(source_of(lengths), options, 1);
    std::set<int64_t> seen;
    for (int64_t i = 0; i < epoch.size(); ++i) {
      const Batch batch = epoch.at(i);
      EXPECT_EQ(std::ssize(batch), epoch.sentences()[static_cast<size_t>(i)]);
      seen.insert(batch.begin(), batch.end());
    }
    EXPECT_EQ(std::accumulate(epoch.sentences().begin(), epoch.sentences().end(), int64_t{0}), 1000);
    EXPECT_EQ(std::ssize(seen), 1000) << section_pairs;
    if (section_pairs == 1000) {
      EXPECT_EQ(batches_of_epoch(source_of(lengths), options, 1), expected_batches(lengths, options, 1));
    }
  }
}

// Resuming asks for a batch in the middle first.
TEST(EpochBatches, OfSectionsDoNotDependOnWhichWasAskedForBefore) {
  const std::vector<PairLength> lengths = some_lengths(500, 30, 4);
  const BatchOptions options = {.max_target_tokens = 90, .maxi_batch = 4, .section_pairs = 100};
  const std::vector<Batch> in_order = batches_of_epoch(source_of(lengths), options, 3);
  EpochBatches epoch(source_of(lengths), options, 3);
  Rng rng(9);
  for (int i = 0; i < 200; ++i) {
    const auto batch = static_cast<int64_t>(rng.below(in_order.size()));
    EXPECT_EQ(epoch.at(batch), in_order[static_cast<size_t>(batch)]);
  }
  EXPECT_NE(batches_of_epoch(source_of(lengths), options, 4), in_order);
}

// The halves of an epoch have text from all over a corpus, however it is sorted.
TEST(EpochBatches, OfSectionsMixTheCorpus) {
  const std::vector<PairLength> lengths(1000, PairLength{5, 5});
  const std::vector<Batch> batches =
      batches_of_epoch(source_of(lengths), {.max_target_tokens = 50, .section_pairs = 250}, 1);
  int64_t sum = 0, count = 0;
  for (size_t i = 0; i < batches.size() / 4; ++i)
    for (const int64_t pair : batches[i]) sum += pair, ++count;
  // The mean of 250 of the numbers 0 to 999 in equal steps is within a step of the mean of all.
  EXPECT_NEAR(static_cast<double>(sum) / static_cast<double>(count), 499.5, 4.0);
}

TEST(BatchesByLength, AreInOrder) {
  const std::vector<PairLength> lengths = some_lengths(300, 700, 6);
  std::vector<std::pair<uint32_t, uint32_t>> seen;
  for (const Batch& batch : batches_by_length(source_of(lengths), 2000))
    for (const int64_t pair : batch)
      seen.emplace_back(lengths[static_cast<size_t>(pair)].target, lengths[static_cast<size_t>(pair)].source);
  EXPECT_EQ(seen.size(), 300U);
  EXPECT_TRUE(std::ranges::is_sorted(seen));
}

}  // namespace
}  // namespace fovea::data::epoch_batches_test
