#include "fovea/app/program.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <string_view>
#include <system_error>

#include "fovea/app/commands.h"
#include "fovea/app/option_help.h"
#include "fovea/app/torch.h"
#include "fovea/app/version.h"
#include "fovea/base/collective.h"
#include "fovea/base/error.h"
#include "fovea/base/log.h"
#include "fovea/base/program_name.h"
#include "fovea/base/reader_watch.h"
#include "fovea/base/shared_work.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"

namespace fovea::app {
namespace {

constexpr int kUserError = 1, kUsageError = 2;

void print_help() {
  constexpr int64_t kSummaryColumn = 14;
  std::vector<HelpLine> lines;
  for (const Command& command : commands()) lines.push_back({std::string(command.name), std::string(command.summary)});
  const int64_t width = help_width();
  std::cout << wrapped(cat("fovea ", kVersion, ": trains, runs and explains sparse-attention Transformers"), width, 0)
            << "\n\n"
            << wrapped("Usage: fovea COMMAND [OPTIONS]; fovea help COMMAND; fovea --version", width, 7) << "\n\n"
            << print_lines(lines, kSummaryColumn, width) << std::flush;
}

// All processes of a team usually find the same error. Process 0 tells it at once, and the launcher then ends the
// others. Another one that still lives after a pause is alone with its error.
void tell(const std::string& error) {
  if (launched_rank() == 0) return log::error(error);
  constexpr timespec kPause = {.tv_sec = 2, .tv_nsec = 0};
  if (nanosleep(&kPause, nullptr) != 0) return;  // a signal came
  const std::string name = cat("process ", launched_rank(), " of ", launched_processes(), " on ");
  log::error(error.starts_with(name) ? error : cat(name, alone().host(), ": ", error));
}

// Standard output may be a full disk: what was lost must not end in exit 0. If nobody reads it any more, nothing is
// lost.
int flush_output(int code) {
  std::cout.flush();
  if (std::cout.good() && std::fflush(stdout) == 0) return code;
  if (has_no_reader(STDOUT_FILENO)) return code;
  tell("cannot write standard output; some of the output is lost");
  return kUserError;
}

// libtorch's allocator of main memory throws its general exception.
bool tells_of_no_memory(const std::string& text) { return text.find("DefaultCPUAllocator") != std::string::npos; }

int tell_of_no_memory() {
  tell(
      "out of memory; use a smaller model, smaller batches (--mini-batch, --mini-batch-words), shorter input or, in "
      "training, --gradient-checkpointing");
  return kUserError;
}

// The type that libtorch's message says a device has no kernel for, as in: "addmm_cuda" not implemented for 'BFloat16'.
std::string missing_type(const std::string& text) {
  constexpr std::string_view kBefore = "not implemented for '";
  const size_t at = text.find(kBefore);
  if (at == std::string::npos) return {};
  const size_t begin = at + kBefore.size();
  return text.substr(begin, text.find('\'', begin) - begin);
}

int tell_of_missing_type(const std::string& type) {
  tell(cat("the device of --devices cannot compute with numbers of the type ", type,
           "; use --precision float32, or --devices cpu"));
  return kUserError;
}

int tell_of_bug(const std::string& text) {
  tell(cat("internal: ", text.substr(0, text.find('\n'))));
  return kUserError;
}

// Commands that several processes share. Their functions refuse what they cannot share.
constexpr std::array<std::string_view, 4> kSharedCommands = {"train", "translate", "score", "filter"};

// Commands with one --model that they read, whose first argument may be its folder: `fovea translate run`.
constexpr std::array<std::string_view, 11> kModelCommands = {
    "align", "analyze", "caption", "embed", "filter", "generate", "report", "score", "serve", "tag", "translate"};

std::vector<std::string> with_model_named(std::string_view command, std::vector<std::string> arguments) {
  std::error_code none_there;
  const bool takes_model = std::ranges::find(kModelCommands, command) != kModelCommands.end();
  if (takes_model && !arguments.empty() && !arguments.front().starts_with('-') &&
      std::filesystem::is_directory(arguments.front(), none_there))
    arguments.insert(arguments.begin(), "--model");
  return arguments;
}

}  // namespace

int run(const std::vector<std::string>& arguments, const std::function<void()>& before) {
  if (arguments.empty()) {
    print_help();
    return kUsageError;
  }
  const std::string& name = arguments[0];
  if (name == "help" && arguments.size() > 1) return run({arguments[1], "--help"}, before);
  if (name == "--help" || name == "-h" || name == "help" || name == "--help-all") {
    print_help();
    return 0;
  }
  if (name == "--version" || name == "-V" || name == "version") {
    const std::string build = build_info();
    std::cout << "fovea " << kVersion << " " << build << std::endl;
    return 0;
  }
  std::vector<std::string> known;
  for (const Command& command : commands()) {
    if (command.name == name) {
      if (std::ranges::find(kSharedCommands, name) == kSharedCommands.end()) require_one_process(cat("fovea ", name));
      before();
      return command.run(with_model_named(name, {arguments.begin() + 1, arguments.end()}));
    }
    known.emplace_back(command.name);
  }
  const std::string hint = did_you_mean(name, known);
  throw UsageError(cat("unknown command '", name, "'", hint.empty() ? cat("; see ", program_name(), " --help") : hint));
}

int guarded(const std::function<int()>& program) {
  try {
    return flush_output(program());
  } catch (const UsageError& e) {
    tell(e.what());
    return kUsageError;
  } catch (const ReaderLeft&) {
    return 0;
  } catch (const Error& e) {
    tell(e.what());
    return kUserError;
  } catch (const Interrupted& e) {
    log::stopped(e.what());
    return 128 + interrupting_signal();
  } catch (const std::system_error& e) {
    if (e.code() != std::errc::resource_unavailable_try_again) return tell_of_bug(e.what());
    tell("the system does not let this process start another thread; see ulimit -u, or give fewer --cpu-threads");
    return kUserError;
  } catch (const std::bad_alloc&) {
    return tell_of_no_memory();
  } catch (const std::exception& e) {
    // libtorch's messages carry a stack trace after their first line.
    const std::string text = e.what();
    if (tells_of_no_memory(text)) return tell_of_no_memory();
    if (const std::string type = missing_type(text); !type.empty()) return tell_of_missing_type(type);
    return tell_of_bug(text);
  }
}

}  // namespace fovea::app
