#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "fovea/kernels/layer/top_n.h"
#include "fovea/models/engine_counts.h"
#include "fovea/models/prefix_cache.h"
#include "fovea/models/search_model.h"
#include "fovea/nn/stepper.h"
#include "fovea/search/sample.h"

// Sampling with a decoder, whose texts come and go between steps. For c10::InferenceMode.
namespace fovea::models {

// One text to make, by rules of its own.
struct SampleRequest {
  Ticket ticket = 0;            // unlike any other's
  std::vector<int64_t> prompt;  // begins with the unit that begins every text
  search::SampleOptions choice = {};
  int64_t max_length = 1;               // units added to the prompt; 0: only scores_prompt, of at least 2 units
  std::vector<int64_t> never = {};      // units that are not chosen, as if their probability were 0
  uint64_t seed = 0;                    // of the choices
  std::optional<int64_t> num_top = {};  // log-probabilities are wanted: the chosen unit's, and of so many best units
  bool scores_prompt = false;           // they are wanted of the prompt's units behind the first, too
};

class SampleEngine {
 public:
  // The way in which a model makes texts.
  struct Texts {
    std::vector<int64_t> ends = {};  // the units that end a text
    nn::StreamCut cut = {};          // how the model reads a text
    nn::CacheType cache = nn::CacheType::kModel;
    int64_t prefix_bytes = 0;  // kept of prompts, for later ones that begin alike
  };
  // `model` must live longer.
  SampleEngine(const SearchModel& model, const EngineLimits& limits, const Texts& texts)
      : model_(model), limits_(limits), texts_(texts), prefixes_(texts.prefix_bytes) {}

  void add(SampleRequest request) { waiting_.push_back(std::move(request)); }
  // Waiting texts join as far as the limits let them; those of a model with routed heads when all others are done. Then
  // reads the next piece of each new prompt, and chooses the next unit of every other text. Returns false if there was
  // nothing to do. If it throws, all requests are gone.
  bool step();

  enum class End : uint8_t {
    kNone,
    kLast,
    kLength
  };  // the text goes on; it chose one of `ends`; it has max_length units
  struct Chosen {
    Ticket ticket;
    int64_t unit;
    End end = End::kNone;
    bool is_given = false;                     // a unit of the prompt; those come before what was chosen behind them
    float log_prob = 0;                        // by the model alone, if it is wanted
    std::vector<kernels::Candidate> top = {};  // the num_top best
    int64_t kept = 0;  // of the first unit behind a prompt: units of the prompt whose state was kept
  };
  // The units that were chosen since the last call, in their order.
  std::vector<Chosen> take() { return std::exchange(chosen_, {}); }
  void cancel(Ticket ticket);
  EngineCounts counts() const;

 private:
  struct Row {
    SampleRequest request;
    int64_t read = 0, made = 0;  // units of the prompt, and behind it
    int64_t last_made = 0;
    int64_t kept = 0;    // units of the prompt that were not computed again
    bool is_new = true;  // the model's state does not have the row
    bool is_gone = false;
    // Nothing follows the prompt's last unit if no unit is wanted behind it.
    int64_t to_read() const { return std::ssize(request.prompt) - (request.max_length == 0 ? 1 : 0); }
    bool reads_prompt() const { return read < to_read(); }
  };
  // The hidden states of the units that a step read.
  struct Read {
    at::Tensor hidden;             // [units, M]
    std::vector<int64_t> offsets;  // of each row's units, [rows + 1]
  };
  void join();
  // The tokens of a text that the limits count, as many as the next step reads. A text counts its prompt while it is
  // read, in pieces, and one token for each step behind it.
  int64_t step_tokens(const Row& row) const;
  int64_t longest_piece() const;
  void compute();
  void match_state();
  // Rows from `first` on, which are new, begin behind the pieces of their prompts that are kept.
  void paste_prefixes(size_t first);
  // Keeps the pieces that the step read.
  void keep_prefixes(const Read& read);
  Read read_next();
  void score_prompts(const Read& read);
  void score_prompt(Row& row, const at::Tensor& hidden, int64_t first);
  void choose(const Read& read);
  Chosen choose_unit(Row& row, float* logits, int64_t vocabulary) const;

  const SearchModel& model_;
  EngineLimits limits_;
  Texts texts_;
  std::deque<SampleRequest> waiting_;
  std::vector<Row> rows_;               // in the order of their tickets; those of the state, then new ones
  std::shared_ptr<nn::Stepper> state_;  // null: no text runs
  // A route that is not causal depends on the units that are read together, so its model reads prompts whole. The first
  // state tells; prompts count whole until then.
  bool reads_whole_ = true;
  std::vector<Chosen> chosen_;
  PrefixCache prefixes_;
};

}  // namespace fovea::models
