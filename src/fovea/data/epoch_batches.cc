#include "fovea/data/epoch_batches.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "fovea/base/rng.h"
#include "fovea/base/shuffle.h"
#include "fovea/base/signals.h"

namespace fovea::data {
namespace {

struct Entry {
  PairLength length;
  uint32_t pair = 0;
};

// A stable sort by one side's length, a digit of 8 bits at a time.
void sort_by(uint32_t PairLength::*side, std::vector<Entry>& entries, std::vector<Entry>& scratch) {
  constexpr uint32_t kBits = 8, kDigits = 1U << kBits;
  uint32_t longest = 0;
  for (const Entry& entry : entries) longest = std::max(longest, entry.length.*side);
  scratch.resize(entries.size());
  for (uint32_t shift = 0; shift < std::numeric_limits<uint32_t>::digits && longest >> shift > 0; shift += kBits) {
    std::vector<size_t> places(kDigits);
    const auto digit = [&](const Entry& entry) { return (entry.length.*side >> shift) % kDigits; };
    for (const Entry& entry : entries) ++places[digit(entry)];
    std::exclusive_scan(places.begin(), places.end(), places.begin(), size_t{0});
    for (const Entry& entry : entries) scratch[places[digit(entry)]++] = entry;
    entries.swap(scratch);
  }
}

// By target length, then by source length, then as before.
void sort_by_length(std::vector<Entry>& entries, std::vector<Entry>& scratch) {
  sort_by(&PairLength::source, entries, scratch);
  sort_by(&PairLength::target, entries, scratch);
}

struct Limits {
  int64_t tokens, sentences;  // of the target; sentences 0: no limit
};

// Shows `visit` the sizes of the batches that `entries` are cut in.
template <class Visit>
void cut(std::span<const Entry> entries, const Limits& limits, const Visit& visit) {
  int64_t sentences = 0, tokens = 0, source_tokens = 0;
  for (const Entry& entry : entries) {
    const bool full = tokens + entry.length.target > limits.tokens ||
                      source_tokens + entry.length.source > kSourceTokensPerTarget * limits.tokens ||
                      (limits.sentences > 0 && sentences == limits.sentences);
    if (full && sentences > 0) {
      visit(sentences);
      sentences = tokens = source_tokens = 0;
    }
    ++sentences;
    tokens += entry.length.target;
    source_tokens += entry.length.source;
  }
  if (sentences > 0) visit(sentences);
}

// Fills `window` with the pairs of `order` that make up `maxi_batch` batches.
void take_window(std::span<const uint32_t> order, const std::vector<PairLength>& lengths, const BatchOptions& options,
                 std::vector<Entry>& window) {
  constexpr size_t kAhead = 16;  // lengths that are asked for early, as shuffle() does
  const double most_tokens = static_cast<double>(options.max_target_tokens) * static_cast<double>(options.maxi_batch);
  const double most_sentences = static_cast<double>(options.max_sentences) * static_cast<double>(options.maxi_batch);
  double tokens = 0;
  window.clear();
  for (size_t i = 0; i < order.size(); ++i) {
    if (i + kAhead < order.size()) __builtin_prefetch(&lengths[order[i + kAhead]]);
    window.push_back({lengths[order[i]], order[i]});
    tokens += window.back().length.target;
    const bool enough_sentences = options.max_sentences > 0 && static_cast<double>(i + 1) >= most_sentences;
    if (tokens >= most_tokens || enough_sentences) return;
  }
}

}  // namespace

int64_t EpochBatches::sections() const {
  return std::max<int64_t>(1, (lengths_.size + options_.section_pairs - 1) / options_.section_pairs);
}

EpochBatches::EpochBatches(LengthSource lengths, const BatchOptions& options, int64_t epoch)
    : lengths_(std::move(lengths)), options_(options), epoch_(epoch) {
  section_order_.resize(static_cast<size_t>(sections()));
  std::iota(section_order_.begin(), section_order_.end(), 0);
  Rng rng(options_.seed, static_cast<uint64_t>(epoch));
  shuffle(section_order_, rng);
  // The first section last: it stays laid out.
  std::vector<std::vector<int64_t>> sentences(section_order_.size());
  for (size_t s = section_order_.size(); s-- > 0;) {
    lay_out(section_order_[s]);
    for (const Range& range : ranges_) sentences[s].push_back(range.size);
  }
  first_batch_ = {0};
  for (const std::vector<int64_t>& own : sentences) {
    sentences_.insert(sentences_.end(), own.begin(), own.end());
    first_batch_.push_back(size());
  }
}

void EpochBatches::lay_out(int64_t section) {
  throw_if_interrupted("laying out the epoch");
  section_ = section;
  const int64_t stride = sections();
  std::vector<PairLength> lengths(static_cast<size_t>((lengths_.size - section + stride - 1) / stride));
  lengths_.read(section, stride, lengths);
  // A corpus of one section has the order of its epoch alone.
  Rng rng(stride == 1 ? options_.seed : hash_combine(options_.seed, static_cast<uint64_t>(section + 1)),
          static_cast<uint64_t>(epoch_));
  order_.resize(lengths.size());
  std::iota(order_.begin(), order_.end(), 0);
  shuffle(order_, rng);
  ranges_.clear();
  std::vector<Entry> window, scratch;
  for (std::span<uint32_t> rest(order_); !rest.empty(); rest = rest.subspan(window.size())) {
    take_window(rest, lengths, options_, window);
    sort_by_length(window, scratch);
    for (size_t i = 0; i < window.size(); ++i) rest[i] = window[i].pair;
    auto begin = static_cast<uint32_t>(order_.size() - rest.size());
    cut(window, {options_.max_target_tokens, options_.max_sentences}, [&](int64_t size) {
      ranges_.push_back({begin, static_cast<uint32_t>(size)});
      begin += static_cast<uint32_t>(size);
    });
  }
  shuffle(ranges_, rng);
}

Batch EpochBatches::at(int64_t batch) {
  const auto place = static_cast<size_t>(std::ranges::upper_bound(first_batch_, batch) - first_batch_.begin()) - 1;
  if (section_ != section_order_.at(place)) lay_out(section_order_[place]);
  const Range& range = ranges_.at(static_cast<size_t>(batch - first_batch_[place]));
  Batch pairs;
  for (const uint32_t local : std::span(order_).subspan(range.begin, range.size))
    pairs.push_back(section_ + sections() * local);
  return pairs;
}

std::vector<Batch> batches_of_epoch(const LengthSource& lengths, const BatchOptions& options, int64_t epoch) {
  EpochBatches epoch_batches(lengths, options, epoch);
  std::vector<Batch> batches;
  for (int64_t i = 0; i < epoch_batches.size(); ++i) batches.push_back(epoch_batches.at(i));
  return batches;
}

std::vector<Batch> batches_by_length(const LengthSource& lengths, int64_t max_target_tokens) {
  std::vector<PairLength> all(static_cast<size_t>(lengths.size));
  lengths.read(0, 1, all);
  std::vector<Entry> entries, scratch;
  for (size_t i = 0; i < all.size(); ++i) entries.push_back({all[i], static_cast<uint32_t>(i)});
  sort_by_length(entries, scratch);
  std::vector<Batch> batches;
  auto next = entries.begin();
  cut(entries, {max_target_tokens, 0}, [&](int64_t size) {
    Batch& batch = batches.emplace_back();
    for (const auto end = next + size; next != end; ++next) batch.push_back(next->pair);
  });
  return batches;
}

}  // namespace fovea::data
