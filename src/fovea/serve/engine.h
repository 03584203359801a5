#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fovea/analysis/sharpest_head.h"
#include "fovea/models/batches.h"
#include "fovea/models/engine_counts.h"
#include "fovea/tasks/language/completion.h"
#include "fovea/tasks/translation/engine_request.h"
#include "fovea/text/units.h"

// A model as the server sees it, without libtorch: the server and its tests build without it. model_engines.h has the
// engines of trained models.
namespace fovea::serve {

using models::EngineCounts;
using models::Ticket;

// Cross-attention between the pieces of a sentence and of its translation.
struct AttentionMap {
  std::vector<std::string> source, target;             // pieces, </s> last
  std::vector<float> weights;                          // [target, source], the mean of all layers and heads
  std::vector<std::vector<std::vector<float>>> heads;  // of each layer and head, [target, source]
  analysis::HeadPlace sharpest;                        // of them
};

// A sentence to translate, and its translation.
struct SentenceInput {
  translation::EngineRequest request;
  bool wants_attention = false;
};
struct SentenceOutput {
  translation::EngineResult result;
  AttentionMap attention;  // if it was wanted
};

// A part of a request, as an engine takes it, and what the engine makes of it. An engine takes one kind alone. A text
// to continue gives an output for each step, the last one with its end.
using PartInput = std::variant<SentenceInput, language::CompletionRequest>;
using PartOutput = std::variant<SentenceOutput, language::CompletionPart>;

struct EngineOutput {
  Ticket ticket = 0;
  PartOutput value;
};

// The text side of a model that translates. For any thread.
class SentenceReader {
 public:
  virtual ~SentenceReader() = default;
  // The codes of the languages between which the model translates, if it has marks of both sides; else none.
  virtual std::vector<std::string> languages() const = 0;
  // Tokens of a sentence in the language `source`, which only a model with languages() reads, without </s>. An empty
  // line (base/empty_line.h) has none.
  virtual models::Sentence tokens(const std::string& sentence, const std::string& source) const = 0;
  virtual int64_t count_unknown(const models::Sentence& tokens) const = 0;  // tokens of text that the vocabulary lacks
  // The mark of the wanted language at the beginning of a text; empty without one.
  virtual std::string_view language_mark(std::string_view text) const = 0;
  virtual int64_t longest_sentence() const = 0;  // in tokens, </s> not included
  // In bytes: longer text has more tokens than a sentence may have, or the vocabulary does not know it.
  virtual int64_t longest_sentence_bytes() const = 0;
};

// The text side of a model that continues texts. For any thread.
class UnitReader {
 public:
  virtual ~UnitReader() = default;
  virtual const text::Units& units() const = 0;
  // The most units that fit the model behind a prompt, below 0 if the prompt itself does not; none: any number.
  virtual std::optional<int64_t> longest(int64_t prompt_units) const = 0;
  virtual bool ends_texts() const = 0;  // the model itself may end a text
};

// Computes the parts of requests step by step. Parts come and go between two steps. For one thread; the readers are for
// any.
class Engine {
 public:
  virtual ~Engine() = default;
  // One of the two; the other is null.
  virtual const SentenceReader* sentences() const = 0;
  virtual const UnitReader* texts() const = 0;

  // Queues a part, which the next step begins. Throws an Error for options that are out of range.
  virtual Ticket add(PartInput input) = 0;
  // Returns false if there was nothing to compute. If it throws, all parts are gone.
  virtual bool step() = 0;
  virtual std::vector<EngineOutput> take() = 0;  // since the last call
  virtual void cancel(Ticket ticket) = 0;        // a number that is done, or unknown, changes nothing
  virtual EngineCounts counts() const = 0;
};

}  // namespace fovea::serve
