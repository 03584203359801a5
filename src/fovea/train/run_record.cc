#include "fovea/train/run_record.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/spec/run_files.h"

namespace fovea::train {
namespace {

// "2026-11-24T14:20:01.123Z".
std::string utc_now() {
  using namespace std::chrono;
  const auto now = time_point_cast<milliseconds>(system_clock::now());
  const std::time_t seconds = system_clock::to_time_t(now);
  std::tm parts = {};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text = {};
  const size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  const std::string milli = std::to_string(1000 + now.time_since_epoch().count() % 1000).substr(1);
  return cat(std::string_view(text.data(), size), ".", milli, "Z");
}

}  // namespace

RunRecord::RunRecord(const std::filesystem::path& run)
    : path_(run / kRunRecordFile),
      file_(open_at_last(path_, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW), "write", path_) {
  const std::string before = read_file(path_);
  const size_t whole = before.rfind('\n') + 1;  // 0 without any line end
  if (whole < before.size() && ftruncate(file_.get(), static_cast<off_t>(whole)) != 0)
    fail_on_file("write", path_, errno);
}

void RunRecord::write(std::string_view object) {
  write_all(file_.get(), cat("{\"time\":\"", utc_now(), "\",", object.substr(1), "\n"), path_);
}

}  // namespace fovea::train
