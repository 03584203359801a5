#include "fovea/data/encoded_file.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/data/encoded_format.h"

namespace fovea::data {
namespace {

uint64_t number_at(std::string_view bytes, size_t place, int64_t width) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + place, static_cast<size_t>(width));
  return value;
}

template <class T>
std::string_view bytes_of(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

void append(std::string& bytes, uint64_t value, int64_t width) {
  bytes.append(reinterpret_cast<const char*>(&value), static_cast<size_t>(width));
}

}  // namespace

EncodedFile::EncodedFile(const std::filesystem::path& path, const EncodedShape& shape)
    : file_(path, kEncodedFormat), shape_(shape) {
  try {
    read_summary();
  } catch (const nlohmann::json::exception&) {
    file_.fail("its summary cannot be read");
  }
  read_lengths(0, 1, {});
  file_.use();
}

void EncodedFile::read_summary() {
  const nlohmann::json summary = nlohmann::json::parse(file_.summary());
  pairs_ = summary.at("pairs").get<int64_t>();
  longest_ = summary.at("longest").get<int64_t>();
  file_.require(
      pairs_ > 0 && std::cmp_less(pairs_, file_.summary_place()) && longest_ > 0 && longest_ <= shape_.longest,
      kNumbersDiffer);
  file_.require(summary.at("id-bytes").get<int64_t>() == shape_.id_bytes() &&
                    summary.at("length-bytes").get<int64_t>() == shape_.length_bytes(),
                "its numbers have another width than the vocabularies ask for");
  segment_lengths_places_ = summary.at("lengths").get<std::vector<uint64_t>>();
  file_.require(std::ssize(segment_lengths_places_) == (pairs_ + kSegmentPairs - 1) / kSegmentPairs, kNumbersDiffer);
  lengths_checksum_ = summary.at("lengths-checksum").get<std::string>();
  fingerprint_ = summary.at("fingerprint").get<std::string>();
  origin_ = summary.at("origin").get<std::string>();
  report_ = {summary.at("line").get<std::string>(), summary.at("warnings").get<std::vector<std::string>>()};
  const uint64_t place = file_.summary_place();
  const auto table = summary.at("table").get<uint64_t>();
  file_.require(table <= place && place - table == static_cast<uint64_t>((pairs_ + kBlockPairs - 1) / kBlockPairs) * 16,
                kNumbersDiffer);
  blocks_.resize((place - table) / sizeof(uint64_t));
  read_table(table, summary.at("table-checksum").get<std::string>());
}

void EncodedFile::read_table(uint64_t place, const std::string& sum) {
  const size_t bytes = blocks_.size() * sizeof blocks_[0];
  file_.read(place, blocks_.data(), bytes);
  file_.require(checksum({reinterpret_cast<const char*>(blocks_.data()), bytes}) == sum,
                "its table has another checksum");
}

std::string EncodedFile::lengths_bytes(int64_t first, int64_t count) const {
  const int64_t width = 2 * shape_.length_bytes();
  std::string bytes(static_cast<size_t>(count * width), '\0');
  const uint64_t place = segment_lengths_places_[static_cast<size_t>(first / kSegmentPairs)] +
                         static_cast<uint64_t>(first % kSegmentPairs * width);
  file_.read(place, bytes.data(), bytes.size());
  return bytes;
}

PairLength EncodedFile::length_at(std::string_view bytes, int64_t index) const {
  const int64_t width = shape_.length_bytes();
  const auto place = static_cast<size_t>(2 * index * width);
  return {static_cast<uint32_t>(number_at(bytes, place, width)),
          static_cast<uint32_t>(number_at(bytes, place + static_cast<size_t>(width), width))};
}

// Reads all lengths, to check them, and gives the lengths of the pairs first, first + stride ...
void EncodedFile::read_lengths(int64_t first, int64_t stride, std::span<PairLength> out) const {
  ChecksumStream sum;
  auto next = out.begin();
  for (int64_t begin = 0; begin < pairs_; begin += kSegmentPairs) {
    const int64_t count = std::min(kSegmentPairs, pairs_ - begin);
    const std::string bytes = lengths_bytes(begin, count);
    sum.add(bytes);
    for (; next != out.end() && first < begin + count; first += stride) *next++ = length_at(bytes, first - begin);
  }
  file_.require(sum.result() == lengths_checksum_, "the lengths of its sentences have another checksum");
}

LengthSource EncodedFile::lengths() const {
  return {pairs_,
          [this](int64_t first, int64_t stride, std::span<PairLength> out) { read_lengths(first, stride, out); }};
}

void EncodedFile::append_ids(std::string_view bytes, std::vector<int64_t>& ids) const {
  const auto width = static_cast<size_t>(shape_.id_bytes());
  for (size_t place = 0; place < bytes.size(); place += width) {
    const auto id = static_cast<int64_t>(number_at(bytes, place, shape_.id_bytes()));
    file_.require(id < shape_.vocab, "it has a token that the vocabularies lack");
    ids.push_back(id);
  }
}

EncodedFile::Pair EncodedFile::pair(int64_t index) const {
  const int64_t block = index / kBlockPairs, first = block * kBlockPairs;
  const std::string lengths = lengths_bytes(first, std::min(kBlockPairs, pairs_ - first));
  const auto id_bytes = static_cast<uint64_t>(shape_.id_bytes());
  uint64_t before = 0, all = 0;  // bytes of the block's tokens: before this pair's, and all
  PairLength own;
  for (int64_t i = 0; i < std::min(kBlockPairs, pairs_ - first); ++i) {
    const PairLength length = length_at(lengths, i);
    if (first + i == index) before = all, own = length;
    all += (uint64_t{length.source} + length.target) * id_bytes;
  }
  const uint64_t place = blocks_[static_cast<size_t>(2 * block)];
  file_.require(place <= file_.summary_place() && all <= file_.summary_place() - place && own.target > 0,
                kNumbersDiffer);
  std::string tokens(all, '\0');
  file_.read(place, tokens.data(), tokens.size());
  file_.require(block_checksum(lengths, tokens) == blocks_[static_cast<size_t>(2 * block + 1)],
                cat("the sentences from ", thousands(first + 1), " on have another checksum"));
  const std::string_view bytes = std::string_view(tokens).substr(before);
  Pair pair;
  append_ids(bytes.substr(0, own.source * id_bytes), pair.source);
  append_ids(bytes.substr(own.source * id_bytes, own.target * id_bytes), pair.target);
  return pair;
}

PackedBatch EncodedFile::pack(const Batch& batch, int64_t target_eos) const {
  PackedBatch packed;
  packed.source_offsets = packed.target_offsets = {0};
  for (const int64_t index : batch) {
    const auto [source, target] = pair(index);
    packed.source.insert(packed.source.end(), source.begin(), source.end());
    packed.target_inputs.push_back(target_eos);
    packed.target_inputs.insert(packed.target_inputs.end(), target.begin(), target.end() - 1);
    packed.target_outputs.insert(packed.target_outputs.end(), target.begin(), target.end());
    packed.source_offsets.push_back(std::ssize(packed.source));
    packed.target_offsets.push_back(std::ssize(packed.target_outputs));
  }
  return packed;
}

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
