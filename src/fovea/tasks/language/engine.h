#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/models/engine_counts.h"
#include "fovea/tasks/language/completion.h"
#include "fovea/tasks/language/load_model.h"

// Texts that a language model continues, which come and go: a server's. Each joins the running ones between two steps
// and leaves as soon as it is done. A text has the bytes that `fovea generate` gives it with the same rules and seed.
namespace fovea::language {

// Lets a text through part by part, up to the first of some stops. Text that may begin a stop is held back.
class StopTexts {
 public:
  explicit StopTexts(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // Returns the text that is certain now. Behind a stop there is none.
  std::string push(std::string_view text);
  // The text has ended: returns what was held back.
  std::string finish();
  bool has_stopped() const { return has_stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool has_stopped_ = false;
};

using models::EngineCounts;
using models::EngineLimits;
using models::Ticket;

// Used by one thread. Signals are the caller's business.
class CompletionEngine {
 public:
  struct Options {
    ops::PrepackedLayer::Format layers = ops::PrepackedLayer::Format::kExact;
    EngineLimits limits = {};
    std::string cache_precision = "model";  // see cache_type()
    int64_t prefix_bytes = 0;               // of the states of prompts, which later prompts that begin alike use
  };
  CompletionEngine(LoadedModel loaded, const Options& options);
  ~CompletionEngine();

  // The most units that fit the model behind a prompt, below 0 if the prompt itself does not; none: any number.
  std::optional<int64_t> longest(int64_t prompt_units) const;

  // Queues a request; the next step with room for it begins it. Throws an Error for options that are out of range, or
  // a text that is longer than the model's positions.
  Ticket add(CompletionRequest request);
  // Reads up to 256 units of each new prompt and computes the next unit of every other text, after waiting requests
  // have joined. Returns false if there was nothing to do. Throws an Error if the model's scores are not finite; all
  // requests are then gone.
  bool step();
  // The parts that are there since the last call, at most one of each request.
  std::vector<CompletionPart> take();
  // Forgets a request. A number that is done, or unknown, changes nothing.
  void cancel(Ticket ticket);

  EngineCounts counts() const;
  const LoadedModel& model() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace fovea::language
