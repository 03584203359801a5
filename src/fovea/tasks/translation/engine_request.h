#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/analysis/alignment.h"
#include "fovea/models/batches.h"
#include "fovea/models/written_text.h"
#include "fovea/search/beam.h"
#include "fovea/tasks/translation/link_choice.h"
#include "fovea/text/terms.h"

// The requests and results of the engine that translates (engine.h), without libtorch.
namespace fovea::translation {

// One sentence, as a line of `fovea translate`: an empty one (base/empty_line.h) gives an empty translation.
struct EngineRequest {
  std::string text = {};
  // All tokens of the text, without </s>, from a caller that has them. The engine then reads `text` for the terms and
  // the links alone.
  std::optional<models::Sentence> tokens = {};
  // The vocabulary and its tokens are filled in. With ends_twice the text is a document, by its tokens, which has no
  // terms.
  search::BeamOptions beam = {};
  double max_length_factor = 3;                           // a translation has at most so many times the source's tokens
  bool allow_unk = false;                                 // or the translation has no unknown word
  std::string source_lang = {}, target_lang = {};         // by the codes of the model's marks; empty: none
  std::optional<LinkChoice> alignment = {};               // the links that translations come with; none by default
  std::shared_ptr<const text::TermList> terms = nullptr;  // that the translation says; null: none
};

struct Translation : models::WrittenText {
  models::Sentence tokens = {};  // without the end
  analysis::Links links = {};    // between words of the line and of `text`, if they were asked for
  bool is_cut = false;           // it reached the longest length, and its end was forced
};

struct EngineResult {
  std::vector<Translation> best;         // best first, at least one
  int64_t source_tokens = 0;             // that were read, </s> included
  int64_t cut_from = 0;                  // the source's length in tokens, if it was cut
  int64_t target_tokens = 0;             // of the best translation, </s> included
  bool has_terms = false;                // the translation was to say some
  std::vector<text::Term> missing = {};  // terms that the longest translation has no room for
};

}  // namespace fovea::translation
