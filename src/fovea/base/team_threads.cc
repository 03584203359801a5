#include "fovea/base/team_threads.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

namespace fovea {
namespace {

// The processors that this process may use, and how many the host has.
struct Processors {
  int64_t own = 1, all = 1;
};

Processors processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const auto all = std::max<int64_t>(1, std::thread::hardware_concurrency());
  return {sched_getaffinity(0, sizeof set, &set) == 0 ? std::max<int64_t>(1, CPU_COUNT(&set)) : all,
          std::max<int64_t>(all, sysconf(_SC_NPROCESSORS_ONLN))};
}

}  // namespace

int64_t threads_in_team(Collective& team, int64_t given) {
  if (team.size() == 1) return given;
  const std::vector<std::string> hosts = team.gather(team.host());
  if (given != 0) return given;
  const int64_t here = std::ranges::count(hosts, team.host());
  const Processors found = processors();
  // A launcher that binds each process to processors of its own has shared them out already.
  return found.own < found.all ? found.own : std::max<int64_t>(1, found.all / here);
}

}  // namespace fovea
