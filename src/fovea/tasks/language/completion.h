#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fovea/models/engine_counts.h"
#include "fovea/search/sample.h"

// The requests and results of an engine that continues texts (engine.h), without libtorch.
namespace fovea::language {

struct CompletionRequest {
  std::vector<int64_t> prompt;  // units (text/units.h); may be empty
  bool has_begin = false;       // the prompt's first unit takes the place of the one that begins every text
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
  models::Ticket ticket = 0;
  std::string text = {};                    // whole characters; text that may begin a stop waits until that is known
  std::vector<CompletionUnit> prompt = {};  // units that were read since the last part, if their scores are wanted
  std::vector<CompletionUnit> units = {};   // that were chosen since the last part; without the end
  std::optional<CompletionEnd> end = {};    // the last part of the request
  int64_t kept = 0;                         // units of the prompt whose state was kept since an earlier one
};

}  // namespace fovea::language
