#include <xxhash.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fovea/base/file.h"
#include "fovea/data/encoded_file.h"
#include "fovea/data/encoded_format.h"

namespace fovea::data {
namespace {

template <class T>
std::string_view bytes_of(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

void append(std::string& bytes, uint64_t value, int64_t width) {
  bytes.append(reinterpret_cast<const char*>(&value), static_cast<size_t>(width));
}

}  // namespace

EncodedFileWriter::EncodedFileWriter(const std::filesystem::path& path, const EncodedShape& shape)
    : file_(path, kEncodedFormat), shape_(shape) {}

void EncodedFileWriter::Side::add(std::span<const int32_t> added) {
  if (tokens == 0) offsets.add(bytes_of<int64_t>({&tokens, 1}));
  tokens += std::ssize(added);
  ids.add(bytes_of(added));
  offsets.add(bytes_of<int64_t>({&tokens, 1}));
}

void EncodedFileWriter::add(std::span<const int32_t> source, std::span<const int32_t> target) {
  source_.add(source);
  target_.add(target);
  for (const std::span<const int32_t> side : {source, target}) {
    longest_ = std::max<int64_t>(longest_, std::ssize(side));
    append(block_lengths_, side.size(), shape_.length_bytes());
    for (const int32_t id : side) append(block_tokens_, static_cast<uint64_t>(id), shape_.id_bytes());
  }
  ++pairs_;
  if (pairs_ % kBlockPairs == 0) end_block();
  if (pairs_ % kSegmentPairs == 0) end_segment();
}

void EncodedFileWriter::end_block() {
  if (block_lengths_.empty()) return;
  blocks_.push_back(file_.place());
  blocks_.push_back(block_checksum(block_lengths_, block_tokens_));
  file_.write(block_tokens_);
  segment_lengths_ += block_lengths_;
  block_tokens_.clear(), block_lengths_.clear();
}

void EncodedFileWriter::end_segment() {
  end_block();
  if (segment_lengths_.empty()) return;
  segment_lengths_places_.push_back(file_.place());
  lengths_.add(segment_lengths_);
  file_.write(segment_lengths_);
  segment_lengths_.clear();
}

std::string EncodedFileWriter::fingerprint() const {
  return checksum(source_.ids.result() + source_.offsets.result() + target_.ids.result() + target_.offsets.result());
}

void EncodedFileWriter::commit(const TextReport& report, const std::string& origin) {
  end_segment();
  const uint64_t table_place = file_.place();
  const std::string_view table = bytes_of<uint64_t>(blocks_);
  const nlohmann::json summary = {{"pairs", pairs_},
                                  {"longest", longest_},
                                  {"id-bytes", shape_.id_bytes()},
                                  {"length-bytes", shape_.length_bytes()},
                                  {"table", table_place},
                                  {"table-checksum", checksum(table)},
                                  {"lengths", segment_lengths_places_},
                                  {"lengths-checksum", lengths_.result()},
                                  {"fingerprint", fingerprint()},
                                  {"origin", origin},
                                  {"line", report.line},
                                  {"warnings", report.warnings}};
  file_.write(table);
  // A name that is not UTF-8 does not keep a text from being encoded.
  file_.commit(summary.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace fovea::data
