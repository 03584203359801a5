#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "fovea/models/translation/loaded_model.h"

// The languages of models whose vocabularies have marks such as >>de<< (text/piece_order.h, --language-marks).
namespace fovea::translation {

// The codes of a source's and of a target's language, such as "de"; empty: not given.
struct LanguageChoice {
  std::string source = {}, target = {};
};

// The marks that a choice adds to the sides of a sentence.
struct LanguageMarks {
  std::string source = {}, target = {};     // before a line without a mark of its own; empty: nothing
  std::optional<int64_t> first_token = {};  // with which its translation begins; none: as the model chooses
};

// Whether the model has marks of both sides, each of its own language.
bool marks_both_sides(const LoadedModel& model);

// The model's codes of a choice, whose codes may be spelt otherwise (text/language_code.h, matching_codes()). Throws an
// Error that begins with "--source-lang" or "--target-lang" and lists the codes, if the model has no such language, or
// several, or no marks of this side.
LanguageChoice known_languages(const LoadedModel& model, const LanguageChoice& choice);

// The marks of a choice. Throws the Errors of known_languages().
LanguageMarks language_marks(const LoadedModel& model, const LanguageChoice& choice);

// Throws such an Error if the model has marks of both sides and a language is missing.
void require_languages(const LoadedModel& model, const LanguageChoice& choice);

enum class Side : uint8_t { kSource, kTarget };
// The line with its mark of `marks` before it, unless it is empty (base/empty_line.h) or begins with a mark. Throws an
// Error if it then has none, and the model has marks of both sides.
std::string marked_line(const LoadedModel& model, Side side, const LanguageMarks& marks, const std::string& line);

}  // namespace fovea::translation
