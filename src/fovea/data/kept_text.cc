#include "fovea/data/kept_text.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "fovea/base/descriptor.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"

namespace fovea::data {
namespace fs = std::filesystem;
namespace {

struct stat status_of(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) fail_on_file("read", path, errno);
  return status;
}

// Sizes and times of change: equal texts for files that have not changed.
std::string state_of(const KeptText& text) {
  std::string state;
  for (const std::string& path : text.paths) {
    const struct stat status = status_of(path);
    if (!S_ISREG(status.st_mode))
      throw Error(cat(text.option, ": '", path,
                      "' is not a regular file, so it would not show whether its text is the ",
                      "one that was encoded; write the text to a file, or leave the option out"));
    state += cat(status.st_size, " ", status.st_mtim.tv_sec, ".", status.st_mtim.tv_nsec, "\n");
  }
  return state;
}

// A file of its own for each text and each way to encode it.
fs::path path_of(const KeptText& text) {
  constexpr size_t kMostOfName = 100;
  std::string what = text.encoding;
  for (const std::string& path : text.paths) what += cat("\n", fs::canonical(path).string());
  const std::string name = fs::path(text.paths.front()).filename();
  return fs::path(text.folder) / cat(name.size() > kMostOfName ? "text" : name, ".", checksum(what), ".encoded");
}

void make_folder(const KeptText& text) {
  std::error_code failed;
  fs::create_directory(text.folder, failed);
  if (failed || !fs::is_directory(text.folder, failed))
    throw Error(cat(text.option, ": cannot make the folder '", text.folder,
                    "': ", failed ? failed.message() : "a file has this name", "; name a folder that can be written"));
}

fs::path lock_of(const fs::path& encoded) { return cat(encoded.string(), ".lock"); }

// Lets one process after the other encode: holds a lock on "FILE.lock", which it removes in the end.
class Turn {
 public:
  explicit Turn(const fs::path& encoded) : path_(lock_of(encoded)) {
    while (!try_to_lock()) {
      if (!std::exchange(has_said_, true))
        log::info(cat("[data] waiting for another process that encodes the text into '", encoded.string(), "'"));
      throw_if_interrupted("waiting for the encoded text");
      constexpr std::chrono::milliseconds kPause(200);
      std::this_thread::sleep_for(kPause);
    }
  }
  ~Turn() { (void)unlink(path_.c_str()); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  bool try_to_lock() {
    file_.emplace(open_at_last(path_, O_RDWR | O_CREAT | O_NOFOLLOW), "write", path_);
    // Some file systems have no locks: processes then encode side by side, and each puts the same file in place.
    if (flock(file_->get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
    // The process before may have removed the name meanwhile.
    struct stat own = {}, named = {};
    return fstat(file_->get(), &own) == 0 && stat(path_.c_str(), &named) == 0 && own.st_ino == named.st_ino;
  }

  fs::path path_;
  std::optional<Descriptor> file_;
  bool has_said_ = false;
};

enum class Told : uint8_t { kNo, kYes };

// The encoded file, unless it has to be made.
std::unique_ptr<EncodedFile> open_kept(const fs::path& path, const KeptText& text, const std::string& origin,
                                       Told told) {
  std::error_code none_there;
  if (!fs::exists(fs::symlink_status(path, none_there))) return nullptr;
  try {
    auto file = std::make_unique<EncodedFile>(path, text.shape);
    if (file->origin() == origin) return file;
    if (told == Told::kNo)
      log::info(cat("[data] the text has changed since '", path.string(), "' was written: it is encoded again"));
  } catch (const Error& error) {
    if (told == Told::kNo) log::warn(cat("[data] ", error.what(), "; the text is encoded again"));
  }
  return nullptr;
}

void encode_into(const fs::path& path, const KeptText& text, const std::string& origin,
                 const std::function<TextReport(PairSink&)>& encode) {
  log::info(cat("[data] encoding the text into '", path.string(), "', once: later trainings read it from there (",
                text.option, ")"));
  EncodedFileWriter writer(path, text.shape);
  const TextReport report = encode(writer);
  if (checksum(state_of(text)) != origin)
    throw Error(cat("the text of '", path.string(), "' was changed while it was read; run again when it is whole"));
  writer.commit(report, origin);
}

}  // namespace

std::unique_ptr<PairSource> keep_text(const KeptText& text, const std::function<TextReport(PairSink&)>& encode) {
  const std::string origin = checksum(state_of(text));
  const fs::path path = path_of(text);
  std::unique_ptr<EncodedFile> file = open_kept(path, text, origin, Told::kNo);
  if (!file) {
    make_folder(text);
    const Turn turn(path);
    file = open_kept(path, text, origin, Told::kYes);  // another process may have made it
    if (!file) {
      encode_into(path, text, origin, encode);
      file = std::make_unique<EncodedFile>(path, text.shape);
    }
  } else {
    // A process that was killed may have left it.
    if (std::error_code none_there; fs::exists(lock_of(path), none_there)) const Turn turn(path);
    log::info(cat("[data] the text is read from '", path.string(), "'"));
  }
  log_report(file->report());
  return file;
}

int64_t expected_bytes(const std::vector<std::string>& paths) {
  constexpr std::array<std::string_view, 4> kCompressed = {".gz", ".bz2", ".xz", ".zst"};
  constexpr int64_t kUnpacked = 4;  // bytes of text for one of a compressed file
  int64_t bytes = 0;
  for (const std::string& path : paths) {
    std::error_code failed;
    if (!fs::is_regular_file(path, failed)) return 0;
    const bool is_compressed =
        std::ranges::any_of(kCompressed, [&](std::string_view ending) { return path.ends_with(ending); });
    bytes += static_cast<int64_t>(fs::file_size(path, failed)) * (is_compressed ? kUnpacked : 1);
  }
  return bytes;
}

}  // namespace fovea::data
