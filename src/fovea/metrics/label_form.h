#pragma once
#include <string>
#include <string_view>

// The form of labels that say that a word belongs to a chunk, such as a name: "B-PER", "PER_I", "b-per" or "B".
namespace fovea::metrics {

// The letters with which labels mark the words of a chunk: B its first, I and M inner ones, E and L its last, and S, U
// and W a word that is a chunk of its own.
inline constexpr std::string_view kChunkLetters = "BIESLUMW";

struct LabelForm {
  std::string_view letters = kChunkLetters;  // capital letters that mark chunks; none: no label does
  bool has_types = true;                     // false: the letter is all of the label
  bool is_type_first = false;                // "PER-B"
  bool is_lower = false;                     // "b-per"
  bool is_outside_lower = false;             // words outside of chunks have the label "o"
  bool has_empty_types = true;               // "B-" is a label of a chunk, as conlleval has it
  char separator = '-';

  std::string_view outside() const { return is_outside_lower ? "o" : "O"; }
  bool marks_chunks() const { return !letters.empty(); }
  bool operator==(const LabelForm&) const = default;
};

// All labels but O are words of their own, such as parts of speech.
inline constexpr LabelForm kWordsAlone = {.letters = ""};
// The form in which Fovea read labels before checkpoints named one.
inline constexpr LabelForm kFirstForm = {.letters = "BIESLU", .has_empty_types = false};

// A label as its parts: "B-PER" is 'B' and "PER", "O" is 'O' and nothing. L counts as E, M as I, and U and W as S. A
// label that marks no chunk, such as "NNP", is 'W' and itself: a word that stands alone.
struct LabelParts {
  char prefix = 'O';
  std::string_view type = {};
  char letter = 'O';  // the label's own, as a capital
};
LabelParts parts_of_label(std::string_view label, const LabelForm& form = {});

// The label of a capital letter and a type.
std::string label_in_form(char letter, std::string_view type, const LabelForm& form = {});

// The form as an example: the first label of a chunk of the type TYPE, and the label O behind a blank if its case is
// not that of the letter. "B-TYPE", "TYPE_B", "b-TYPE O", "B".
std::string print_label_form(const LabelForm& form);
// Reads such an example; throws a UsageError that begins with `what` for anything else.
LabelForm parse_label_form(std::string_view text, std::string_view what);

// Whether the character may stand between a letter and a type.
bool separates_label_parts(char c);

}  // namespace fovea::metrics
