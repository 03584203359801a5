#include "fovea/data/streams.h"

#include <gmock/gmock.h>

#include <map>
#include <numeric>

#include "fovea/base/rng.h"
#include "fovea/base/test_message.h"

namespace fovea::data::streams_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kEos = 1000;

// Units 0, 1, 2 ..., so that a unit says its place.
TokenText counting(int64_t size, std::vector<int64_t> documents = {0}) {
  TokenText text;
  text.ids.resize(static_cast<size_t>(size));
  std::iota(text.ids.begin(), text.ids.end(), 0);
  text.documents = std::move(documents);
  return text;
}

bool begins_document(const TokenText& text, int64_t place) { return std::ranges::count(text.documents, place) > 0; }

// The unit before each output is its input, and no sequence reaches over a document's beginning.
void expect_inputs(const TokenText& text, const std::vector<int64_t>& inputs, const std::vector<int64_t>& outputs) {
  ASSERT_EQ(inputs.size(), outputs.size());
  for (size_t t = 0; t < outputs.size(); ++t)
    EXPECT_EQ(inputs[t], begins_document(text, outputs[t]) ? kEos : outputs[t] - 1);
}

// Streams from their definition: the units dealt out to streams one by one, then read on segment after segment.
std::vector<std::vector<int64_t>> naive_streams(const TokenText& text, int64_t wanted) {
  const int64_t count = std::min(wanted, text.size());
  std::vector<int64_t> sizes(static_cast<size_t>(count), 0);
  for (int64_t i = 0; i < text.size(); ++i) ++sizes[static_cast<size_t>(i % count)];
  std::vector<std::vector<int64_t>> streams;
  int64_t at = 0;
  for (const int64_t size : sizes) {
    streams.emplace_back();
    for (int64_t i = 0; i < size; ++i) streams.back().push_back(at++);
  }
  return streams;
}

struct Case {
  int64_t size, mini_batch, segment_length;
  std::vector<int64_t> documents;
};
const std::vector<Case> kCases = {{100, 4, 7, {0}},       {103, 4, 7, {0, 1, 26, 27, 50, 102}},
                                  {28, 4, 7, {0}},        {29, 4, 7, {0, 9}},
                                  {3, 16, 512, {0}},      {1, 1, 1, {0}},
                                  {50, 1, 50, {0, 49}},   {1000, 7, 13, {0, 500}},
                                  {64, 64, 3, {0, 2, 3}}, {90, 5, 100, {0, 45}}};

TEST(SegmentBatches, StreamsReadOnSegmentAfterSegment) {
  for (const Case& c : kCases) {
    const TokenText text = counting(c.size, c.documents);
    SegmentBatches batches(text, kEos, {.mini_batch = c.mini_batch, .segment_length = c.segment_length}, 1);
    std::map<int64_t, std::vector<int64_t>> read;
    for (int64_t i = 0; i < batches.size(); ++i) {
      const Segments batch = batches.at(i);
      expect_inputs(text, batch.inputs, batch.outputs);
      ASSERT_EQ(std::ssize(batch.streams), batches.items()[i]);
      ASSERT_EQ(batch.offsets.size(), batch.streams.size() + 1);
      ASSERT_EQ(batch.fresh.size(), batch.streams.size());
      EXPECT_EQ(batch.offsets.front(), 0);
      EXPECT_EQ(batch.offsets.back(), std::ssize(batch.outputs));
      EXPECT_TRUE(std::ranges::is_sorted(batch.streams));
      std::map<int64_t, int64_t> lengths;
      for (size_t b = 0; b < batch.streams.size(); ++b) {
        ASSERT_LT(batch.offsets[b], batch.offsets[b + 1]);
        const int64_t stream = batch.streams[b], first = batch.outputs[batch.offsets[b]];
        EXPECT_EQ(batch.fresh[b] != 0, read[stream].empty() || begins_document(text, first));
        for (int64_t t = batch.offsets[b]; t < batch.offsets[b + 1]; ++t) {
          EXPECT_TRUE(t == batch.offsets[b] || !begins_document(text, batch.outputs[t]));
          read[stream].push_back(batch.outputs[t]);
        }
        lengths[stream] += batch.offsets[b + 1] - batch.offsets[b];
      }
      for (const auto& [stream, length] : lengths)
        EXPECT_TRUE(length == c.segment_length || (i + 1 == batches.size() && length < c.segment_length) ||
                    (i + 2 == batches.size() && length + 1 == c.segment_length))
            << "stream " << stream << " of batch " << i;
    }
    const auto expected = naive_streams(text, c.mini_batch);
    ASSERT_EQ(read.size(), expected.size());
    for (size_t s = 0; s < expected.size(); ++s) EXPECT_EQ(read[static_cast<int64_t>(s)], expected[s]);
  }
}

