#include "fovea/train/state.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <type_traits>

#include "fovea/base/error.h"
#include "fovea/base/numbers.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/nn/former_best.h"

namespace fovea::train {
namespace {

constexpr int64_t kHighWindows = 3;
constexpr double kShareAbove = 0.5, kLeastAbove = 0.5;  // of the mean; nats
constexpr double kNewest = 0.2;                         // weight of the newest window in the mean

constexpr std::string_view kBest = nn::kBestEntry, kBestUpdates = nn::kBestUpdatesEntry, kStalled = "stalled.";
constexpr const char* kLearnRate = "learn-rate";
constexpr const char *kRollBacks = "roll-backs", *kWatch = "watch.";
// Far beyond what a run reaches, and far from what an int64_t overflows at. A checkpoint's name has room for as many
// updates.
constexpr int64_t kMostUpdates = 1'000'000'000'000'000;
constexpr double kMostSeconds = 1e10;  // three centuries
constexpr double kMostRate = 1e3;      // as --learn-rate has it
constexpr double kMostCost = 1e300;
constexpr int64_t kMostRollBacks = 1000;  // as --max-rollbacks has it

class StateReader {
 public:
  StateReader(const std::map<std::string, std::string>& map, const std::string& origin) : map_(map), origin_(origin) {}

  const std::string& text(const std::string& key) const {
    const auto found = map_.find(key);
    if (found == map_.end()) throw Error(cat(origin_, ": no '", key, "'"));
    return found->second;
  }

  // A finite number within [low, high].
  template <class T>
  void number(const std::string& key, T& out, std::type_identity_t<T> low = std::numeric_limits<T>::lowest(),
              std::type_identity_t<T> high = std::numeric_limits<T>::max()) const {
    const std::string& value = text(key);
    const std::optional<T> number = number_in<T>(value, low, high);
    if (!number) {
      constexpr const char* kKind = std::is_integral_v<T> ? "a whole number" : "a number";
      throw Error(cat(origin_, ": ", key, ": got '", value, "'; expected ", kKind, " from ", low, " to ", high));
    }
    out = *number;
  }
  // Whole numbers apart by blanks.
  void counts(const std::string& key, std::vector<int64_t>& out, int64_t most) const {
    for (const std::string& word : split_words(text(key))) {
      const std::optional<int64_t> number = number_in<int64_t>(word, 0, most);
      if (!number) throw Error(cat(origin_, ": ", key, ": got '", word, "'; expected whole numbers from 0 to ", most));
      out.push_back(*number);
    }
  }
  void count(const std::string& key, int64_t& out, int64_t most) const { number(key, out, 0, most); }

 private:
  const std::map<std::string, std::string>& map_;
  const std::string& origin_;
};

void add_to_map(const CostWatch& watch, std::map<std::string, std::string>& map) {
  if (watch == CostWatch()) return;
  map[cat(kWatch, "cost")] = shortest(watch.cost);
  map[cat(kWatch, "weight")] = shortest(watch.weight);
  map[cat(kWatch, "mean")] = shortest(watch.mean);
  map[cat(kWatch, "windows")] = std::to_string(watch.windows);
  map[cat(kWatch, "high")] = std::to_string(watch.high);
  map[cat(kWatch, "sound")] = std::to_string(watch.sound);
}

CostWatch watch_from(const StateReader& reader) {
  CostWatch watch;
  reader.number(cat(kWatch, "cost"), watch.cost, -kMostCost, kMostCost);
  reader.number(cat(kWatch, "weight"), watch.weight, 0, kMostCost);
  reader.number(cat(kWatch, "mean"), watch.mean, -kMostCost, kMostCost);
  reader.count(cat(kWatch, "windows"), watch.windows, kMostUpdates);
  reader.count(cat(kWatch, "high"), watch.high, kMostUpdates);
  reader.count(cat(kWatch, "sound"), watch.sound, kMostUpdates);
  return watch;
}

}  // namespace

void CostWatch::end_window(int64_t updates) {
  if (weight <= 0) return;
  const double value = cost / weight;
  cost = weight = 0;
  if (windows > 0 && value > mean + std::max(kShareAbove * mean, kLeastAbove)) {
    ++high;
    return;
  }
  high = 0;
  sound = updates;
  mean = windows == 0 ? value : mean + kNewest * (value - mean);
  ++windows;
}

bool CostWatch::has_diverged() const { return high >= kHighWindows; }

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
  if (state.roll_backs > 0) map[kRollBacks] = std::to_string(state.roll_backs);
  add_to_map(state.watch, map);
  if (state.learn_rate) map[kLearnRate] = shortest(*state.learn_rate);
  for (const auto& [metric, best] : state.best) {
    if (best.value) map[cat(kBest, metric)] = shortest(*best.value);
    map[cat(kBestUpdates, metric)] = std::to_string(best.updates);
    map[cat(kStalled, metric)] = std::to_string(best.stalled);
  }
  if (!state.former_best.empty()) {
    std::vector<std::string> updates;
    for (const int64_t best : state.former_best) updates.push_back(std::to_string(best));
    map[nn::kFormerBestEntry] = join(updates, " ");
  }
  return map;
}

TrainState from_map(const std::map<std::string, std::string>& map, const std::string& origin) {
  const StateReader reader(map, origin);
  TrainState state;
  reader.count(nn::kUpdatesEntry, state.updates, kMostUpdates);
  reader.count("skipped", state.skipped, kMostUpdates);
  reader.count("skipped-in-a-row", state.skipped_in_a_row, state.skipped);
  // An epoch has a batch at least, which makes an update or is skipped.
  reader.number("epoch", state.epoch, 1, 1 + state.updates + state.skipped);
  reader.count("batch", state.batch, kMostUpdates);
  reader.count("validated", state.validated, state.updates);
  reader.number("seconds", state.seconds, 0, kMostSeconds);
  if (map.contains(kRollBacks)) reader.count(kRollBacks, state.roll_backs, kMostRollBacks);
  if (map.contains(cat(kWatch, "cost"))) state.watch = watch_from(reader);
  if (map.contains(kLearnRate)) reader.number(kLearnRate, state.learn_rate.emplace(), 0, kMostRate);
  if (map.contains(nn::kFormerBestEntry)) reader.counts(nn::kFormerBestEntry, state.former_best, kMostUpdates);
  state.data = reader.text("data");
  state.valid_data = reader.text("valid-data");
  for (const auto& [key, value] : map) {
    for (const std::string_view prefix : {kBest, kBestUpdates, kStalled}) {
      if (key.starts_with(prefix)) state.best.try_emplace(key.substr(prefix.size()));
    }
  }
  for (auto& [metric, best] : state.best) {
    reader.count(cat(kBestUpdates, metric), best.updates, state.updates);
    reader.count(cat(kStalled, metric), best.stalled, state.updates);
    if (map.contains(cat(kBest, metric))) reader.number(cat(kBest, metric), best.value.emplace());
  }
  return state;
}

}  // namespace fovea::train
