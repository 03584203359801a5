#include "fovea/data/summary_file.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/replace.h"
#include "fovea/base/strings.h"

namespace fovea::data {
namespace {

constexpr size_t kDigitsOfSum = 16;

}  // namespace

SummaryFileWriter::SummaryFileWriter(const std::filesystem::path& path, std::string_view format)
    : path_(path),
      aside_(std::in_place, folder_of(path), path),
      temporary_(*aside_ / "new"),
      file_(open_at_last(temporary_, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW), "write", path),
      format_(format) {}

void SummaryFileWriter::write(std::string_view bytes) {
  constexpr size_t kBuffer = 1 << 20;
  buffer_ += bytes;
  written_ += bytes.size();
  if (buffer_.size() >= kBuffer) flush();
}

void SummaryFileWriter::flush() {
  write_all(file_.get(), buffer_, path_);
  buffer_.clear();
}

void SummaryFileWriter::commit(std::string_view summary) {
  const uint64_t summary_place = written_;
  write(summary);
  write({reinterpret_cast<const char*>(&summary_place), sizeof summary_place});
  write(checksum(summary));
  write(format_);
  flush();
  sync_file(file_, path_);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail_on_file("rename onto", path_, errno);
  aside_.reset();
  const std::filesystem::path folder = folder_of(path_);
  sync_path(folder);
  remove_leftovers({&folder, 1});
}

SummaryFile::SummaryFile(const std::filesystem::path& path, std::string_view format) : path_(path), file_(path) {
  const size_t end_size = sizeof summary_place_ + kDigitsOfSum + format.size();
  require(file_.size() >= end_size, "it is too short");
  std::string end(end_size, '\0');
  file_.read(file_.size() - end_size, end.data(), end_size);
  require(end.ends_with(format), "it does not end as files of this version of Fovea do");
  uint64_t place = 0;
  std::memcpy(&place, end.data(), sizeof place);
  require(place <= file_.size() - end_size, "it ends before its summary");
  summary_.resize(file_.size() - end_size - place);
  file_.read(place, summary_.data(), summary_.size());
  require(checksum(summary_) == end.substr(sizeof place, kDigitsOfSum), "its summary has another checksum");
  summary_place_ = place;
}

void SummaryFile::read(uint64_t place, void* to, size_t size) const {
  require(place <= summary_place_ && size <= summary_place_ - place, kNumbersDiffer);
  file_.read(place, to, size);
}

void SummaryFile::fail(std::string_view what) const {
  throw Error(cat("'", path_.string(), "' is damaged: ", what,
                  is_in_use_ ? "; remove it, and the same command encodes the text again and continues" : ""));
}

void SummaryFile::require(bool is_right, std::string_view what) const {
  if (!is_right) fail(what);
}

}  // namespace fovea::data
