#include "fovea/train/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <boost/crc.hpp>
#include <chrono>

#include "fovea/base/error.h"
#include "fovea/base/protobuf.h"
#include "fovea/base/strings.h"

namespace fovea::train {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrefix = "events.out.tfevents.";  // TensorBoard looks for "tfevents"
constexpr std::string_view kEnding = ".fovea";
constexpr std::string_view kVersion = "brain.Event:2";

// Field numbers of TensorFlow's messages Event, Summary, Summary.Value and SessionLog (event.proto, summary.proto).
constexpr uint64_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr uint64_t kSummaryValue = 1, kTag = 1, kSimpleValue = 2;
constexpr uint64_t kStatus = 1;
constexpr int64_t kStart = 1;

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void put_little_endian(std::string& bytes, uint64_t value, int size) {
  for (int i = 0; i < size; ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

// The checksum of TFRecords: CRC32C, turned by 15 bits and moved, because they may hold checksums themselves.
uint32_t masked_crc(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  const uint32_t sum = crc.checksum();
  return ((sum >> 15) | (sum << 17)) + 0xa282ead8U;
}

std::string record_of(std::string_view data) {
  std::string record;
  put_little_endian(record, data.size(), 8);
  put_little_endian(record, masked_crc(record), 4);
  record += data;
  put_little_endian(record, masked_crc(data), 4);
  return record;
}

fs::path made_folder(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) throw Error(cat("--tensorboard: cannot make the folder '", folder.string(), "': ", failed.message()));
  return folder;
}

// In the order of their time, by name too. Two processes on one machine have different numbers.
fs::path new_path(const fs::path& folder) {
  std::array<char, 256> host = {};
  if (gethostname(host.data(), host.size() - 1) != 0) host.front() = '\0';
  const auto seconds = static_cast<int64_t>(seconds_since_1970());
  return folder / cat(kPrefix, seconds, ".", host.data(), ".", getpid(), kEnding);
}

// Appends to one of that name, which this process alone can have written.
int open_events(const fs::path& path) { return open_at_last(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW); }

}  // namespace

EventFile::EventFile(const fs::path& folder, int64_t updates)
    : path_(new_path(made_folder(folder))), file_(open_events(path_), "write", path_) {
  std::string version, session, start;
  put_protobuf_bytes(version, kFileVersion, kVersion);
  write_event(version, 0);
  put_protobuf_number(session, kStatus, kStart);
  put_protobuf_bytes(start, kSessionLog, session);
  write_event(start, updates + 1);  // from this step on, other files' events are dropped
}

void EventFile::write(int64_t updates, const Scalars& scalars) {
  std::string summary;
  for (const auto& [tag, number] : scalars) {
    std::string value;
    put_protobuf_bytes(value, kTag, tag);
    put_protobuf_float(value, kSimpleValue, static_cast<float>(number));
    put_protobuf_bytes(summary, kSummaryValue, value);
  }
  std::string message;
  put_protobuf_bytes(message, kSummary, summary);
  write_event(message, updates);
}

void EventFile::write_event(std::string_view message, int64_t step) {
  std::string event;
  put_protobuf_double(event, kWallTime, seconds_since_1970());
  put_protobuf_number(event, kStep, step);
  event += message;
  write_all(file_.get(), record_of(event), path_);
}

bool EventFile::is_own(const fs::path& path) {
  const std::string name = path.filename().string();
  std::error_code none_there;
  const bool is_named = name.starts_with(kPrefix) && name.ends_with(kEnding);
  if (!is_named || fs::symlink_status(path, none_there).type() != fs::file_type::regular) return false;
  std::array<char, 64> begin = {};  // the first event has the version
  const int file = open_at_last(path, O_RDONLY | O_NOFOLLOW);
  const ssize_t size = file < 0 ? 0 : read(file, begin.data(), begin.size());
  if (file >= 0) (void)close(file);
  return size > 0 && std::string_view(begin.data(), static_cast<size_t>(size)).find(kVersion) != std::string_view::npos;
}

}  // namespace fovea::train
