#pragma once
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "fovea/models/engine_counts.h"
#include "fovea/models/search_model.h"
#include "fovea/nn/stepper.h"
#include "fovea/search/beam.h"

// Beam search with a model of both sides, whose sentences come and go between steps. For c10::InferenceMode.
namespace fovea::models {

// A source and the search for what is written for it; the vocabulary is filled in.
struct BeamRequest {
  Ticket ticket = 0;  // unlike any other's
  at::Tensor source;  // on the CPU: tokens [T] int64, which end with </s>, or vectors [T, F]
  search::BeamSentence search;
};

class BeamEngine {
 public:
  // `model` must live longer. All searches end with `eos`.
  BeamEngine(SearchModel& model, const EngineLimits& limits, int64_t eos) : model_(model), limits_(limits), eos_(eos) {}

  void add(BeamRequest request) { waiting_.push_back(std::move(request)); }
  // Waiting sentences join as far as the limits let them; beside many running ones, several join together: after one
  // step at most, or when there is room for them. Those of a model with routed heads join when all others are done.
  // Then computes the next token of every hypothesis. Returns false if there was nothing to do. If it throws, all
  // requests are gone.
  bool step();
  struct Done {
    Ticket ticket;
    std::vector<search::Hypothesis> best;  // best first, at least one
  };
  std::vector<Done> take() { return std::exchange(done_, {}); }
  void cancel(Ticket ticket);
  void clear();  // forgets all requests
  bool is_idle() const { return running_.empty() && waiting_.empty(); }
  EngineCounts counts() const;

 private:
  struct Running {
    Ticket ticket;
    int64_t rows, tokens;  // at most, and of the source
  };
  std::vector<BeamRequest> joining();
  int64_t count_fitting() const;
  bool should_gather(int64_t fitting);
  nn::OtherSide encode(const std::vector<BeamRequest>& requests);
  void compute(std::vector<BeamRequest> joined);
  void lend_rows(const std::vector<BeamRequest>& joined);

  SearchModel& model_;
  EngineLimits limits_;
  int64_t eos_;
  std::deque<BeamRequest> waiting_;
  search::BeamSearch search_;
  std::map<int64_t, Running> running_;  // by the number of the sentence in the search
  int64_t rows_computed_ = 0, gathered_steps_ = 0;
  std::shared_ptr<nn::Stepper> state_;  // null: no sentence runs
  std::vector<Done> done_;
};

}  // namespace fovea::models
