#pragma once
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/metrics/label_form.h"

// Chunks of words, such as names, and their labels: "B-PER", "I-PER", "O". Dialects differ in the letters of a chunk's
// words.
namespace fovea::metrics {

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
