#include "fovea/data/streams.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "fovea/base/error.h"
#include "fovea/base/rng.h"
#include "fovea/base/shuffle.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"

namespace fovea::data {
namespace {

enum class Before : uint8_t { kDocument, kUnit };

// Appends the units of [begin, end) of one document with the unit before each.
void append_units(const UnitSource& text, int64_t begin_unit, int64_t begin, int64_t end, Before before,
                  std::vector<int64_t>& inputs, std::vector<int64_t>& outputs) {
  std::vector<int64_t> units;
  if (before == Before::kDocument) units.push_back(begin_unit);
  text.read(begin - (before == Before::kUnit ? 1 : 0), end, units);
  inputs.insert(inputs.end(), units.begin(), units.end() - 1);
  outputs.insert(outputs.end(), units.begin() + 1, units.end());
}

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Shows `visit` the places in [begin, end) where documents begin, of which there may be too many for memory.
template <class Visit>
void each_document(const UnitSource& text, int64_t begin, int64_t end, const Visit& visit) {
  constexpr int64_t kUnits = 1 << 20;  // that are looked at together
  for (int64_t at = begin; at < end; at += kUnits) {
    throw_if_interrupted("laying out the epoch");
    for (const int64_t document : text.documents_in(at, std::min(at + kUnits, end))) visit(document);
  }
}

// Shows `visit` the beginnings of the segments that documents are cut in.
template <class Visit>
void each_segment(const UnitSource& text, int64_t length, const Visit& visit) {
  int64_t begin = 0;  // of the document
  const auto cut = [&](int64_t end) {
    for (int64_t at = begin; at < end; at += length) visit(at);
    begin = end;
  };
  each_document(text, 0, text.size(), cut);
  cut(text.size());
}

}  // namespace

SegmentBatches::SegmentBatches(const UnitSource& text, int64_t begin, const SegmentOptions& options, int64_t epoch)
    : text_(text), begin_(begin), options_(options), epoch_(epoch) {
  if (text_.size() == 0) return;
  options_.order == SegmentOrder::kShuffled ? count_shuffled() : count_streams();
}

int64_t SegmentBatches::num_streams() const { return std::min(options_.mini_batch * options_.shards, text_.size()); }

int64_t SegmentBatches::num_shards() const { return divide_up(num_streams(), options_.mini_batch); }

int64_t SegmentBatches::shard(int64_t batch) const { return batch % num_shards(); }

// The first streams have the units that are left over.
SegmentBatches::Range SegmentBatches::stream(int64_t index) const {
  const int64_t length = text_.size() / num_streams(), longer = text_.size() % num_streams();
  const int64_t begin = index * length + std::min(index, longer);
  return {begin, begin + length + (index < longer ? 1 : 0)};
}

void SegmentBatches::count_streams() {
  // The streams that still have units in the last segment come first, so only the last shards can be without any.
  const Range longest = stream(0);
  const int64_t last = (longest.end - longest.begin - 1) / options_.segment_length;
  int64_t left = 0;
  while (left < num_streams() && stream(left).end - stream(left).begin > last * options_.segment_length) ++left;
  items_.resize(static_cast<size_t>(last * num_shards() + divide_up(left, options_.mini_batch)));
  for (int64_t batch = 0; batch < size(); ++batch)
    for (const Range& segment : segments_of_streams(batch))
      items_[static_cast<size_t>(batch)] += segment.begin < segment.end ? 1 : 0;
  // A document that begins within a segment cuts it.
  for (int64_t s = 0; s < num_streams(); ++s) {
    const Range all = stream(s);
    each_document(text_, all.begin, all.end, [&](int64_t document) {
      const int64_t place = document - all.begin;
      if (place % options_.segment_length != 0)
        ++items_[static_cast<size_t>(place / options_.segment_length * num_shards() + s / options_.mini_batch)];
    });
  }
}

void SegmentBatches::count_shuffled() {
  each_segment(text_, options_.segment_length, [&](int64_t) { ++num_segments_; });
  section_order_.resize(static_cast<size_t>(divide_up(num_segments_, options_.section_segments)));
  std::iota(section_order_.begin(), section_order_.end(), 0);
  Rng rng(options_.seed, static_cast<uint64_t>(epoch_));
  shuffle(section_order_, rng);
  first_batch_ = {0};
  for (const int64_t section : section_order_) {
    int64_t left = divide_up(num_segments_ - section, std::ssize(section_order_));
    for (; left > 0; left -= options_.mini_batch) items_.push_back(std::min(left, options_.mini_batch));
    first_batch_.push_back(size());
  }
}

void SegmentBatches::lay_out(int64_t section) {
  section_ = section;
  const int64_t sections = std::ssize(section_order_);
  order_.clear();
  order_.reserve(static_cast<size_t>(divide_up(num_segments_ - section, sections)));
  int64_t index = 0;
  each_segment(text_, options_.segment_length, [&](int64_t begin) {
    if (index++ % sections == section) order_.push_back(begin);
  });
  // A text of one section has the order of its epoch alone.
  Rng rng(sections == 1 ? options_.seed : hash_combine(options_.seed, static_cast<uint64_t>(section + 1)),
          static_cast<uint64_t>(epoch_));
  shuffle(order_, rng);
}

std::vector<SegmentBatches::Range> SegmentBatches::segments(int64_t batch) {
  return options_.order == SegmentOrder::kShuffled ? shuffled_segments(batch) : segments_of_streams(batch);
}

std::vector<SegmentBatches::Range> SegmentBatches::shuffled_segments(int64_t batch) {
  const auto place = static_cast<size_t>(std::ranges::upper_bound(first_batch_, batch) - first_batch_.begin()) - 1;
  if (section_ != section_order_.at(place)) lay_out(section_order_[place]);
  const auto first = static_cast<size_t>((batch - first_batch_[place]) * options_.mini_batch);
  std::vector<Range> segments;
  for (const int64_t begin :
       std::span(order_).subspan(first, static_cast<size_t>(items_[static_cast<size_t>(batch)]))) {
    const int64_t end = std::min(begin + options_.segment_length, text_.size());
    const std::vector<int64_t> documents = text_.documents_in(begin + 1, end);
    segments.push_back({begin, documents.empty() ? end : documents.front()});
  }
  return segments;
}

std::vector<SegmentBatches::Range> SegmentBatches::segments_of_streams(int64_t batch) const {
  std::vector<Range> segments;
  const int64_t first = shard(batch) * options_.mini_batch, place = batch / num_shards();
  for (int64_t s = first; s < std::min(first + options_.mini_batch, num_streams()); ++s) {
    const Range all = stream(s);
    const int64_t begin = all.begin + place * options_.segment_length;
    segments.push_back({std::min(begin, all.end), std::min(begin + options_.segment_length, all.end)});
  }
  return segments;
}

Segments SegmentBatches::at(int64_t batch) {
  Segments result;
  result.offsets.push_back(0);
  const bool begins_epoch = options_.order == SegmentOrder::kShuffled || batch < options_.shards;
  const std::vector<Range> ranges = segments(batch);
  for (int64_t s = 0; s < std::ssize(ranges); ++s) {
    const auto [begin, end] = ranges[static_cast<size_t>(s)];
    if (begin == end) continue;
    std::vector<int64_t> documents = text_.documents_in(begin, end);
    const bool begins_document = !documents.empty() && documents.front() == begin;
    if (!begins_document) documents.insert(documents.begin(), begin);
    documents.push_back(end);
    for (size_t part = 0; part + 1 < documents.size(); ++part) {
      const bool is_new = part > 0 || begins_document;
      append_units(text_, begin_, documents[part], documents[part + 1], is_new ? Before::kDocument : Before::kUnit,
                   result.inputs, result.outputs);
      result.offsets.push_back(std::ssize(result.outputs));
      result.streams.push_back(s);
      result.fresh.push_back(begins_epoch || is_new ? 1 : 0);
    }
  }
  return result;
}

ScoringWindows::ScoringWindows(const TokenText& text, int64_t begin, const WindowOptions& options)
    : text_(text), begin_(begin), options_(options), first_of_document_{0} {
  const auto [context, stride] = options;
  if (context < 1) throw Error(cat("--context: got ", context, "; expected at least 1 unit"));
  if (stride < 1 || stride > context)
    throw Error(cat("--stride: got ", stride, "; expected 1 to ", context, ", the units of --context"));
  for (size_t d = 0; d < text.documents.size(); ++d) {
    const int64_t behind_first = text.document_end(d) - text.documents[d] - context;
    first_of_document_.push_back(first_of_document_.back() + 1 + std::max<int64_t>(divide_up(behind_first, stride), 0));
  }
}

Window ScoringWindows::at(int64_t index) const {
  const auto document =
      static_cast<size_t>(std::ranges::upper_bound(first_of_document_, index) - first_of_document_.begin()) - 1;
  const int64_t place = index - first_of_document_[document];  // among the windows of the document
  Window window;
  window.begin = text_.documents[document] + place * options_.stride;
  window.first_scored = place == 0 ? 0 : options_.context - options_.stride;
  const int64_t end = std::min(window.begin + options_.context, text_.document_end(document));
  append_units(text_, begin_, window.begin, end, place == 0 ? Before::kDocument : Before::kUnit, window.inputs,
               window.outputs);
  return window;
}

}  // namespace fovea::data
