#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/base/checksum_stream.h"
#include "fovea/data/corpus.h"
#include "fovea/data/summary_file.h"
#include "fovea/data/unit_source.h"

// The units of a text in one file, which are read when a batch needs them: a text that need not fit in memory.
//
// The file has blocks of units and, between them, blocks of the places where documents begin (8 bytes each). Two tables
// follow, the first of the blocks of units: where each begins, and its XXH3; the second of the blocks of documents: the
// first of its places, where it begins, and its XXH3. Then comes the end of summary_file.h. Numbers are little-endian.
namespace fovea::data {

inline constexpr int64_t kBlockUnits = 1 << 14, kBlockDocuments = 512;

// The limit that decides how wide the numbers in the file are.
struct UnitShape {
  int64_t vocab = 0;  // all units are smaller
  int64_t id_bytes() const { return vocab <= 1 << 8 ? 1 : vocab <= 1 << 16 ? 2 : 4; }
};

// Writes a file aside, and puts it in place when it is whole.
class UnitFileWriter : public UnitSink {
 public:
  UnitFileWriter(const std::filesystem::path& path, const UnitShape& shape);
  void begin_document() override;
  void add(std::span<const int32_t> ids) override;
  // `origin` is what UnitFile::origin() will be.
  void commit(const TextReport& report, const std::string& origin);

 private:
  void end_units();
  void end_documents();

  SummaryFileWriter file_;
  UnitShape shape_;
  int64_t units_ = 0, documents_ = 0;
  std::string block_;                 // of units
  std::vector<int64_t> places_;       // of a block of documents
  std::vector<uint64_t> unit_table_;  // place and checksum of each block
  std::vector<uint64_t> document_table_;
  ChecksumStream ids_sum_, documents_sum_;
};

// A file that UnitFileWriter wrote.
class UnitFile : public UnitSource {
 public:
  // Throws an Error that says what is wrong if the file is not whole. The blocks are checked when they are read.
  UnitFile(const std::filesystem::path& path, const UnitShape& shape);

  int64_t size() const override { return units_; }
  void read(int64_t begin, int64_t end, std::vector<int64_t>& ids) const override;
  std::vector<int64_t> documents_in(int64_t begin, int64_t end) const override;
  std::string fingerprint() const override { return fingerprint_; }
  const std::string& origin() const { return origin_; }
  const TextReport& report() const { return report_; }

 private:
  struct UnitBlock {
    uint64_t place, checksum;
  };
  struct DocumentBlock {
    int64_t first;  // place of a document
    uint64_t place, checksum;
  };
  void read_summary();
  void read_tables(uint64_t place, const std::string& sum);
  std::string checked(uint64_t place, size_t size, uint64_t sum, std::string_view what) const;

  SummaryFile file_;
  UnitShape shape_;
  int64_t units_ = 0, documents_ = 0;
  std::vector<UnitBlock> unit_blocks_;
  std::vector<DocumentBlock> document_blocks_;
  std::string fingerprint_, origin_;
  TextReport report_;
};

}  // namespace fovea::data
