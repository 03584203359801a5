#include "fovea/metrics/chunks.h"

#include <array>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::metrics {
namespace {

constexpr std::string_view kTypeExample = "TYPE";

char capital(char letter) { return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter; }

// The canonical letter: letters that mean the same are one.
char meaning_of(char letter) {
  switch (letter) {
    case 'L':
      return 'E';
    case 'M':
      return 'I';
    case 'U':
    case 'W':
      return 'S';
    default:
      return letter;
  }
}

bool begins_chunk(const LabelParts& before, const LabelParts& now) {
  if (now.prefix == 'O') return false;
  if (now.prefix == 'B' || now.prefix == 'S' || now.prefix == 'W') return true;
  const bool is_behind_end =
      before.prefix == 'O' || before.prefix == 'E' || before.prefix == 'S' || before.prefix == 'W';
  return is_behind_end || before.type != now.type;
}

// The letters of a chunk's words. Between two chunks of a type that touch, IOB1 begins the second with B and IOE1 ends
// the first with E.
struct DialectLetters {
  char single, first, inner, last;
};
constexpr DialectLetters kInnerAlone = {'I', 'I', 'I', 'I'};
constexpr std::array<DialectLetters, 14> kDialectLetters = {{kInnerAlone,
                                                             {'B', 'B', 'I', 'I'},
                                                             {'S', 'B', 'I', 'E'},
                                                             {'U', 'B', 'I', 'L'},
                                                             kInnerAlone,
                                                             {'E', 'I', 'I', 'E'},
                                                             kInnerAlone,
                                                             {'S', 'B', 'I', 'I'},
                                                             {'B', 'B', 'I', 'E'},
                                                             {'S', 'B', 'M', 'E'},
                                                             {'W', 'B', 'M', 'E'},
                                                             {'U', 'B', 'I', 'E'},
                                                             {'W', 'B', 'I', 'E'},
                                                             kInnerAlone}};

}  // namespace

bool separates_label_parts(char c) { return std::string_view("-_/:.|+=#~@^").find(c) != std::string_view::npos; }

LabelParts parts_of_label(std::string_view label, const LabelForm& form) {
  if (label == form.outside()) return {};
  const LabelParts word = {'W', label, 'W'};
  const size_t size = label.size();
  const size_t least = form.has_empty_types && !form.is_type_first ? 2 : 3;
  if (!form.marks_chunks() || (form.has_types ? size < least : size != 1)) return word;
  const bool at_end = form.has_types && form.is_type_first;
  const char letter = at_end ? label[size - 1] : label[0];
  const bool is_lower = letter >= 'a' && letter <= 'z';
  if (is_lower != form.is_lower || form.letters.find(capital(letter)) == std::string_view::npos) return word;
  if (!form.has_types) return {meaning_of(capital(letter)), "", capital(letter)};
  if (label[at_end ? size - 2 : 1] != form.separator) return word;
  return {meaning_of(capital(letter)), at_end ? label.substr(0, size - 2) : label.substr(2), capital(letter)};
}

std::string label_in_form(char letter, std::string_view type, const LabelForm& form) {
  const char own = form.is_lower ? static_cast<char>(letter - 'A' + 'a') : letter;
  if (!form.has_types) return {own};
  return form.is_type_first ? cat(type, form.separator, own) : cat(own, form.separator, type);
}

std::string print_label_form(const LabelForm& form) {
  const std::string example = label_in_form('B', kTypeExample, form);
  return form.is_outside_lower == form.is_lower ? example : cat(example, " ", form.outside());
}

LabelForm parse_label_form(std::string_view text, std::string_view what) {
  const std::vector<std::string> examples = fovea::split_words(text);
  LabelForm form;
  const auto fits = [&](const std::string& example) {
    for (const char separator : example) {
      for (const bool is_type_first : {false, true}) {
        form = {.is_type_first = is_type_first, .separator = separator};
        for (const bool is_lower : {false, true}) {
          form.is_lower = form.is_outside_lower = is_lower;
          if (separates_label_parts(separator) && label_in_form('B', kTypeExample, form) == example) return true;
        }
      }
    }
    form = {.has_types = false, .is_lower = example == "b", .is_outside_lower = example == "b"};
    return example == "B" || example == "b";
  };
  const bool has_outside = examples.size() == 2 && (examples[1] == "O" || examples[1] == "o");
  if (examples.empty() || (examples.size() > 1 && !has_outside) || !fits(examples[0]))
    throw UsageError(cat(what, ": got '", text,
                         "'; expected the first label of a chunk of the type TYPE, such as B-TYPE, B_TYPE, TYPE-B or "
                         "b-TYPE, or B for labels without types"));
  if (has_outside) form.is_outside_lower = examples[1] == "o";
  return form;
}

std::vector<Chunk> chunks_of(std::span<const std::string> labels, const LabelForm& form) {
  std::vector<Chunk> chunks;
  LabelParts before;
  for (size_t i = 0; i < labels.size(); ++i) {
    const LabelParts now = parts_of_label(labels[i], form);
    const auto word = static_cast<int64_t>(i);
    if (begins_chunk(before, now)) {
      chunks.push_back({word, word + 1, std::string(now.type), now.prefix == 'W'});
    } else if (now.prefix != 'O') {
      chunks.back().end = word + 1;
    }
    before = now;
  }
  return chunks;
}

std::span<const LabelDialect> chunk_dialects() {
  using enum LabelDialect;
  static constexpr std::array kLikeliestFirst = {kIob2, kIo,   kIob1, kIobes, kBilou, kBmes, kBmewo,
                                                 kIoe2, kIoe1, kBios, kBieo,  kBieou, kBiewo};
  return kLikeliestFirst;
}

ChunkTouch touch_of(std::span<const Chunk> chunks, size_t place) {
  const auto touch = [&](size_t first) {
    const Chunk &before = chunks[first], &behind = chunks[first + 1];
    return before.end == behind.begin && before.type == behind.type && !before.is_word && !behind.is_word;
  };
  return {place > 0 && touch(place - 1), place + 1 < chunks.size() && touch(place)};
}

char letter_of_word(const Chunk& chunk, int64_t word, LabelDialect dialect, ChunkTouch touch) {
  const bool is_first = word == chunk.begin, is_last = word + 1 == chunk.end;
  if (dialect == LabelDialect::kIob1 && is_first && touch.before) return 'B';
  if (dialect == LabelDialect::kIoe1 && is_last && touch.behind) return 'E';
  const DialectLetters& letters = kDialectLetters.at(static_cast<size_t>(dialect));
  if (is_first) return is_last ? letters.single : letters.first;
  return is_last ? letters.last : letters.inner;
}

std::vector<std::string> labels_of(std::span<const Chunk> chunks, int64_t words, const LabelNotation& notation) {
  std::vector<std::string> labels(static_cast<size_t>(words), std::string(notation.form.outside()));
  for (size_t place = 0; place < chunks.size(); ++place) {
    const Chunk& chunk = chunks[place];
    const ChunkTouch touch = touch_of(chunks, place);
    for (int64_t word = chunk.begin; word < chunk.end; ++word) {
      labels[static_cast<size_t>(word)] =
          chunk.is_word
              ? chunk.type
              : label_in_form(letter_of_word(chunk, word, notation.dialect, touch), chunk.type, notation.form);
    }
  }
  return labels;
}

}  // namespace fovea::metrics
