#include "fovea/base/shared_work.h"

#include <optional>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea {
namespace {

constexpr char kDone = 'd', kStopped = 's';  // the first byte of what a process tells the others

std::vector<std::string> one_process(int64_t count, const std::function<std::string(int64_t)>& work) {
  std::vector<std::string> results;
  for (int64_t piece = 0; piece < count; ++piece) results.push_back(work(piece));
  return results;
}

}  // namespace

std::vector<std::string> shared_work(Collective& team, int64_t count,
                                     const std::function<std::string(int64_t piece)>& work) {
  if (team.size() == 1) return one_process(count, work);
  std::vector<std::string> results;
  for (int64_t first = 0; first < count; first += team.size()) {
    const int64_t own = first + team.rank();
    std::string told(1, kDone);
    std::optional<Interrupted> stopped;
    try {
      if (own < count) told += work(own);
    } catch (const Interrupted& signal) {
      told = kStopped;
      stopped = signal;
    }
    const std::vector<std::string> all = team.gather(told);
    if (stopped) throw Interrupted(*stopped);
    for (const std::string& one : all)
      if (one.front() == kStopped) throw Interrupted("a signal stopped another process");
    for (const std::string& one : all)
      if (std::ssize(results) < count) results.push_back(one.substr(1));
  }
  return results;
}

void require_one_process(std::string_view what) {
  if (launched_processes() > 1)
    throw UsageError(
        cat(what, ": this process is one of ", launched_processes(),
            " that a launcher started; fovea train, translate, score and filter work in several; start one"));
}

}  // namespace fovea
