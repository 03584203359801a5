#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/models/engine_counts.h"
#include "fovea/search/sample.h"
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

struct CompletionRequest {
  std::vector<int64_t> prompt;  // units, as encode() gives them; may be empty
  search::SampleOptions choice = {};
  int64_t max_units = 16;              // units added to the prompt, at most; 0: only with scores_prompt
  uint64_t seed = 0;                   // models::draft_seed() makes those of `fovea generate`
  std::vector<std::string> stop = {};  // a text ends before the first of these
  bool allow_unk = false;
  // Log-probabilities come with each unit, and that many best alternatives with theirs; none: no log-probabilities.
  std::optional<int64_t> num_top = {};
  bool scores_prompt = false;  // they come with the prompt's units, too
};

// A unit that was chosen, or is the prompt's.
struct CompletionUnit {
  struct Choice {
    int64_t unit;
    float log_prob;  // by the model's own distribution, without the request's rules; 0 if it is not wanted
  };
  Choice chosen;
  std::vector<Choice> top = {};  // num_top best, by falling log-probability
};

enum class CompletionEnd : uint8_t { kStop, kLength };  // the text's own end or one of `stop`; or max_units

// The part that steps added to a request's text.
struct CompletionPart {
  Ticket ticket = 0;
  std::string text = {};                    // whole characters; text that may begin a stop waits until that is known
  std::vector<CompletionUnit> prompt = {};  // units that were read since the last part, if their scores are wanted
  std::vector<CompletionUnit> units = {};   // that were chosen since the last part; without the end
  std::optional<CompletionEnd> end = {};    // the last part of the request
};

// Used by one thread. Signals are the caller's business.
class CompletionEngine {
 public:
  struct Options {
    ops::PrepackedLayer::Format layers = ops::PrepackedLayer::Format::kExact;
    EngineLimits limits = {};
    std::string cache_precision = "model";  // see cache_type()
  };
  CompletionEngine(LoadedModel loaded, const Options& options);
  ~CompletionEngine();

  // The units of a prompt. Throws an Error for bytes that are not UTF-8 if the model reads pieces.
  std::vector<int64_t> encode(std::string_view prompt) const;
  std::string text_of(int64_t unit) const;  // of a unit alone; bytes that are no whole character stay as they are
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
