#include "fovea/data/unit_file.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/data/encoded_format.h"

namespace fovea::data {
namespace {

int64_t blocks_of(int64_t count, int64_t size) { return (count + size - 1) / size; }

template <class T>
std::string_view raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace

UnitFile::UnitFile(const std::filesystem::path& path, const UnitShape& shape)
    : file_(path, kUnitFormat), shape_(shape) {
  try {
    read_summary();
  } catch (const nlohmann::json::exception&) {
    file_.fail("its summary cannot be read");
  }
  file_.use();
}

void UnitFile::read_summary() {
  const nlohmann::json summary = nlohmann::json::parse(file_.summary());
  units_ = summary.at("units").get<int64_t>();
  documents_ = summary.at("documents").get<int64_t>();
  file_.require(
      units_ > 0 && std::cmp_less_equal(units_, file_.summary_place()) && documents_ > 0 && documents_ <= units_,
      kNumbersDiffer);
  file_.require(summary.at("id-bytes").get<int64_t>() == shape_.id_bytes(),
                "its numbers have another width than the vocabulary asks for");
  fingerprint_ = summary.at("fingerprint").get<std::string>();
  origin_ = summary.at("origin").get<std::string>();
  report_ = {summary.at("line").get<std::string>(), summary.at("warnings").get<std::vector<std::string>>()};
  read_tables(summary.at("tables").get<uint64_t>(), summary.at("tables-checksum").get<std::string>());
}

void UnitFile::read_tables(uint64_t place, const std::string& sum) {
  const auto unit_blocks = static_cast<size_t>(blocks_of(units_, kBlockUnits)),
             document_blocks = static_cast<size_t>(blocks_of(documents_, kBlockDocuments));
  const size_t units_size = unit_blocks * sizeof(UnitBlock), documents_size = document_blocks * sizeof(DocumentBlock);
  const uint64_t end = file_.summary_place();
  file_.require(place <= end && end - place == units_size + documents_size, kNumbersDiffer);
  unit_blocks_.resize(unit_blocks);
  document_blocks_.resize(document_blocks);
  file_.read(place, unit_blocks_.data(), units_size);
  file_.read(place + units_size, document_blocks_.data(), documents_size);
  ChecksumStream tables;
  tables.add({reinterpret_cast<const char*>(unit_blocks_.data()), units_size});
  tables.add({reinterpret_cast<const char*>(document_blocks_.data()), documents_size});
  file_.require(tables.result() == sum, "its tables have another checksum");
  file_.require(document_blocks_.front().first == 0, kNumbersDiffer);
}

std::string UnitFile::checked(uint64_t place, size_t size, uint64_t sum, std::string_view what) const {
  std::string bytes(size, '\0');
  file_.read(place, bytes.data(), size);
  if (XXH3_64bits(bytes.data(), size) != sum) file_.fail(cat(what, " have another checksum"));
  return bytes;
}

void UnitFile::read(int64_t begin, int64_t end, std::vector<int64_t>& ids) const {
  const auto width = static_cast<size_t>(shape_.id_bytes());
  for (int64_t at = begin; at < end;) {
    const int64_t block = at / kBlockUnits, first = block * kBlockUnits;
    const int64_t behind = std::min(first + kBlockUnits, units_);
    const UnitBlock& entry = unit_blocks_.at(static_cast<size_t>(block));
    const std::string bytes = checked(entry.place, static_cast<size_t>(behind - first) * width, entry.checksum,
                                      cat("the units from ", thousands(first + 1), " on"));
    for (; at < std::min(end, behind); ++at) {
      uint32_t id = 0;
      std::memcpy(&id, bytes.data() + static_cast<size_t>(at - first) * width, width);
      file_.require(id < shape_.vocab, "it has a unit that the vocabulary lacks");
      ids.push_back(id);
    }
  }
}

std::vector<int64_t> UnitFile::documents_in(int64_t begin, int64_t end) const {
  std::vector<int64_t> places;
  const auto behind = std::ranges::upper_bound(document_blocks_, begin, {}, &DocumentBlock::first);
  for (size_t block = behind == document_blocks_.begin() ? 0
                                                         : static_cast<size_t>(behind - document_blocks_.begin()) - 1;
       block < document_blocks_.size() && document_blocks_[block].first < end; ++block) {
    const int64_t first = static_cast<int64_t>(block) * kBlockDocuments;
    const auto count = static_cast<size_t>(std::min(kBlockDocuments, documents_ - first));
    const DocumentBlock& entry = document_blocks_[block];
    const std::string bytes = checked(entry.place, count * sizeof(int64_t), entry.checksum,
                                      cat("the documents from ", thousands(first + 1), " on"));
    std::vector<int64_t> all(count);
    std::memcpy(all.data(), bytes.data(), bytes.size());
    file_.require(all.front() == entry.first && all.back() < units_ && std::ranges::is_sorted(all, std::less_equal<>()),
                  kNumbersDiffer);
    std::ranges::copy_if(all, std::back_inserter(places), [&](int64_t at) { return at >= begin && at < end; });
  }
  return places;
}

UnitFileWriter::UnitFileWriter(const std::filesystem::path& path, const UnitShape& shape)
    : file_(path, kUnitFormat), shape_(shape) {}

void UnitFileWriter::begin_document() {
  documents_sum_.add({reinterpret_cast<const char*>(&units_), sizeof units_});
  places_.push_back(units_);
  ++documents_;
  if (std::ssize(places_) == kBlockDocuments) end_documents();
}

void UnitFileWriter::add(std::span<const int32_t> ids) {
  ids_sum_.add({reinterpret_cast<const char*>(ids.data()), ids.size_bytes()});
  const auto width = static_cast<size_t>(shape_.id_bytes());
  for (const int32_t id : ids) {
    block_.append(reinterpret_cast<const char*>(&id), width);
    if (++units_ % kBlockUnits == 0) end_units();
  }
}

void UnitFileWriter::end_units() {
  if (block_.empty()) return;
  unit_table_.push_back(file_.place());
  unit_table_.push_back(XXH3_64bits(block_.data(), block_.size()));
  file_.write(block_);
  block_.clear();
}

void UnitFileWriter::end_documents() {
  if (places_.empty()) return;
  const std::string_view bytes = raw(places_);
  document_table_.push_back(static_cast<uint64_t>(places_.front()));
  document_table_.push_back(file_.place());
  document_table_.push_back(XXH3_64bits(bytes.data(), bytes.size()));
  file_.write(bytes);
  places_.clear();
}

void UnitFileWriter::commit(const TextReport& report, const std::string& origin) {
  end_units();
  end_documents();
  ChecksumStream tables;
  const uint64_t tables_place = file_.place();
  for (const std::string_view table : {raw(unit_table_), raw(document_table_)}) {
    tables.add(table);
    file_.write(table);
  }
  const nlohmann::json summary = {{"units", units_},
                                  {"documents", documents_},
                                  {"id-bytes", shape_.id_bytes()},
                                  {"tables", tables_place},
                                  {"tables-checksum", tables.result()},
                                  {"fingerprint", checksum(ids_sum_.result() + documents_sum_.result())},
                                  {"origin", origin},
                                  {"line", report.line},
                                  {"warnings", report.warnings}};
  // A name that is not UTF-8 does not keep a text from being encoded.
  file_.commit(summary.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace fovea::data
