#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "fovea/base/aside.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
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
    : path_(path),
      temporary_(aside_of(path, kNewAside)),
      file_(create_aside(temporary_), "write", path),
      shape_(shape) {}

EncodedFileWriter::~EncodedFileWriter() {
  if (!is_in_place_) (void)unlink(temporary_.c_str());
}

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
  blocks_.push_back(written_);
  blocks_.push_back(block_checksum(block_lengths_, block_tokens_));
  write(block_tokens_);
  segment_lengths_ += block_lengths_;
  block_tokens_.clear(), block_lengths_.clear();
}

void EncodedFileWriter::end_segment() {
  end_block();
  if (segment_lengths_.empty()) return;
  segment_lengths_places_.push_back(written_);
  lengths_.add(segment_lengths_);
  write(segment_lengths_);
  segment_lengths_.clear();
}

void EncodedFileWriter::write(std::string_view bytes) {
  constexpr size_t kBuffer = 1 << 20;
  buffer_ += bytes;
  written_ += bytes.size();
  if (buffer_.size() >= kBuffer) flush();
}

void EncodedFileWriter::flush() {
  write_all(file_.get(), buffer_, path_);
  buffer_.clear();
}

std::string EncodedFileWriter::fingerprint() const {
  return checksum(source_.ids.result() + source_.offsets.result() + target_.ids.result() + target_.offsets.result());
}

void EncodedFileWriter::commit(const TextReport& report, const std::string& origin) {
  end_segment();
  const uint64_t table_place = written_;
  const std::string_view table = bytes_of<uint64_t>(blocks_);
  nlohmann::json summary = {{"pairs", pairs_},
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
  write(table);
  const uint64_t summary_place = written_;
  // A name that is not UTF-8 does not keep a text from being encoded.
  const std::string text = summary.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  write(text);
  std::string end;
  append(end, summary_place, sizeof summary_place);
  write(end + checksum(text));
  write(kEncodedFormat);
  flush();
  sync_file(file_, path_);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail_on_file("rename onto", path_, errno);
  is_in_place_ = true;
  sync_path(folder_of(path_));
  remove_leftovers(path_);
}

}  // namespace fovea::data
