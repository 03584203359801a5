#pragma once
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "fovea/models/engine_counts.h"
#include "fovea/models/translation/loaded_model.h"
#include "fovea/tasks/translation/engine_request.h"
#include "fovea/tasks/translation/translator.h"

// Translation of sentences that come and go: a server's. Each sentence joins the running ones between two steps of the
// decoder, and leaves as soon as it is done. Its translation has the bytes that `fovea translate` gives the sentence.
namespace fovea::translation {

using models::EngineCounts;
using models::EngineLimits;
using models::Ticket;

// Used by one thread. Signals are the caller's business.
class TranslationEngine {
 public:
  struct Options {
    ops::PrepackedLayer::Format layers =
        ops::PrepackedLayer::Format::kExact;  // of the decoder's steps and the output layer
    EngineLimits limits = {};
    int64_t max_length = 1000;  // longer sources, in tokens, are cut
  };
  TranslationEngine(LoadedModel loaded, const Options& options);
  ~TranslationEngine();

  // Queues a sentence; the next step with room for it begins it. Throws an Error for options that are out of range or
  // an alignment that the model does not have.
  Ticket add(EngineRequest request);
  // Computes the next token of every running hypothesis, after waiting sentences have joined. Returns false if there
  // was nothing to do. Throws an Error if the model's scores are not finite; all requests are then gone.
  bool step();
  // The results that are there since the last call, in the order in which they were done.
  std::vector<std::pair<Ticket, EngineResult>> take();
  // Forgets a request and its rows. A number that is done, or unknown, changes nothing.
  void cancel(Ticket ticket);

  EngineCounts counts() const;
  const LineLimit& limit() const;
  const LoadedModel& model() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace fovea::translation
