#include <torch/nn/module.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/stopwatch.h"
#include "fovea/base/strings.h"
#include "fovea/data/streams.h"
#include "fovea/inspect/cost.h"
#include "fovea/models/sampler.h"
#include "fovea/nn/index_tensor.h"
#include "fovea/nn/memory.h"
#include "fovea/ops/step.h"
#include "fovea/tasks/language/analyze/analyze.h"
#include "fovea/tasks/language/load_model.h"

// The cost of analyze.h.
namespace fovea::language {
namespace {

// Measures one model at one length. A model with memory reads its segments one by one, each with what it remembers.
class LengthSpeeds {
 public:
  LengthSpeeds(LoadedModel& loaded, const AnalyzeOptions& options, const data::TokenText& text, int64_t length)
      : loaded_(loaded),
        length_(length),
        memory_(loaded.config.memory_length),
        windows_(text, loaded.units.begin(), {.context = length, .stride = length}),
        segments_(std::max<int64_t>(1, std::min(options.cost_units, text.size()) / length)),
        batch_(memory_ > 0 ? 1 : options.mini_batch) {}

  inspect::LengthSpeedRecord measure(const std::string& spec) {
    train(std::min(segments_, batch_));  // plans and buffers of this length
    inspect::LengthSpeedRecord record{spec, length_, segments_};
    const Stopwatch training;
    train(segments_);
    record.training = static_cast<double>(segments_ * length_) / training.seconds();
    const models::SamplingRules rules{.choice = {.top_k = 1},
                                      .max_length = length_,
                                      .never = {loaded_.units.eos()},
                                      .cut = stream_cut(loaded_.config)};
    const models::Sampler sampler(loaded_.model, rules, ops::PrepackedLayer::Format::kExact);
    const models::Draft draft{{loaded_.units.begin()}};
    int64_t units = 0;
    const Stopwatch decoding;
    sampler.run({&draft, 1}, [&](size_t, int64_t) { ++units; });
    record.decoding = static_cast<double>(units) / decoding.seconds();
    return record;
  }

 private:
  // Forward and backward passes over the first `count` segments, without an update.
  void train(int64_t count) {
    nn::Memory memory = nn::Memory::none(1);
    for (int64_t first = 0; first < count; first += batch_) {
      throw_if_interrupted("measuring");
      std::vector<int64_t> inputs, outputs, offsets = {0};
      for (int64_t i = first; i < std::min(count, first + batch_); ++i) {
        const data::Window window = windows_.at(i);
        inputs.insert(inputs.end(), window.inputs.begin(), window.inputs.end());
        outputs.insert(outputs.end(), window.outputs.begin(), window.outputs.end());
        offsets.push_back(std::ssize(inputs));
      }
      nn::Model& model = loaded_.model;
      const at::Device device = model->output_weight().device();
      const auto pass = memory_ > 0 ? std::make_shared<nn::MemoryPass>(std::move(memory), memory_) : nullptr;
      const at::Tensor hidden = model->decode({.tokens = nn::index_tensor(std::move(inputs)).to(device),
                                               .offsets = nn::index_tensor(std::move(offsets)),
                                               .memory = pass},
                                              {.training = true, .dropout_seed = 1});
      if (pass) memory = pass->take();
      ops::cross_entropy(hidden, model->output_layer(), nn::index_tensor(std::move(outputs)).to(device), 0)
          .loss.backward();
      model->zero_grad();
    }
  }

  LoadedModel& loaded_;
  int64_t length_, memory_;
  data::ScoringWindows windows_;
  int64_t segments_, batch_;
};

void require_length(const LoadedModel& loaded, const data::TokenText& text, int64_t length) {
  if (text.size() < length)
    throw Error(cat("--train-sets: the text has ", thousands(text.size()), " units; --cost measures segments of ",
                    thousands(length), " units; give more text or shorter --lengths"));
  require_positions(loaded.config, length, "--lengths");
}

ModelConfig trained_config(const AnalyzeOptions& options) {
  AnalyzeOptions own = with_first_model(options);
  static_cast<AttentionOverride&>(own) = {};
  return load_model(own).model->config();
}

}  // namespace

int64_t analyze_cost(const AnalyzeOptions& options) {
  int64_t units = 0;
  const auto measure = [&](const AttentionOverride& mechanisms, const std::string& spec, inspect::CostSpeeds& speeds) {
    AnalyzeOptions own = with_first_model(options);
    static_cast<AttentionOverride&>(own) = mechanisms;
    LoadedModel loaded = load_model(own);
    data::TokenText text = read_text(options, loaded);
    text.documents = {0};  // segments of one length
    units = text.size();
    for (const int64_t length : options.lengths) require_length(loaded, text, length);
    log::Progress progress(cat(spec, ", lengths"), static_cast<double>(options.lengths.size()));
    int64_t done = 0;
    for (const int64_t length : options.lengths) {
      speeds.by_length.push_back(LengthSpeeds(loaded, options, text, length).measure(spec));
      progress.at(static_cast<double>(++done));
    }
    progress.finish();
  };
  inspect::write_costs(options, options, trained_config(options), measure);
  return units;
}

}  // namespace fovea::language
