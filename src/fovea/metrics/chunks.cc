#include "fovea/metrics/chunks.h"

#include "fovea/base/strings.h"

namespace fovea::metrics {
namespace {

bool ends_behind(char prefix) { return prefix == 'E' || prefix == 'S' || prefix == 'W'; }

bool begins_chunk(const LabelParts& before, const LabelParts& now) {
  if (now.prefix == 'O') return false;
  if (now.prefix == 'B' || now.prefix == 'S' || now.prefix == 'W') return true;
  return before.prefix == 'O' || ends_behind(before.prefix) || before.type != now.type;
}

// The letter of a chunk's word in a dialect. IOB1 needs B only between two chunks of a type.
char prefix_of(const Chunk& chunk, int64_t word, LabelDialect dialect, bool touches_its_like) {
  const bool is_first = word == chunk.begin, is_last = word + 1 == chunk.end;
  switch (dialect) {
    case LabelDialect::kIob1:
      return is_first && touches_its_like ? 'B' : 'I';
    case LabelDialect::kIob2:
      return is_first ? 'B' : 'I';
    case LabelDialect::kIobes:
      if (is_first && is_last) return 'S';
      return is_first ? 'B' : is_last ? 'E' : 'I';
    case LabelDialect::kBilou:
      if (is_first && is_last) return 'U';
      return is_first ? 'B' : is_last ? 'L' : 'I';
  }
  return 'O';
}

}  // namespace

LabelParts parts_of_label(std::string_view label) {
  if (label == "O") return {};
  const bool has_prefix =
      label.size() > 2 && label[1] == '-' && std::string_view("BIESLU").find(label[0]) != std::string_view::npos;
  if (!has_prefix) return {'W', label};
  const char prefix = label[0] == 'L' ? 'E' : label[0] == 'U' ? 'S' : label[0];
  return {prefix, label.substr(2)};
}

std::vector<Chunk> chunks_of(std::span<const std::string> labels) {
  std::vector<Chunk> chunks;
  LabelParts before;
  for (size_t i = 0; i < labels.size(); ++i) {
    const LabelParts now = parts_of_label(labels[i]);
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

void DialectFinder::add(std::span<const std::string> labels) {
  std::string_view before = "O";
  for (const std::string& label : labels) {
    const LabelParts now = parts_of_label(label), last = parts_of_label(before);
    if (now.prefix == 'E' || now.prefix == 'S')
      (label[0] == 'E' || label[0] == 'S' ? has_end_or_single_ : has_last_or_unit_) = true;
    if (now.prefix == 'I' && begins_chunk(last, now)) has_inner_begin_ = true;
    before = label;
  }
}

LabelDialect DialectFinder::dialect() const {
  if (has_end_or_single_) return LabelDialect::kIobes;
  if (has_last_or_unit_) return LabelDialect::kBilou;
  return has_inner_begin_ ? LabelDialect::kIob1 : LabelDialect::kIob2;
}

std::vector<std::string> labels_of(std::span<const Chunk> chunks, int64_t words, LabelDialect dialect) {
  std::vector<std::string> labels(static_cast<size_t>(words), "O");
  const Chunk* before = nullptr;
  for (const Chunk& chunk : chunks) {
    const bool touches =
        before != nullptr && before->end == chunk.begin && before->type == chunk.type && !before->is_word;
    for (int64_t word = chunk.begin; word < chunk.end; ++word) {
      labels[static_cast<size_t>(word)] =
          chunk.is_word ? chunk.type : cat(prefix_of(chunk, word, dialect, touches), "-", chunk.type);
    }
    before = &chunk;
  }
  return labels;
}

}  // namespace fovea::metrics
