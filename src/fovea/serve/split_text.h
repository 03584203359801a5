#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "fovea/text/sentences.h"

namespace fovea::serve {

// A text as sentences and what stands around them: gaps[0] sentences[0] gaps[1] ... gaps[n].
struct SplitText {
  std::vector<std::string> sentences, gaps;
};

// The places at which a text is split. The gaps keep every blank and line end.
enum class Splitting {
  kNever,      // the text is one sentence, line ends in it are read as blanks
  kLines,      // at line ends
  kSentences,  // between sentences, which line ends do not end
  kBoth,
};

// `splitter` knows the language's sentences; it is used for kSentences and kBoth.
SplitText split_text(std::string_view text, Splitting where, text::SentenceSplitter& splitter);

// The text with other sentences: one for each of `split.sentences`.
std::string join_text(const SplitText& split, const std::vector<std::string>& sentences);

}  // namespace fovea::serve
