#include <xxhash.h>

#include <nlohmann/json.hpp>

#include "fovea/base/file.h"
#include "fovea/data/encoded_format.h"
#include "fovea/data/unit_file.h"

namespace fovea::data {
namespace {

template <class T>
std::string_view raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace

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
