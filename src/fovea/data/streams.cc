#include "fovea/data/streams.h"

#include <algorithm>

#include "fovea/base/error.h"
#include "fovea/base/shuffle.h"
#include "fovea/base/strings.h"

namespace fovea::data {
namespace {

// Appends the units of [begin, end) of one document with the unit before each.
void append_units(const TokenText& text, int64_t begin_unit, int64_t begin, int64_t end, std::vector<int64_t>& inputs,
                  std::vector<int64_t>& outputs) {
  const auto first = text.ids.begin() + begin, last = text.ids.begin() + end;
  const bool begins_document = std::ranges::binary_search(text.documents, begin);
  inputs.push_back(begins_document ? begin_unit : *(first - 1));
  inputs.insert(inputs.end(), first, last - 1);
  outputs.insert(outputs.end(), first, last);
}

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

SegmentBatches::SegmentBatches(const TokenText& text, int64_t begin, const SegmentOptions& options, int64_t epoch)
    : text_(text), begin_(begin), options_(options) {
  if (options_.order == SegmentOrder::kStream) return;
  for (size_t d = 0; d < text_.documents.size(); ++d) {
    const int64_t end = text_.document_end(d);
    for (int64_t at = text_.documents[d]; at < end; at += options_.segment_length)
      shuffled_.push_back({at, std::min(end, at + options_.segment_length)});
  }
  Rng rng(options_.seed, static_cast<uint64_t>(epoch));
  shuffle(shuffled_, rng);
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

int64_t SegmentBatches::size() const {
  if (options_.order == SegmentOrder::kShuffled) return divide_up(std::ssize(shuffled_), options_.mini_batch);
  if (text_.size() == 0) return 0;
  // The streams that still have units in the last segment come first, so only the last shards can be without any.
  const Range longest = stream(0);
  const int64_t last = (longest.end - longest.begin - 1) / options_.segment_length;
  int64_t left = 0;
  while (left < num_streams() && stream(left).end - stream(left).begin > last * options_.segment_length) ++left;
  return last * num_shards() + divide_up(left, options_.mini_batch);
}

std::vector<SegmentBatches::Range> SegmentBatches::segments(int64_t batch) const {
  if (options_.order == SegmentOrder::kShuffled) {
    const auto first = shuffled_.begin() + batch * options_.mini_batch;
    return {first, first + std::min(options_.mini_batch, shuffled_.end() - first)};
  }
  std::vector<Range> segments;
  const int64_t first = shard(batch) * options_.mini_batch, place = batch / num_shards();
  for (int64_t s = first; s < std::min(first + options_.mini_batch, num_streams()); ++s) {
    const Range all = stream(s);
    const int64_t begin = all.begin + place * options_.segment_length;
    segments.push_back({std::min(begin, all.end), std::min(begin + options_.segment_length, all.end)});
  }
  return segments;
}

template <class Visit>
void SegmentBatches::each_sequence(Range segment, const Visit& visit) const {
  auto next = std::ranges::upper_bound(text_.documents, segment.begin);
  for (int64_t begin = segment.begin; begin < segment.end;) {
    const bool is_cut = next != text_.documents.end() && *next < segment.end;
    const int64_t end = is_cut ? *next++ : segment.end;
    visit(Range{begin, end});
    begin = end;
  }
}

int64_t SegmentBatches::items(int64_t batch) const {
  int64_t sequences = 0;
  for (const Range& segment : segments(batch)) each_sequence(segment, [&](Range) { ++sequences; });
  return sequences;
}

Segments SegmentBatches::at(int64_t batch) const {
  Segments result;
  result.offsets.push_back(0);
  const std::vector<Range> ranges = segments(batch);
  for (int64_t s = 0; s < std::ssize(ranges); ++s) {
    each_sequence(ranges[static_cast<size_t>(s)], [&](Range part) {
      append_units(text_, begin_, part.begin, part.end, result.inputs, result.outputs);
      result.offsets.push_back(std::ssize(result.outputs));
      result.streams.push_back(s);
      const bool begins_epoch = options_.order == SegmentOrder::kShuffled || batch < options_.shards;
      const bool begins_document = std::ranges::binary_search(text_.documents, part.begin);
      result.fresh.push_back(begins_epoch || begins_document ? 1 : 0);
    });
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
  append_units(text_, begin_, window.begin, end, window.inputs, window.outputs);
  return window;
}

}  // namespace fovea::data
