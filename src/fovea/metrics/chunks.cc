#include "fovea/metrics/chunks.h"

#include <array>

namespace fovea::metrics {
namespace {

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
