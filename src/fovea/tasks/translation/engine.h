#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fovea/models/engine_counts.h"
#include "fovea/models/translation/loaded_model.h"
#include "fovea/ops/prepacked_layer.h"
#include "fovea/tasks/translation/encoded_line.h"
#include "fovea/tasks/translation/engine_request.h"

// The way from texts to their translations, for commands, validation and the server. Sentences come and go: each joins
// the running ones between two steps of the decoder, and leaves as soon as it is done.
namespace fovea::translation {

using models::EngineCounts;
using models::EngineLimits;
using models::Ticket;

// The most tokens of the translation of a source of `source_tokens` tokens.
int64_t longest_translation(const ModelConfig& model, double max_length_factor, int64_t source_tokens);

// Used by one thread.
class TranslationEngine {
 public:
  struct Options {
    ops::PrepackedLayer::Format layers =
        ops::PrepackedLayer::Format::kExact;  // of the decoder's steps and the output layer
    EngineLimits limits = {};
    int64_t max_length = 1000;  // longer sources, in tokens, are cut
    bool owns_model = false;    // nobody else uses the model: its encoder is laid out for small passes
    // Sentences that are done wait for as many others, and the links of all are found together. None: each sentence is
    // linked when it is done.
    std::optional<models::BatchLimits> link_batch = {};
    const char* work = nullptr;  // a signal stops it, as "X stopped"; null: signals are the caller's business
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
  void clear();  // forgets all requests

  // Throws an Error that names the term's place if the vocabulary cannot write its target.
  void require_writable(const text::TermList& terms) const;

  EngineCounts counts() const;
  const LineLimit& limit() const;
  const LoadedModel& model() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace fovea::translation
