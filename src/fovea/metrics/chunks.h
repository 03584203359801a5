#pragma once
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Labels of words that mark chunks, such as names: "B-PER", "I-PER", "O". The dialects differ in where a chunk's label
// begins with B, I, E or S.
namespace fovea::metrics {

// A label as its parts: "B-PER" is 'B' and "PER", "O" is 'O' and nothing. L and U count as E and S. A label without
// such a prefix, such as "NNP", is 'W' and itself: a word that stands alone.
struct LabelParts {
  char prefix = 'O';
  std::string_view type = {};
};
LabelParts parts_of_label(std::string_view label);

// Words [begin, end) of a sentence that have one type.
struct Chunk {
  int64_t begin = 0, end = 0;
  std::string type;
  bool is_word = false;  // of a label without a prefix
  auto operator<=>(const Chunk&) const = default;
};

// The chunks of a sentence's labels by the rules of conlleval: a chunk begins at B and S, at another type, and at I or
// E behind O, E or S. Labels of all dialects can be read.
std::vector<Chunk> chunks_of(std::span<const std::string> labels);

enum class LabelDialect : uint8_t { kIob1, kIob2, kIobes, kBilou };
inline constexpr std::string_view kLabelDialectNames = "iob1|iob2|iobes|bilou";

// The dialect that labels are written in; kIob2 if no label tells.
class DialectFinder {
 public:
  void add(std::span<const std::string> labels);  // of one sentence
  LabelDialect dialect() const;

 private:
  bool has_end_or_single_ = false, has_last_or_unit_ = false, has_inner_begin_ = false;
};

// The labels of `words` words with these chunks, which do not overlap and are in order.
std::vector<std::string> labels_of(std::span<const Chunk> chunks, int64_t words, LabelDialect dialect);

}  // namespace fovea::metrics
