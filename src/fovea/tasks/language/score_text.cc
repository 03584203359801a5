#include "fovea/tasks/language/score_text.h"

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "fovea/base/shared_work.h"
#include "fovea/base/signals.h"
#include "fovea/models/whole_segments.h"
#include "fovea/nn/index_tensor.h"
#include "fovea/nn/memory.h"

namespace fovea::language {

// Windows behind each other, and of each the range of units that are scored.
struct ScoreText::Packed {
  std::vector<int64_t> inputs, outputs, offsets = {0};
  std::vector<int64_t> first_scored;

  void add(const data::Window& window) {
    first_scored.push_back(offsets.back() + window.first_scored);
    inputs.insert(inputs.end(), window.inputs.begin(), window.inputs.end());
    outputs.insert(outputs.end(), window.outputs.begin(), window.outputs.end());
    offsets.push_back(std::ssize(inputs));
  }
};

// Sums over the units in the order of the text.
class ScoreText::Tally {
 public:
  Tally(TextScore& score, const See& see) : score_(score), see_(see) {}
  void add(float nll, bool is_best) {
    score_.nll += nll;
    score_.correct += is_best ? 1 : 0;
    ++score_.tokens;
    if (see_) see_(-static_cast<double>(nll));
  }

 private:
  TextScore& score_;
  const See& see_;
};

models::TokenScorer ScoreText::scorer_of(Packed& packed, const std::shared_ptr<nn::MemoryPass>& memory) const {
  nn::Model model = model_;
  const at::Device device = model->output_weight().device();
  std::vector<int64_t> offsets = packed.offsets;
  const at::Tensor hidden = model->decode({.tokens = nn::index_tensor(std::move(packed.inputs)).to(device),
                                           .offsets = nn::index_tensor(std::move(offsets)),
                                           .memory = memory},
                                          {});
  return {model, hidden, nn::index_tensor(std::move(packed.outputs)).to(device)};
}

void ScoreText::run_windows(const data::ScoringWindows& windows, Tally& tally) const {
  const auto each_unit = [&](int64_t batch, const auto& use) {
    throw_if_interrupted("scoring");
    Packed packed;
    const int64_t first = batch * options_.mini_batch;
    for (int64_t i = first; i < std::min(first + options_.mini_batch, windows.size()); ++i) packed.add(windows.at(i));
    const models::TokenScorer scorer = scorer_of(packed, nullptr);
    for (size_t w = 0; w + 1 < packed.offsets.size(); ++w) {
      for (int64_t t = packed.first_scored[w]; t < packed.offsets[w + 1]; ++t) use(scorer.nll(t), scorer.is_best(t));
    }
  };
  const int64_t batches = (windows.size() + options_.mini_batch - 1) / options_.mini_batch;
  if (team_.size() == 1) {
    for (int64_t batch = 0; batch < batches; ++batch)
      each_unit(batch, [&](float nll, bool is_best) { tally.add(nll, is_best); });
    return;
  }
  constexpr size_t kUnit =
      sizeof(float) + 1;  // of a unit's score among the processes: nll, and whether it was the best
  const auto scored = [&](int64_t batch) {
    std::string units;
    each_unit(batch, [&](float nll, bool is_best) {
      units.append(reinterpret_cast<const char*>(&nll), sizeof nll);
      units += is_best ? '1' : '0';
    });
    return units;
  };
  for (const std::string& units : shared_work(team_, batches, scored)) {
    for (size_t at = 0; at < units.size(); at += kUnit) {
      float nll = 0;
      std::memcpy(&nll, units.data() + at, sizeof nll);
      tally.add(nll, units[at + sizeof nll] == '1');
    }
  }
}

// `mini_batch` documents are read side by side, and the next one begins when one ends.
void ScoreText::run_streams(const data::ScoringWindows& windows, Tally& tally) const {
  struct Reading {
    int64_t next, end;                              // windows
    std::vector<std::pair<float, bool>> done = {};  // units behind those of the tally
  };
  std::deque<Reading> documents;  // in their order; the first one's units go to the tally at once
  nn::Memory memory;              // of those with windows left
  for (int64_t document = 0; document < windows.num_documents() || !documents.empty();) {
    throw_if_interrupted("scoring");
    int64_t active = std::ranges::count_if(documents, [](const Reading& d) { return d.next < d.end; });
    for (; active < options_.mini_batch && document < windows.num_documents(); ++document, ++active) {
      documents.push_back({windows.first_of(document), windows.first_of(document + 1)});
      memory.lengths.push_back(0);
    }
    Packed packed;
    std::vector<Reading*> read;
    for (Reading& reading : documents) {
      if (reading.next == reading.end) continue;
      packed.add(windows.at(reading.next++));
      read.push_back(&reading);
    }
    const auto pass = std::make_shared<nn::MemoryPass>(std::move(memory), options_.memory);
    const models::TokenScorer scorer = scorer_of(packed, pass);
    std::vector<int64_t> goes_on;
    for (size_t i = 0; i < read.size(); ++i) {
      for (int64_t t = packed.offsets[i]; t < packed.offsets[i + 1]; ++t)
        read[i]->done.emplace_back(scorer.nll(t), scorer.is_best(t));
      if (read[i]->next < read[i]->end) goes_on.push_back(static_cast<int64_t>(i));
    }
    memory = pass->take().of(goes_on);
    while (!documents.empty()) {
      Reading& first = documents.front();
      for (const auto& [nll, is_best] : first.done) tally.add(nll, is_best);
      first.done.clear();
      if (first.next < first.end) break;
      documents.pop_front();
    }
  }
}

TextScore ScoreText::run(const data::TokenText& text, int64_t begin, const See& see) const {
  const at::NoGradGuard no_grad;
  models::warn_of_whole_segments(model_->config());
  const data::ScoringWindows windows(text, begin, {.context = options_.context, .stride = options_.stride});
  TextScore score{{}, text.bytes, text.words};
  Tally tally(score, see);
  options_.memory > 0 ? run_streams(windows, tally) : run_windows(windows, tally);
  return score;
}

}  // namespace fovea::language
