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

#include "fovea/base/aside.h"
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

// Sizes and times: equal texts for files that have not changed. Programs such as cp -p and rsync -t set the
// time of the content, so that alone would not show a new content of the same size; nobody sets the time of the status.
std::string state_of(const std::vector<std::string>& paths, const std::string& option) {
  std::string state;
  for (const std::string& path : paths) {
    struct stat status = {};
    if (path != "-") status = status_of(path);
    if (!S_ISREG(status.st_mode))
      throw Error(cat(option, ": '", path, "' is not a regular file, so it would not show whether its text is the ",
                      "one that was encoded; write the text to a file, or leave the option out"));
    state += cat(status.st_size, " ", status.st_mtim.tv_sec, ".", status.st_mtim.tv_nsec, " ", status.st_ctim.tv_sec,
                 ".", status.st_ctim.tv_nsec, "\n");
  }
  return state;
}

// A file of its own for each text and each way to encode it.
template <class Shape>
fs::path path_of(const KeptText<Shape>& text) {
  constexpr size_t kMostOfName = 100;
  std::string what = text.encoding;
  for (const std::string& path : text.paths) what += cat("\n", fs::canonical(path).string());
  const std::string name = fs::path(text.paths.front()).filename();
  return fs::path(text.folder) / cat(name.size() > kMostOfName ? "text" : name, ".", checksum(what), ".encoded");
}

void make_folder(const std::string& folder, const std::string& option) {
  std::error_code failed;
  fs::create_directory(folder, failed);
  if (failed || !fs::is_directory(folder, failed))
    throw Error(cat(option, ": cannot make the folder '", folder,
                    "': ", failed ? failed.message() : "a file has this name", "; name a folder that can be written"));
}

fs::path lock_of(const fs::path& encoded) { return cat(encoded.string(), ".lock"); }

constexpr std::string_view kLockText = "Fovea locks this file while it encodes a text.\n";

// Lets one process after the other encode: holds a lock on "FILE.lock", which it removes in the end if a process of
// Fovea made it.
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
  ~Turn() {
    std::array<char, kLockText.size() + 1> text = {};
    const ssize_t size = pread(file_->get(), text.data(), text.size(), 0);
    if (size == std::ssize(kLockText) && std::string_view(text.data(), kLockText.size()) == kLockText)
      (void)unlink(path_.c_str());
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  bool try_to_lock() {
    int file = open_at_last(path_, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
    const bool is_new = file >= 0;
    if (!is_new && errno == EEXIST) file = open_at_last(path_, O_RDWR | O_NOFOLLOW);
    if (file < 0 && errno == ENOENT && fs::exists(folder_of(path_))) return false;  // the process before removed it
    file_.emplace(file, "write", path_);
    if (is_new) write_all(file, kLockText, path_);
    // Some file systems have no locks: processes then encode side by side, and each puts the same file in place.
    if (flock(file_->get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
    // The process before may have removed the name only now.
    struct stat own = {}, named = {};
    return fstat(file_->get(), &own) == 0 && stat(path_.c_str(), &named) == 0 && own.st_ino == named.st_ino;
  }

  fs::path path_;
  std::optional<Descriptor> file_;
  bool has_said_ = false;
};

enum class Told : uint8_t { kNo, kYes };

// Files, and their writers, of one kind of text.
struct Pairs {
  using File = EncodedFile;
  using Writer = EncodedFileWriter;
  using Sink = PairSink;
  using Shape = EncodedShape;
};
struct UnitsOfText {
  using File = UnitFile;
  using Writer = UnitFileWriter;
  using Sink = UnitSink;
  using Shape = UnitShape;
};

template <class Kind>
class Keeper {
 public:
  using Encode = std::function<TextReport(typename Kind::Sink&)>;
  explicit Keeper(const KeptText<typename Kind::Shape>& text)
      : text_(text), origin_(checksum(state_of(text.paths, text.option))), path_(path_of(text)) {}

  std::unique_ptr<typename Kind::File> keep(const Encode& encode) const {
    std::unique_ptr<typename Kind::File> file = open_kept(Told::kNo);
    if (!file) {
      make_folder(text_.folder, text_.option);
      const Turn turn(path_);
      file = open_kept(Told::kYes);  // another process may have made it
      if (!file) {
        encode_into_file(encode);
        file = std::make_unique<typename Kind::File>(path_, text_.shape);
      }
    } else {
      // A process that was killed may have left it.
      if (std::error_code none_there; fs::exists(lock_of(path_), none_there)) const Turn turn(path_);
      log::info(cat("[data] the text is read from '", path_.string(), "'"));
    }
    log_report(file->report());
    return file;
  }

 private:
  // The encoded file, unless it has to be made.
  std::unique_ptr<typename Kind::File> open_kept(Told told) const {
    std::error_code none_there;
    if (!fs::exists(fs::symlink_status(path_, none_there))) return nullptr;
    try {
      auto file = std::make_unique<typename Kind::File>(path_, text_.shape);
      if (file->origin() == origin_) return file;
      if (told == Told::kNo)
        log::info(cat("[data] the text has changed since '", path_.string(), "' was written: it is encoded again"));
    } catch (const Error& error) {
      if (told == Told::kNo) log::warn(cat("[data] ", error.what(), "; the text is encoded again"));
    }
    return nullptr;
  }

  void encode_into_file(const Encode& encode) const {
    log::info(cat("[data] encoding the text into '", path_.string(), "', once: later trainings read it from there (",
                  text_.option, ")"));
    typename Kind::Writer writer(path_, text_.shape);
    const TextReport report = encode(writer);
    if (checksum(state_of(text_.paths, text_.option)) != origin_)
      throw Error(cat("the text of '", path_.string(), "' was changed while it was read; run again when it is whole"));
    writer.commit(report, origin_);
  }

  const KeptText<typename Kind::Shape>& text_;
  std::string origin_;
  fs::path path_;
};

}  // namespace

std::unique_ptr<PairSource> keep_text(const KeptText<EncodedShape>& text,
                                      const std::function<TextReport(PairSink&)>& encode) {
  return Keeper<Pairs>(text).keep(encode);
}

std::unique_ptr<UnitSource> keep_text(const KeptText<UnitShape>& text,
                                      const std::function<TextReport(UnitSink&)>& encode) {
  return Keeper<UnitsOfText>(text).keep(encode);
}

std::string folder_of_encoded(const std::string& named, const std::vector<std::string>& paths, int64_t held) {
  if (!named.empty() || expected_bytes(paths) <= kMostHeldBytes / held) return named;
  std::string folder = folder_of(paths.front());
  if (access(folder.c_str(), W_OK | X_OK) == 0) return folder;
  log::warn(cat("[data] the text is large, and its folder '", folder,
                "' cannot be written: the text is held in memory; ",
                "name a folder for the encoded text by --encoded-text"));
  return "";
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
