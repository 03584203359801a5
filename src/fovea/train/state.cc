#include "fovea/train/state.h"

#include <charconv>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_files.h"

namespace fovea::train {
namespace {

constexpr std::string_view kBest = nn::kBestEntry, kBestUpdates = nn::kBestUpdatesEntry, kStalled = "stalled.";
constexpr const char* kLearnRate = "learn-rate";

class StateReader {
 public:
  StateReader(const std::map<std::string, std::string>& map, const std::string& origin) : map_(map), origin_(origin) {}

  const std::string& text(const std::string& key) const {
    const auto found = map_.find(key);
    if (found == map_.end()) throw Error(cat(origin_, ": no '", key, "'"));
    return found->second;
  }

  template <class T>
  void number(const std::string& key, T& out) const {
    const std::string& value = text(key);
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out);
    if (error != std::errc() || end != value.data() + value.size())
      throw Error(cat(origin_, ": ", key, ": got '", value, "'; expected a number"));
  }

 private:
  const std::map<std::string, std::string>& map_;
  const std::string& origin_;
};

}  // namespace

std::map<std::string, std::string> to_map(const TrainState& state) {
  std::map<std::string, std::string> map = {{nn::kUpdatesEntry, std::to_string(state.updates)},
                                            {"epoch", std::to_string(state.epoch)},
                                            {"batch", std::to_string(state.batch)},
                                            {"skipped", std::to_string(state.skipped)},
                                            {"skipped-in-a-row", std::to_string(state.skipped_in_a_row)},
                                            {"validated", std::to_string(state.validated)},
                                            {"seconds", shortest(state.seconds)},
                                            {"data", state.data},
                                            {"valid-data", state.valid_data}};
  if (state.learn_rate) map[kLearnRate] = shortest(*state.learn_rate);
  for (const auto& [metric, best] : state.best) {
    if (best.value) map[cat(kBest, metric)] = shortest(*best.value);
    map[cat(kBestUpdates, metric)] = std::to_string(best.updates);
    map[cat(kStalled, metric)] = std::to_string(best.stalled);
  }
  return map;
}

TrainState from_map(const std::map<std::string, std::string>& map, const std::string& origin) {
  const StateReader reader(map, origin);
  TrainState state;
  reader.number(nn::kUpdatesEntry, state.updates);
  reader.number("epoch", state.epoch);
  reader.number("batch", state.batch);
  reader.number("skipped", state.skipped);
  reader.number("skipped-in-a-row", state.skipped_in_a_row);
  reader.number("validated", state.validated);
  reader.number("seconds", state.seconds);
  if (map.contains(kLearnRate)) reader.number(kLearnRate, state.learn_rate.emplace());
  state.data = reader.text("data");
  state.valid_data = reader.text("valid-data");
  for (const auto& [key, value] : map) {
    if (!key.starts_with(kStalled)) continue;
    const std::string metric = key.substr(kStalled.size());
    BestValue& best = state.best[metric];
    reader.number(key, best.stalled);
    reader.number(cat(kBestUpdates, metric), best.updates);
    if (map.contains(cat(kBest, metric))) reader.number(cat(kBest, metric), best.value.emplace());
  }
  return state;
}

}  // namespace fovea::train
