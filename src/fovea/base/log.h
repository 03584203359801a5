#pragma once
#include <string>
#include <string_view>

// Logging behind plain strings: libtorch's include folder carries its own fmt, so no header may show one.
// A line is "[2026-11-21 03:17:06] text" on standard error, or with --log-format json one JSON object, whose "time" is
// in ISO 8601.
namespace fovea::log {

enum class Format { kText, kJson };

// Lines of lower levels are left out.
enum class Level { kDebug, kInfo, kWarning, kError };
inline constexpr std::string_view kLevelNames = "debug|info|warning|error";

struct Options {
  Format format = Format::kText;
  Level level = Level::kInfo;
  std::string file;  // also appended here, when not empty
};

void configure(const Options& options);
void debug(std::string_view line);
void info(std::string_view line);
void warn(std::string_view line);
// An error ends the program, and so error() does not throw; the others throw if the log file cannot be written.
void error(std::string_view line);
void stopped(std::string_view line);  // a warning
// A record for machines: `json`, one object with a member at least, in the JSON format, `text` otherwise.
void record(std::string_view text, std::string_view json);

// A progress bar on a terminal, a line every few seconds elsewhere; silent if the level leaves out kInfo. Redrawn at
// most ten times a second, so it may be called for every item.
class Progress {
 public:
  // A total of 0 is unknown, and the bar shows a count. `begun` was done before; the seconds left follow from the rest.
  Progress(std::string what, double total, double begun = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void at(double done, std::string_view note = {});
  void finish();

 private:
  std::string what_;
  double total_, begun_;
  double start_;
  double drawn_ = 0;
  bool finished_ = false;
};

}  // namespace fovea::log
