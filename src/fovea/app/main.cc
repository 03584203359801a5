// The executable. It does all work that needs no libtorch itself (torch.h). For the rest it sets the variables that
// libtorch's libraries read while they are loaded, and loads them with lib/libfovea_program.so.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "fovea/app/library.h"
#include "fovea/app/program.h"
#include "fovea/app/torch.h"
#include "fovea/base/collective.h"
#include "fovea/base/malloc.h"
#include "fovea/base/program_name.h"
#include "fovea/base/signals.h"

namespace {

constexpr int kUserError = 1;

// If the parent process closed a standard descriptor, the next file that is opened would get its number. Standard input
// stays unreadable, standard output and standard error stay unwritable.
void occupy_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) >= 0) continue;
    (void)open("/dev/null", descriptor == STDOUT_FILENO ? O_RDONLY : O_WRONLY);
  }
}

// While MKL is loaded, it ends the process with a message of its own if the working folder has been deleted.
bool has_working_folder() {
  std::array<char, PATH_MAX> folder;
  return getcwd(folder.data(), folder.size()) != nullptr || errno != ENOENT;
}

// By default, libgomp's threads spin for milliseconds while they wait for one another. When another program keeps a
// core busy, a spinning thread takes time from the thread that it waits for, and training can become 30 times slower.
// 5,000 turns are long enough for threads that have a core each. libgomp reads the variable when it is loaded, never
// again.
class ShortSpins {
 public:
  ShortSpins() : set_(std::getenv(kName) == nullptr && std::getenv("OMP_WAIT_POLICY") == nullptr) {
    if (set_) setenv(kName, "5000", 1);
  }
  ~ShortSpins() {
    if (set_) unsetenv(kName);  // the user's environment for what the program may start
  }
  ShortSpins(const ShortSpins&) = delete;
  ShortSpins& operator=(const ShortSpins&) = delete;

 private:
  static constexpr const char* kName = "GOMP_SPINCOUNT";
  bool set_;
};

// Returns nothing if the arguments ask for work that needs libtorch.
std::optional<int> run_without_torch(const std::vector<std::string>& arguments) {
  fovea::tune_malloc();
  fovea::install_signal_handlers();
  try {
    return fovea::app::guarded([&] { return fovea::app::run(arguments, [] {}); });
  } catch (const fovea::app::NeedsTorch&) {
    return std::nullopt;
  }
}

// Nobody looks for signals before the library has its own handlers, so until then a signal ends the process.
void* load() {
  const fovea::StoppableAtOnce while_loading;
  if (const int signal = fovea::interrupting_signal(); signal != 0) (void)std::raise(signal);
  const ShortSpins short_spins;
  return dlopen("libfovea_program.so", RTLD_LAZY | RTLD_GLOBAL);
}

// Flushes the streams and ends the process: after main, libtorch would take its operators apart, a quarter of the
// processor time of a short command. One of several processes returns to main, because the MPI's library acts after it.
int end_at_once(int code) {
  if (fovea::launched_processes() > 1) return code;
  (void)std::fflush(nullptr);
  std::_Exit(code);
}

}  // namespace

int main(int argc, char** argv) {
  occupy_standard_descriptors();
  if (!has_working_folder()) {
    (void)std::fputs("Error: the current folder has been deleted; change to another\n", stderr);
    return kUserError;
  }
  fovea::set_program_name(argc > 0 ? argv[0] : "");
  if (const std::optional<int> code = run_without_torch({argv + 1, argv + argc})) return *code;
  void* const library = load();
  void* const symbol = library == nullptr ? nullptr : dlsym(library, "fovea_program");
  if (symbol == nullptr) {
    (void)std::fprintf(stderr, "Error: the program cannot be loaded: %s; build or install Fovea again\n", dlerror());
    return kUserError;
  }
  return end_at_once(reinterpret_cast<decltype(&fovea_program)>(symbol)(argc, argv));
}
