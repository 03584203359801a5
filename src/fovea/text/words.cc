#include "fovea/text/words.h"

#include <algorithm>
#include <string>

#include "fovea/base/empty_line.h"
#include "fovea/base/strings.h"

namespace fovea::text {
namespace {

WordPieces words_of_spans(std::string_view line, std::span<const PieceSpan> spans) {
  WordPieces result;
  std::vector<size_t> ends;  // of the words
  for (size_t i = 0; i < line.size(); ++i) {
    const bool is_last = i + 1 == line.size() || is_space(line[i + 1]);
    if (!is_space(line[i]) && is_last) ends.push_back(i + 1);
  }
  result.num_words = static_cast<int64_t>(ends.size());
  if (is_empty_line(line)) return result;
  size_t word = 0;
  for (const PieceSpan& span : spans) {
    size_t first = span.begin;
    while (first < line.size() && is_space(line[first])) ++first;
    while (word + 1 < ends.size() && ends[word] <= first) ++word;
    result.pieces.push_back(span.id);
    result.words.push_back(static_cast<int64_t>(word));
  }
  return result;
}

}  // namespace

WordPieces encode_words(const Vocab& vocab, std::string_view line) {
  return words_of_spans(line, vocab.encode_spans(line));
}

WordPieces words_of_pieces(const Vocab& vocab, std::span<const int64_t> pieces) {
  std::string line;
  std::vector<PieceSpan> spans;
  for (const int64_t id : pieces) {
    const size_t begin = line.size();
    line += vocab.surface(id);
    spans.push_back({id, begin, line.size()});
  }
  return words_of_spans(line, spans);
}

void cut(WordPieces& line, int64_t most) {
  line.pieces.resize(std::min(line.pieces.size(), static_cast<size_t>(most)));
  line.words.resize(line.pieces.size());
}

}  // namespace fovea::text