TEST(SegmentBatches, LooksAsItIsDrawnHere) {
  const TokenText text = counting(9, {0, 3});
  SegmentBatches batches(text, kEos, {.mini_batch = 2, .segment_length = 4}, 1);
  ASSERT_EQ(batches.size(), 2);
  const Segments first = batches.at(0), second = batches.at(1);
  EXPECT_THAT(first.outputs, ElementsAre(0, 1, 2, 3, 5, 6, 7, 8));
  EXPECT_THAT(first.inputs, ElementsAre(kEos, 0, 1, kEos, 4, 5, 6, 7));
  EXPECT_THAT(first.offsets, ElementsAre(0, 3, 4, 8));
  EXPECT_THAT(first.streams, ElementsAre(0, 0, 1));
  EXPECT_THAT(first.fresh, ElementsAre(1, 1, 1));
  EXPECT_THAT(second.outputs, ElementsAre(4));
  EXPECT_THAT(second.inputs, ElementsAre(3));
  EXPECT_THAT(second.streams, ElementsAre(0));
  EXPECT_THAT(second.fresh, ElementsAre(0));
}

TEST(SegmentBatches, ShuffledSegmentsAreTheTextInAnotherOrder) {
  for (const Case& c : kCases) {
    const TokenText text = counting(c.size, c.documents);
    const SegmentOptions options = {
        .order = SegmentOrder::kShuffled, .mini_batch = c.mini_batch, .segment_length = c.segment_length};
    SegmentBatches batches(text, kEos, options, 1);
    std::vector<int64_t> units;
    for (int64_t i = 0; i < batches.size(); ++i) {
      const Segments batch = batches.at(i);
      expect_inputs(text, batch.inputs, batch.outputs);
      EXPECT_EQ(std::ssize(batch.streams), i + 1 < batches.size() ? c.mini_batch : batches.items()[i]);
      EXPECT_GE(batches.items()[i], 1);
      for (size_t b = 0; b < batch.streams.size(); ++b) {
        EXPECT_EQ(batch.streams[b], static_cast<int64_t>(b));
        EXPECT_EQ(batch.fresh[b], 1);
        const int64_t begin = batch.offsets[b], end = batch.offsets[b + 1], behind = batch.outputs[end - 1] + 1;
        // Whole, unless its document ends.
        EXPECT_TRUE(end - begin == c.segment_length || begins_document(text, behind) || behind == text.size());
        EXPECT_LE(end - begin, c.segment_length);
        for (int64_t t = begin + 1; t < end; ++t) EXPECT_FALSE(begins_document(text, batch.outputs[t]));
      }
      units.insert(units.end(), batch.outputs.begin(), batch.outputs.end());
    }
    std::ranges::sort(units);
    EXPECT_EQ(units, std::vector<int64_t>(text.ids.begin(), text.ids.end()));
  }
}

