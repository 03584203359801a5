#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/base/checksum_stream.h"
#include "fovea/data/corpus.h"
#include "fovea/data/pair_source.h"
#include "fovea/data/summary_file.h"

// Encoded text in one file, whose pairs are read when a batch needs them: a corpus that need not fit in memory.
//
// The file has pairs in segments of 2^20. A segment has the tokens of its pairs, the source's before the target's, and
// behind them the lengths, source and target, of all its pairs. A table of blocks of 64 pairs follows the last segment:
// where the tokens of each begin, and a checksum of its lengths and tokens. Then comes the end of summary_file.h.
// Numbers are little-endian.
namespace fovea::data {

inline constexpr int64_t kBlockPairs = 64, kSegmentPairs = int64_t{1} << 20;

// The limits that decide how wide the numbers in the file are.
struct EncodedShape {
  int64_t vocab = 0;    // all ids are smaller
  int64_t longest = 0;  // no side has more tokens
  int64_t id_bytes() const { return vocab <= int64_t{1} << 16 ? 2 : 4; }
  int64_t length_bytes() const { return longest < int64_t{1} << 16 ? 2 : 4; }
};

// Writes a file aside, and puts it in place when it is whole.
class EncodedFileWriter : public PairSink {
 public:
  EncodedFileWriter(const std::filesystem::path& path, const EncodedShape& shape);
  void add(std::span<const int32_t> source, std::span<const int32_t> target) override;
  // `origin` is what EncodedFile::origin() will be.
  void commit(const TextReport& report, const std::string& origin);

 private:
  void end_block();
  void end_segment();
  std::string fingerprint() const;

  // The parts of fingerprint() of one side.
  struct Side {
    ChecksumStream ids, offsets;
    int64_t tokens = 0;
    void add(std::span<const int32_t> added);
  };
  SummaryFileWriter file_;
  EncodedShape shape_;
  std::string block_tokens_, block_lengths_, segment_lengths_;
  std::vector<uint64_t> blocks_;  // place and checksum of each
  std::vector<uint64_t> segment_lengths_places_;
  ChecksumStream lengths_;
  Side source_, target_;
  int64_t pairs_ = 0, longest_ = 0;
};

// A file that EncodedFileWriter wrote.
class EncodedFile : public PairSource {
 public:
  // Throws an Error that says what is wrong if the file is not whole. The tokens are checked when they are read.
  EncodedFile(const std::filesystem::path& path, const EncodedShape& shape);

  LengthSource lengths() const override;
  PackedBatch pack(const Batch& batch, int64_t target_eos) const override;
  int64_t longest() const override { return longest_; }
  std::string fingerprint() const override { return fingerprint_; }
  int64_t size() const { return pairs_; }
  const std::string& origin() const { return origin_; }
  const TextReport& report() const { return report_; }

 private:
  struct Pair {
    std::vector<int64_t> source, target;
  };
  void read_summary();
  void read_table(uint64_t place, const std::string& sum);
  void read_lengths(int64_t first, int64_t stride, std::span<PairLength> out) const;
  // The lengths of pairs that stand one behind the other in a segment, as the file has them.
  std::string lengths_bytes(int64_t first, int64_t count) const;
  PairLength length_at(std::string_view bytes, int64_t index) const;
  Pair pair(int64_t index) const;
  void append_ids(std::string_view bytes, std::vector<int64_t>& ids) const;

  SummaryFile file_;
  EncodedShape shape_;
  int64_t pairs_ = 0, longest_ = 0;
  std::vector<uint64_t> blocks_, segment_lengths_places_;
  std::string lengths_checksum_, fingerprint_, origin_;
  TextReport report_;
};

}  // namespace fovea::data
