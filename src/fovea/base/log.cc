#include "fovea/base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::log {
namespace {

constexpr const char* kPattern = "[%Y-%m-%d %H:%M:%S] %v";

struct State {
  Options options;
  bool bar_shown = false;
  std::shared_ptr<spdlog::logger> logger = make(Options{});

  static std::shared_ptr<spdlog::logger> make(const Options& options) {
    std::vector<spdlog::sink_ptr> sinks = {std::make_shared<spdlog::sinks::stderr_sink_mt>()};
    if (!options.file.empty()) {
      try {
        sinks.push_back(std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.file));
      } catch (const spdlog::spdlog_ex& e) {
        throw Error(cat("cannot write the log file '", options.file, "': ", e.what(), "; choose another with --log"));
      }
    }
    auto logger = std::make_shared<spdlog::logger>("fovea", sinks.begin(), sinks.end());
    logger->set_pattern(options.format == Format::kJson ? "%v" : kPattern);
    logger->set_level(options.quiet ? spdlog::level::warn : spdlog::level::info);
    logger->flush_on(spdlog::level::info);
    return logger;
  }
};

State& state() {
  static State instance;
  return instance;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void clear_bar() {
  if (state().bar_shown) std::fputs("\r\033[K", stderr);
  state().bar_shown = false;
}

void write(spdlog::level::level_enum level, std::string_view prefix, std::string_view line) {
  clear_bar();
  if (state().options.format == Format::kText) {
    // What ends the program stands at the start of its line, as the shell's other programs have it.
    if (level == spdlog::level::err) state().logger->set_pattern("%v");
    state().logger->log(level, "{}{}", prefix, line);
    if (level == spdlog::level::err) state().logger->set_pattern(kPattern);
    return;
  }
  const std::string name = level == spdlog::level::info ? "info" : level == spdlog::level::warn ? "warning" : "error";
  const nlohmann::json object = {{"level", name}, {"message", std::string(line)}};
  state().logger->log(level, "{}", object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

void configure(const Options& options) {
  state().logger = State::make(options);
  state().options = options;
}
Format format() { return state().options.format; }
void info(std::string_view line) { write(spdlog::level::info, "", line); }
void warn(std::string_view line) { write(spdlog::level::warn, "Warning: ", line); }
void error(std::string_view line) { write(spdlog::level::err, "Error: ", line); }

void record(std::string_view text, std::string_view json) {
  clear_bar();
  state().logger->info("{}", state().options.format == Format::kJson ? json : text);
}

Progress::Progress(std::string what, double total) : what_(std::move(what)), total_(total), start_(now()) {}

Progress::~Progress() { finish(); }

void Progress::at(double done, std::string_view note) {
  if (state().options.quiet) return;
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
    if (share > 0.01) line += ", " + fixed(elapsed / share - elapsed, 0) + " s left";
  } else {
    line += thousands(static_cast<int64_t>(done));
  }
  if (!note.empty()) line += cat(", ", note);
  if (terminal) {
    std::fprintf(stderr, "\r\033[K%s", line.c_str());
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
