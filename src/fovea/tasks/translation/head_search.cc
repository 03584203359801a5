#include "fovea/tasks/translation/head_search.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fovea/base/strings.h"
#include "fovea/tasks/translation/alignment_report.h"

namespace fovea::translation {
namespace {

using analysis::AlignmentCounts;

std::string padded(const std::string& text, size_t width) {
  return text + std::string(width - std::min(width, text.size()), ' ');
}

std::string place_name(int64_t number) { return number == 0 ? "mean" : std::to_string(number); }

std::string columns_of(const AlignmentCounts& counts) {
  constexpr size_t kShareWidth = 11;
  return padded(share_text(counts.error_rate()), kShareWidth) + padded(share_text(counts.precision()), kShareWidth) +
         padded(share_text(counts.recall()), kShareWidth);
}

}  // namespace

HeadSearch::HeadSearch(int64_t layers, int64_t heads, bool soft)
    : layers_(layers), heads_(heads), soft_(soft), counts_(static_cast<size_t>(2 * (layers + 1) * (heads + 1))) {}

size_t HeadSearch::index(const Place& place) const {
  const int64_t shifted = place.shifted ? 1 : 0;
  return static_cast<size_t>((shifted * (layers_ + 1) + place.layer) * (heads_ + 1) + place.head);
}

std::vector<HeadSearch::Place> HeadSearch::places(bool shifted) const {
  std::vector<Place> all = {{0, 0, shifted}};
  for (int64_t layer = 1; layer <= layers_; ++layer) {
    for (int64_t head = 0; head <= heads_; ++head) all.push_back({layer, head, shifted});
  }
  return all;
}

void HeadSearch::add(const at::Tensor& weights, const WordPair& pair, const analysis::GoldLinks& gold) {
  for (const bool shifted : {false, true}) {
    for (const Place& place : places(shifted)) {
      counts_[index(place)].add(word_links(weights, pair, {place.layer, place.head, shifted, soft_}), gold);
    }
  }
}

const HeadSearch::Place* HeadSearch::best_of(const std::vector<Place>& places) const {
  const Place* best = nullptr;
  for (const Place& place : places) {
    const std::optional<double> rate = at(place).error_rate();
    if (rate && (best == nullptr || *rate < *at(*best).error_rate())) best = &place;
  }
  return best;
}

HeadSearch::Means HeadSearch::means(bool shifted) const {
  double of_layers = 0, of_heads = 0;
  for (int64_t layer = 1; layer <= layers_; ++layer) {
    std::vector<Place> heads;
    for (int64_t head = 1; head <= heads_; ++head) heads.push_back({layer, head, shifted});
    const std::optional<double> of_layer = at({layer, 0, shifted}).error_rate();
    const Place* best = best_of(heads);
    if (!of_layer || best == nullptr) return {};
    of_layers += *of_layer / static_cast<double>(layers_);
    of_heads += *at(*best).error_rate() / static_cast<double>(layers_);
  }
  return {of_layers, of_heads};
}

std::string HeadSearch::table(int64_t pairs) const {
  constexpr size_t kPlaceWidth = 7;
  std::string text = "layer  head   AER        precision  recall     shifted    precision  recall\n";
  for (const Place& place : places(false)) {
    text += padded(place_name(place.layer), kPlaceWidth) + padded(place_name(place.head), kPlaceWidth) +
            columns_of(at(place)) + columns_of(at({place.layer, place.head, true}));
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  for (const bool shifted : {false, true}) {
    const Means both = means(shifted);
    text +=
        cat(shifted ? "shifted" : "normal", ": AoL ", share_text(both.of_layers), " AoH ", share_text(both.of_heads));
    const std::vector<Place> all = places(shifted);
    if (const Place* best = best_of(all); best != nullptr) {
      text += cat(", best: layer ", place_name(best->layer), " head ", place_name(best->head), " ",
                  share_text(at(*best).error_rate()));
    }
    text += "\n";
  }
  const AlignmentCounts& any = counts_.front();
  return text + cat("AER of ", pairs, " pairs with ", any.sure(), " sure and ", any.possible(), " possible links\n");
}

std::string HeadSearch::json(int64_t pairs) const {
  using Json = nlohmann::ordered_json;
  const auto share = [](const std::optional<double>& value) { return value ? Json(*value) : nullptr; };
  Json object = {{"pairs", pairs},
                 {"sure", counts_.front().sure()},
                 {"possible", counts_.front().possible()},
                 {"records", Json::array()},
                 {"means", Json::array()}};
  for (const bool shifted : {false, true}) {
    for (const Place& place : places(shifted)) {
      const AlignmentCounts& counts = at(place);
      object["records"].push_back({{"kind", "cross"},
                                   {"layer", place.layer},
                                   {"head", place.head},
                                   {"shifted", shifted},
                                   {"aer", share(counts.error_rate())},
                                   {"precision", share(counts.precision())},
                                   {"recall", share(counts.recall())},
                                   {"links", counts.links()}});
    }
    const Means both = means(shifted);
    object["means"].push_back(
        {{"shifted", shifted}, {"layers", share(both.of_layers)}, {"heads", share(both.of_heads)}});
  }
  return object.dump();
}

}  // namespace fovea::translation
