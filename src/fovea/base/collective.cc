#include "fovea/base/collective.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "fovea/base/error.h"
#include "fovea/base/log.h"
#include "fovea/base/numbers.h"
#include "fovea/base/strings.h"

namespace fovea {
namespace {

class Alone : public Collective {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string host() const override {
    std::array<char, HOST_NAME_MAX + 1> name{};
    return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
  }
  void sum(std::span<float> /*values*/) override {}
  std::vector<std::string> gather(std::string_view bytes) override { return {std::string(bytes)}; }
  void broadcast(std::span<std::byte> /*bytes*/) override {}
  void finish() override {}
};

// The variables of Open MPI, of launchers that speak PMI (MPICH, Intel MPI), and of srun. Inside a job script without
// srun, SLURM sets the number of tasks too, but not that of the step.
struct Launcher {
  const char *size, *rank;
};
constexpr std::array kLaunchers = {Launcher{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                   Launcher{"PMI_SIZE", "PMI_RANK"}, Launcher{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}};

std::optional<int> number_of(const char* variable, int least) {
  const char* text = std::getenv(variable);
  return text == nullptr ? std::nullopt : number_in<int>(text, least, INT_MAX);
}

const Launcher* launcher() {
  for (const Launcher& each : kLaunchers)
    if (number_of(each.size, 1) && number_of(each.rank, 0)) return &each;
  return nullptr;
}

// The log's level in all processes but the first leaves out warnings.
void say(const char* line) {
  if (launched_rank() == 0) return log::warn(line);
  (void)std::fprintf(stderr, "Warning: process %d %s\n", launched_rank(), line);
}

// Seconds after which processes that wait name the one that does not come.
double patience() {
  constexpr const char* kVariable = "FOVEA_MPI_PATIENCE";
  constexpr double kUsual = 60, kMost = 1e9;
  const char* const given = std::getenv(kVariable);
  if (given == nullptr) return kUsual;
  const std::optional<double> seconds = number_in<double>(given, 0, kMost);
  if (!seconds) throw UsageError(cat(kVariable, ": got '", given, "'; expected seconds"));
  return *seconds;
}

Collective& load() {
  const std::string which = cat("this process is one of ", launched_processes(), " that a launcher started");
  void* const library = dlopen("libfovea_mpi.so", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr)
    throw UsageError(cat(which, ", and this build cannot use MPI (", dlerror(),
                         "); build it by ./fovea.sh build --mpi, or start one process"));
  void* const start = dlsym(library, "fovea_mpi");
  void* const set_patience = dlsym(library, "fovea_mpi_patience");
  if (start == nullptr || set_patience == nullptr)
    throw UsageError(cat(which, ", and lib/libfovea_mpi.so is of another Fovea; build it again"));
  reinterpret_cast<void (*)(double, void (*)(const char*))>(set_patience)(patience(), say);
  Collective& processes = *reinterpret_cast<Collective* (*)()>(start)();
  if (processes.size() != launched_processes())
    throw UsageError(cat(which, ", but the MPI of this build sees ", processes.size(),
                         "; start it by the mpirun of the MPI that it was built with"));
  return processes;
}

}  // namespace

Collective& alone() {
  static Alone one;
  return one;
}

int launched_processes() {
  const Launcher* found = launcher();
  return found == nullptr ? 1 : *number_of(found->size, 1);
}

int launched_rank() {
  const Launcher* found = launcher();
  return found == nullptr ? 0 : *number_of(found->rank, 0);
}

Collective& launched() {
  if (launched_processes() == 1) return alone();
  static Collective& processes = load();
  return processes;
}

}  // namespace fovea