// Each segment once, in whatever order the batches are asked for.
TEST(SegmentBatches, OfSectionsHaveEachUnitOnce) {
  const TokenText text = counting(1000, {0, 3, 333, 341, 700});
  for (const int64_t section_segments : {1, 7, 30, 50, 1000}) {
    const SegmentOptions options = {
        .order = SegmentOrder::kShuffled, .mini_batch = 4, .segment_length = 20, .section_segments = section_segments};
    SegmentBatches in_order(text, kEos, options, 1), jumping(text, kEos, options, 1);
    std::vector<std::vector<int64_t>> outputs;
    std::vector<int64_t> units;
    for (int64_t i = 0; i < in_order.size(); ++i) {
      outputs.push_back(in_order.at(i).outputs);
      units.insert(units.end(), outputs.back().begin(), outputs.back().end());
    }
    std::ranges::sort(units);
    EXPECT_EQ(units, std::vector<int64_t>(text.ids.begin(), text.ids.end()));
    Rng rng(4);
    for (int i = 0; i < 50; ++i) {
      const uint64_t batch = rng.below(outputs.size());
      EXPECT_EQ(jumping.at(static_cast<int64_t>(batch)).outputs, outputs[batch]);
    }
  }
}

TEST(SegmentBatches, TheOrderIsThatOfTheSeedAndTheEpoch) {
  const TokenText text = counting(1000);
  const auto order = [&](uint64_t seed, int64_t epoch) {
    const SegmentOptions options = {
        .order = SegmentOrder::kShuffled, .mini_batch = 100, .segment_length = 10, .seed = seed};
    return SegmentBatches(text, kEos, options, epoch).at(0).outputs;
  };
  EXPECT_EQ(order(1, 1), order(1, 1));
  EXPECT_NE(order(1, 1), order(1, 2));
  EXPECT_NE(order(1, 1), order(2, 1));
  EXPECT_FALSE(std::ranges::is_sorted(order(1, 1)));
}

// Each unit is scored once, with as many units before it in its window as there may be.
TEST(ScoringWindows, ScoreEachUnitOnceWithItsContext) {
  for (const Case& c : kCases) {
    const TokenText text = counting(c.size, c.documents);
    for (const auto& [context, stride] : {std::pair<int64_t, int64_t>{8, 3}, {8, 8}, {8, 1}, {1, 1}, {200, 50}}) {
      const ScoringWindows windows(text, kEos, {.context = context, .stride = stride});
      std::vector<int64_t> scored;
      for (int64_t i = 0; i < windows.size(); ++i) {
        const Window window = windows.at(i);
        expect_inputs(text, window.inputs, window.outputs);
        EXPECT_EQ(window.outputs.front(), window.begin);
        EXPECT_LE(std::ssize(window.outputs), context);
        ASSERT_LT(window.first_scored, std::ssize(window.outputs));
        int64_t document = window.begin;
        while (!begins_document(text, document)) --document;
        EXPECT_EQ(window.first_scored == 0, window.begin == document || context == stride);
        for (int64_t t = window.first_scored; t < std::ssize(window.outputs); ++t) {
          const int64_t place = window.outputs[t];
          scored.push_back(place);
          EXPECT_GE(t, std::min(place - document, context - stride));
        }
        for (int64_t t = 1; t < std::ssize(window.outputs); ++t) EXPECT_FALSE(begins_document(text, window.outputs[t]));
      }
      EXPECT_EQ(scored, std::vector<int64_t>(text.ids.begin(), text.ids.end()));
    }
  }
}

TEST(ScoringWindows, RefuseAStrideThatLeavesUnitsOut) {
  const TokenText text = counting(10);
  EXPECT_THAT(message_of([&] { ScoringWindows(text, kEos, {.context = 4, .stride = 5}); }),
              HasSubstr("--stride: got 5; expected 1 to 4"));
  EXPECT_THAT(message_of([&] { ScoringWindows(text, kEos, {.context = 0, .stride = 1}); }),
              HasSubstr("--context: got 0; expected at least 1 unit"));
}

}  // namespace
}  // namespace fovea::data::streams_test
