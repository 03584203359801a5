#include "fovea/serve/split_text.h"

#include <algorithm>

#include "fovea/text/unicode.h"

namespace fovea::serve {
namespace {

constexpr std::string_view kLineEnds = "\r\n";

std::string without_line_ends(std::string_view text) {
  std::string line(text);
  std::ranges::replace_if(
      line, [](char c) { return kLineEnds.find(c) != std::string_view::npos; }, ' ');
  return line;
}

// Appends the sentences of `text` and the gaps before and between them to `split`, whose last gap is still open.
void add_sentences(std::string_view text, const std::vector<text::SentencePlace>& sentences, SplitText& split) {
  size_t at = 0;
  for (const text::SentencePlace& sentence : sentences) {
    split.gaps.back() += text.substr(at, sentence.begin - at);
    split.sentences.push_back(without_line_ends(text.substr(sentence.begin, sentence.end - sentence.begin)));
    split.gaps.emplace_back();
    at = sentence.end;
  }
  split.gaps.back() += text.substr(at);
}

void add_part(std::string_view text, Splitting where, text::SentenceSplitter& splitter, SplitText& split) {
  const bool is_split = where == Splitting::kSentences || where == Splitting::kBoth;
  const size_t begin = text::leading_blanks_size(text);
  if (begin == text.size()) {
    split.gaps.back() += text;
  } else if (is_split) {
    add_sentences(text, splitter.places(text), split);
  } else {
    add_sentences(text, {{begin, text.size() - text::trailing_blanks_size(text)}}, split);
  }
}

}  // namespace

SplitText split_text(std::string_view text, Splitting where, text::SentenceSplitter& splitter) {
  SplitText split;
  split.gaps.emplace_back();
  const bool at_lines = where == Splitting::kLines || where == Splitting::kBoth;
  while (at_lines && !text.empty()) {
    const size_t end = std::min(text.find_first_of(kLineEnds), text.size());
    add_part(text.substr(0, end), where, splitter, split);
    const size_t next = std::min(text.find_first_not_of(kLineEnds, end), text.size());
    split.gaps.back() += text.substr(end, next - end);
    text.remove_prefix(next);
  }
  if (!at_lines) add_part(text, where, splitter, split);
  return split;
}

std::string join_text(const SplitText& split, const std::vector<std::string>& sentences) {
  std::string text = split.gaps.front();
  for (size_t i = 0; i < sentences.size(); ++i) text += sentences[i] + split.gaps[i + 1];
  return text;
}

}  // namespace fovea::serve
