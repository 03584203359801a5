#include "fovea/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "fovea/base/aside.h"
#include "fovea/base/descriptor.h"
#include "fovea/base/error.h"
#include "fovea/base/output_target.h"
#include "fovea/base/replace.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"

namespace fovea {
namespace fs = std::filesystem;

void require_file(const fs::path& path, std::string_view what) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (path == "-" && !fs::exists(status)) {
    throw Error(cat(what, ": '-', standard input, is not taken here; name a file or a named pipe"));
  }
  if (status.type() == fs::file_type::not_found) throw Error(cat(what, ": no such file: '", path.string(), "'"));
  if (fs::is_directory(status)) throw Error(cat(what, ": '", path.string(), "' is a folder; a file is expected"));
  if (access(path.c_str(), R_OK) != 0)
    throw Error(cat(what, ": cannot read '", path.string(), "': ", std::strerror(errno)));
}

void require_other_file(std::string_view option, const std::string& output, const std::vector<std::string>& inputs) {
  for (const std::string& input : inputs) {
    std::error_code none_there;
    if (output == "-" || input == "-" || !fs::is_regular_file(input, none_there)) continue;
    if (fs::equivalent(output, input, none_there)) {
      throw Error(cat(option, ": '", output, "' is read too and would be changed; name another file"));
    }
  }
}

void require_writable(std::string_view option, const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    throw Error(cat(option, ": '", path.string(), "' is a folder; a file is expected"));
  const OutputTarget target = output_target(path);
  if (target.descriptor >= 0) return;
  // Regular files are replaced by rename, which asks for rights in the folder.
  const fs::path folder = folder_of(target.path);
  const bool may_rename = !target.replaces || access(folder.c_str(), W_OK | X_OK) == 0;
  const bool is_new = target.replaces && !target.mode;
  if (may_rename && (is_new || access(target.path.c_str(), W_OK) == 0)) return;
  throw Error(cat(option, ": cannot write '", path.string(), "': ", std::strerror(errno)));
}

void require_own_place(std::string_view option, const fs::path& path, OwnPlace kind) {
  std::error_code none_there;
  const fs::file_type type = fs::symlink_status(path, none_there).type();
  const bool is_folder = kind == OwnPlace::kFolder;
  if (type == fs::file_type::symlink)
    throw Error(cat(option, ": '", path.string(), "' is a link to '", fs::read_symlink(path, none_there).string(),
                    "', so that writing would change what is there; remove the link (the folder that holds it may ",
                    "itself be a link)"));
  if (type == fs::file_type::not_found || type == fs::file_type::none) return;
  if (type != (is_folder ? fs::file_type::directory : fs::file_type::regular))
    throw Error(cat(option, ": '", path.string(), "' is not a ", is_folder ? "folder" : "regular file",
                    "; move it away or use another folder"));
}

std::string read_file(const fs::path& path) {
  require_file(path, "reading");
  const Descriptor file(open_input(path), "read", path);
  std::string content;
  struct stat status = {};
  if (fstat(file.get(), &status) == 0 && status.st_size > 0) content.reserve(static_cast<size_t>(status.st_size) + 1);
  std::array<char, 1 << 16> buffer;
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) {
      throw_if_interrupted("reading");
      continue;
    }
    if (got < 0) fail_on_file("read", path, errno);
    if (got == 0) return content;
    content.append(buffer.data(), static_cast<size_t>(got));
  }
}

std::string read_text_file(const fs::path& path) {
  std::string content = read_file(path);
  if (content.starts_with(kByteOrderMark)) content.erase(0, kByteOrderMark.size());
  return content;
}

void sync_path(const fs::path& path) {
  const Descriptor file(open_at_last(path, O_RDONLY), "open", path);
  if (sync_at_last(file.get()) != 0 && errno != EINVAL) fail_on_file("sync", path, errno);
}

void write_file(const fs::path& path, std::string_view content) {
  const OutputTarget target = output_target(path);
  if (!target.replaces) {
    const Descriptor file(open_output(target, {}), "write", path);
    write_all(file.get(), content, path);
    return;
  }
  const fs::path folder = folder_of(target.path);
  {
    const MarkedFolder aside(folder, path);
    const fs::path temporary = aside / "new";
    const Descriptor file(open_output(target, temporary), "write", path);
    write_all(file.get(), content, path);
    sync_file(file, path);
    if (rename(temporary.c_str(), target.path.c_str()) != 0) fail_on_file("rename onto", path, errno);
  }
  sync_path(folder);
  remove_leftovers_once(folder);
}

std::string checksum(std::string_view bytes) {
  std::array<char, 17> hex{};
  std::snprintf(hex.data(), hex.size(), "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(bytes.data(), bytes.size())));
  return hex.data();
}

}  // namespace fovea
