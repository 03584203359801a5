#pragma once
#include <cstdint>
#include <iterator>
#include <string_view>
#include <vector>

#include "fovea/data/token_text.h"
#include "fovea/data/unit_source.h"

namespace fovea::data {

// The way in which training goes through a text: streams are read segment after segment, side by side; or the segments
// come in random order. The names are those of --order.
enum class SegmentOrder : uint8_t { kStream, kShuffled };
inline constexpr std::string_view kSegmentOrderNames = "stream|shuffled";

// The segments that are shuffled together. A text of more is cut in sections of equal size, each of segments from all
// over the text; an epoch takes the sections in a random order. A section keeps 8 bytes in memory for each segment.
inline constexpr int64_t kSectionSegments = int64_t{1} << 26;

struct SegmentOptions {
  SegmentOrder order = SegmentOrder::kStream;
  int64_t mini_batch = 16;       // segments of a batch
  int64_t segment_length = 512;  // units
  int64_t shards = 1;            // batches of one update, which read streams of their own
  uint64_t seed = 1;             // of the random order
  int64_t section_segments = kSectionSegments;
};

// A batch: sequences behind each other, without padding.
struct Segments {
  // Each output is a unit of the text. Its input is the unit before it, Units::begin() at the beginning of the text or
  // of a document.
  std::vector<int64_t> inputs, outputs;  // [units]
  std::vector<int64_t> offsets;          // [sequences + 1]
  std::vector<int64_t> streams;  // [sequences], ascending: the segment of the batch, which is the stream's number in it
  std::vector<uint8_t> fresh;    // [sequences]: begins a document or the epoch; no memory reaches into it
};

// The batches of one epoch, a function of the text, the options and the epoch alone.
//
// kStream: the text is cut in mini_batch x shards streams whose lengths differ by one unit at most (fewer streams if
// the text has fewer units). Batch s x shards + i holds the s-th segment of each of the i-th mini_batch streams, so
// that an update reads one segment of every stream and no batch of it continues another. The last segments hold the
// rest, and streams that have ended are not in them. kShuffled: each document is cut in segments, the last one shorter,
// and a batch takes the next `mini_batch` of them in an order drawn for the epoch. In both, a segment is cut where a
// document begins.
class SegmentBatches {
 public:
  // `text` must outlive this. `begin` is Units::begin().
  SegmentBatches(const UnitSource& text, int64_t begin, const SegmentOptions& options, int64_t epoch);
  int64_t size() const { return std::ssize(items_); }
  // The number of sequences of each batch.
  const std::vector<int64_t>& items() const { return items_; }
  Segments at(int64_t batch);
  // The number of this batch within its update, from 0: batches with the same number read the same streams.
  int64_t shard(int64_t batch) const;

 private:
  struct Range {
    int64_t begin, end;  // units
  };
  int64_t num_streams() const;
  int64_t num_shards() const;
  Range stream(int64_t index) const;
  void count_streams();
  void count_shuffled();
  void lay_out(int64_t section);
  // Segments of a batch by stream; empty for a stream that has ended.
  std::vector<Range> segments(int64_t batch);
  std::vector<Range> segments_of_streams(int64_t batch) const;
  std::vector<Range> shuffled_segments(int64_t batch);

  const UnitSource& text_;
  int64_t begin_;
  SegmentOptions options_;
  int64_t epoch_;
  std::vector<int64_t> items_;  // of each batch
  // The members below are for kShuffled alone.
  int64_t num_segments_ = 0;
  std::vector<int64_t> section_order_;
  std::vector<int64_t> first_batch_;  // of the sections in their order; [sections + 1]
  int64_t section_ = -1;              // the one that is laid out in the member below
  std::vector<int64_t> order_;        // the beginnings of its segments, in their order
};

struct WindowOptions {
  int64_t context = 512;  // units that a window holds
  int64_t stride = 256;   // units by which it moves, 1 to context
};

// A part of a text to score: the outputs from `first_scored` on.
struct Window {
  int64_t begin = 0;  // the place in the text of the first output
  int64_t first_scored = 0;
  std::vector<int64_t> inputs, outputs;  // as in Segments
};

// Windows that slide over each document, so that each unit of the text is scored exactly once. The first window scores
// all of its units; the others score the units that the window before did not reach, at most `stride`, with at least
// context - stride units before them in the window.
class ScoringWindows {
 public:
  // `text` must outlive this. Throws an Error for a context or a stride out of range.
  ScoringWindows(const TokenText& text, int64_t begin, const WindowOptions& options);
  int64_t size() const { return first_of_document_.back(); }
  Window at(int64_t index) const;
  int64_t num_documents() const { return std::ssize(first_of_document_) - 1; }
  // Document d has the windows first_of(d) ... first_of(d + 1) - 1.
  int64_t first_of(int64_t document) const { return first_of_document_[static_cast<size_t>(document)]; }

 private:
  const TokenText& text_;
  int64_t begin_;
  WindowOptions options_;
  std::vector<int64_t> first_of_document_;  // windows; [documents + 1]
};

}  // namespace fovea::data
