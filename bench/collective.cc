// Times the exchanges of an update of several processes, as JSON of process 0: seconds of a gather of 64 bytes of
// each, and of sums of float32 values. Usage: mpirun -n 4 collective
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "fovea/base/collective.h"
#include "fovea/base/error.h"

namespace {

// The median of some calls, which the processes begin together.
double seconds_of(fovea::Collective& team, int calls, const std::function<void()>& call) {
  std::vector<double> seconds;
  for (int i = 0; i < calls; ++i) {
    (void)team.gather("");
    const auto start = std::chrono::steady_clock::now();
    call();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

void measure(fovea::Collective& team) {
  constexpr size_t kRecord = 64;
  const std::string record(kRecord, 'x');
  const double gather = seconds_of(team, 200, [&] { (void)team.gather(record); });
  std::string sums;
  for (const size_t values : {size_t{1} << 10, size_t{1} << 16, size_t{1} << 20, size_t{1} << 22, size_t{1} << 24}) {
    std::vector<float> floats(values, 1.0F);
    const double seconds = seconds_of(team, values < (1U << 20) ? 100 : 9, [&] { team.sum(floats); });
    sums += std::string(sums.empty() ? "" : ", ") + "{\"values\": " + std::to_string(values) +
            ", \"seconds\": " + std::to_string(seconds) + "}";
  }
  if (team.rank() == 0)
    std::printf("{\"processes\": %d, \"gather\": %.7f, \"sums\": [%s]}\n", team.size(), gather, sums.c_str());
}

}  // namespace

int main() {
  try {
    fovea::Collective& team = fovea::launched();
    measure(team);
    team.finish();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "Error: %s\n", error.what());
    return 1;
  }
  return 0;
}
