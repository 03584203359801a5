#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fovea/models/engine_counts.h"
#include "fovea/models/translation/loaded_model.h"
#include "fovea/tasks/translation/translator.h"
#include "fovea/text/terms.h"

// Translation of sentences that come and go: a server's. Each sentence joins the running ones between two steps of the
// decoder, and leaves as soon as it is done. Its translation has the bytes that `fovea translate` gives the sentence.
namespace fovea::translation {

using models::EngineCounts;
using models::EngineLimits;
using models::Ticket;

// One sentence, as a line of `fovea translate`: an empty one (base/empty_line.h) gives an empty translation.
struct EngineRequest {
  std::string text;
  // All tokens of the text, without </s>, from a caller that has them.
  std::optional<Sentence> tokens = {};
  search::BeamOptions beam = {};  // beam_size, normalize, penalty and num_best; the other members are filled in
  double max_length_factor = 3;   // a translation has at most so many times the source's tokens
  bool allow_unk = false;         // or the translation has no unknown word
  std::optional<LinkChoice> alignment = {};  // the links that translations come with; none by default
  // The words that the translation must say; null: none. Not with ends_twice.
  std::shared_ptr<const text::TermList> terms = nullptr;
};

struct EngineTranslation : Translation {
  std::vector<std::string> pieces = {};  // of the translation, as the vocabulary has them
  std::vector<float> log_probs = {};     // of each piece and of the end: one more than pieces
  bool is_cut = false;                   // it reached the longest length, and its end was forced
};

struct EngineResult {
  std::vector<EngineTranslation> best;   // best first, at least one
  int64_t source_tokens = 0;             // that were read, </s> included
  int64_t cut_from = 0;                  // the source's length in tokens, if it was cut
  int64_t target_tokens = 0;             // of the best translation, </s> included
  std::vector<text::Term> missing = {};  // terms that the longest translation has no room for
};

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
