#pragma once
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Chunks of words, such as names, and their labels: "B-PER", "I-PER", "O". Dialects differ in the letters of a chunk's
// words.
namespace fovea::metrics {

// The letters with which labels mark the words of a chunk: B its first, I and M inner ones, E and L its last, and S, U
// and W a word that is a chunk of its own.
inline constexpr std::string_view kChunkLetters = "BIESLUMW";

// The form of labels that say that a word belongs to a chunk, such as a name: "B-PER", "PER_I", "b-per" or "B".
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

// Words [begin, end) of a sentence that have one type.
struct Chunk {
  int64_t begin = 0, end = 0;
  std::string type;
  bool is_word = false;  // of a label that marks no chunk
  auto operator<=>(const Chunk&) const = default;
};

// The chunks of a sentence's labels by the rules of conlleval: a chunk begins at B and S, at another type, and at I or
// E behind O, E or S. Labels of all dialects can be read.
std::vector<Chunk> chunks_of(std::span<const std::string> labels, const LabelForm& form = {});

// kWords: labels mark no chunks.
enum class LabelDialect : uint8_t {
  kIob1,
  kIob2,
  kIobes,
  kBilou,
  kIoe1,
  kIoe2,
  kIo,
  kBios,
  kBieo,
  kBmes,
  kBmewo,
  kBieou,
  kBiewo,
  kWords
};
// "auto" and the names of the dialects.
inline constexpr std::string_view kLabelDialectChoices =
    "auto|iob1|iob2|iobes|bilou|ioe1|ioe2|io|bios|bieo|bmes|bmewo|bieou|biewo|words";
inline constexpr std::string_view kLabelDialectNames = kLabelDialectChoices.substr(5);

// The dialects that mark chunks. If several fit, the first is the likeliest.
std::span<const LabelDialect> chunk_dialects();

// Whether the words before and behind a chunk are of chunks of its type.
struct ChunkTouch {
  bool before = false, behind = false;
};
ChunkTouch touch_of(std::span<const Chunk> chunks, size_t place);

// The letter that a dialect gives a word of a chunk.
char letter_of_word(const Chunk& chunk, int64_t word, LabelDialect dialect, ChunkTouch touch);

// The notation in which a data set writes labels.
struct LabelNotation {
  LabelDialect dialect = LabelDialect::kIob2;
  LabelForm form = {};
};

// The labels of `words` words with these chunks, which do not overlap and are in order. In kIo, chunks of a type that
// touch become one.
std::vector<std::string> labels_of(std::span<const Chunk> chunks, int64_t words, const LabelNotation& notation);

}  // namespace fovea::metrics
