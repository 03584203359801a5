#include "fovea/base/log.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "fovea/base/choices.h"
#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::log {
namespace {

constexpr const char* kPattern = "[%Y-%m-%d %H:%M:%S] %v";
// ISO 8601; the message is an object without its first brace.
constexpr const char* kJsonPattern = R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z",%v)";

// A file sink that throws an Error if a line cannot be written; spdlog's own file sink loses the line.
class FileSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit FileSink(const std::string& path) : path_(path), file_(path, std::ios::app) { check(); }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    file_.write(line.data(), static_cast<std::streamsize>(line.size()));
  }
  void flush_() override {
    file_.flush();
    check();
  }
  void check() const {
    if (!file_)
      throw Error(
          cat("cannot write the log file '", path_, "': ", std::strerror(errno), "; choose another with --log"));
  }

  std::string path_;
  std::ofstream file_;
};

spdlog::level::level_enum spdlog_level(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      break;
  }
  return spdlog::level::err;
}

struct State {
  Options options;
  std::atomic<bool> bar_shown = false;
  std::shared_ptr<spdlog::logger> logger = make(Options{});

  static std::shared_ptr<spdlog::logger> make(const Options& options) {
    std::vector<spdlog::sink_ptr> sinks = {std::make_shared<spdlog::sinks::stderr_sink_mt>()};
    if (!options.file.empty()) sinks.push_back(std::make_shared<FileSink>(options.file));
    auto logger = std::make_shared<spdlog::logger>("fovea", sinks.begin(), sinks.end());
    logger->set_pattern(options.format == Format::kJson ? kJsonPattern : kPattern);
    logger->set_level(spdlog_level(options.level));
    logger->flush_on(spdlog::level::debug);
    // Called by the logger for what a sink throws; without the file the Error itself can be shown.
    logger->set_error_handler([weak = std::weak_ptr(logger)](const std::string& what) {
      if (const auto shared = weak.lock()) shared->sinks().resize(1);
      throw Error(what);
    });
    return logger;
  }
};

State& state() {
  static State instance;
  return instance;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void clear_bar() {
  if (state().bar_shown.exchange(false)) std::fputs("\r\033[K", stderr);
}

// One line without anything that a terminal obeys: names of files and texts out of them are a stranger's. The lines
// with a spec and a caret, which end an error of a spec, stay lines of their own; their indentation tells them from
// lines of the log.
std::string printable(std::string_view text) {
  const size_t caret = text.rfind('\n');
  const size_t spec = caret == std::string_view::npos || caret == 0 ? caret : text.rfind('\n', caret - 1);
  const std::string_view last = caret == std::string_view::npos ? "" : text.substr(caret + 1);
  const bool has_picture = spec != std::string_view::npos && spec < caret && text.substr(spec + 1).starts_with("  ") &&
                           last.starts_with("  ") && last.find_first_not_of(' ') + 1 == last.size() &&
                           last.ends_with('^');
  if (!has_picture) return one_line(std::string(text));
  return cat(one_line(std::string(text.substr(0, spec))), "\n",
             one_line(std::string(text.substr(spec + 1, caret - spec - 1))), "\n", last);
}

// Makes a JSON object printable with escapes in its strings, which lose nothing. JSON has none of these characters
// elsewhere.
std::string printable_json(std::string_view object) {
  std::string line;
  for (std::string_view rest = object; !rest.empty();) {
    const CharacterStart next = first_character(rest);
    const std::string character(rest.substr(0, next.kind == CharacterStart::Kind::kWhole ? next.size : 1));
    rest.remove_prefix(character.size());
    if (one_line(character) == character) {
      line += character;
      continue;
    }
    const std::string quoted = nlohmann::json(character).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    line += quoted.substr(1, quoted.size() - 2);
  }
  return line;
}

// An object that is not empty.
void write_json(spdlog::level::level_enum level, std::string_view object) {
  state().logger->log(level, "{}", printable_json(object.substr(1)));
}

void write(Level rank, std::string_view prefix, std::string_view line) {
  const spdlog::level::level_enum level = spdlog_level(rank);
  clear_bar();
  if (state().options.format == Format::kText) {
    // An error that ends the program begins its line, like those of other programs of the shell.
    if (level == spdlog::level::err) state().logger->set_pattern("%v");
    state().logger->log(level, "{}{}", prefix, printable(line));
    if (level == spdlog::level::err) state().logger->set_pattern(kPattern);
    return;
  }
  const std::string name(choice_at(kLevelNames, static_cast<size_t>(rank)));
  const nlohmann::json object = {{"level", name}, {"message", printable(line)}};
  write_json(level, object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

// If the log file fails, standard error has had the line, and is the only sink from then on.
void write_last(Level level, std::string_view prefix, std::string_view line) {
  try {
    write(level, prefix, line);
  } catch (const Error& e) {
    write(Level::kWarning, "Warning: ", e.what());
  }
}

}  // namespace

void configure(const Options& options) {
  state().logger = State::make(options);
  state().options = options;
}
void debug(std::string_view line) { write(Level::kDebug, "", line); }
void info(std::string_view line) { write(Level::kInfo, "", line); }
void warn(std::string_view line) { write(Level::kWarning, "Warning: ", line); }
void error(std::string_view line) { write_last(Level::kError, "Error: ", line); }
void stopped(std::string_view line) { write_last(Level::kWarning, "Warning: ", line); }

void record(std::string_view text, std::string_view json) {
  clear_bar();
  if (state().options.format == Format::kJson)
    write_json(spdlog::level::info, json);
  else
    state().logger->info("{}", printable(text));
}

Progress::Progress(std::string what, double total, double begun)
    : what_(std::move(what)), total_(total), begun_(begun), start_(now()) {}

Progress::~Progress() { finish(); }

void Progress::at(double done, std::string_view note) {
  if (state().options.level > Level::kInfo) return;
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const double time = now();
  if (time - drawn_ < (terminal ? 0.1 : 10.0) || (!terminal && time - start_ < 10.0)) return;
  drawn_ = time;
  const double share = total_ > 0 ? std::clamp(done / total_, 0.0, 1.0) : 0;
  const double elapsed = time - start_;
  std::string line = what_ + " ";
  if (total_ > 0) {
    constexpr int kWidth = 30;
    const int filled = static_cast<int>(share * kWidth);
    line += "[" + std::string(filled, '#') + std::string(kWidth - filled, '.') + "] " + fixed(100 * share, 0) + "%";
    const double own = total_ > begun_ ? (done - begun_) / (total_ - begun_) : 1;
    if (own > 0.01) line += ", " + fixed(std::max(elapsed / own - elapsed, 0.0), 0) + " s left";
  } else {
    line += thousands(static_cast<int64_t>(done));
  }
  if (!note.empty()) line += cat(", ", note);
  if (terminal) {
    std::fprintf(stderr, "\r\033[K%s", one_line(line).c_str());
    std::fflush(stderr);
    state().bar_shown = true;
  } else {
    info(line);
  }
}

void Progress::finish() {
  if (!finished_) clear_bar();
  finished_ = true;
}

}  // namespace fovea::log
