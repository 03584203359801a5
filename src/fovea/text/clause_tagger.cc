#include "fovea/text/clause_tagger.h"

#include <utility>

namespace fovea::text {

std::vector<ClauseTagger::Sentence> ClauseTagger::tags_of(std::span<const Sentence> sentences) const {
  std::vector<Sentence> with_words;
  for (const Sentence& sentence : sentences)
    if (!sentence.empty()) with_words.push_back(sentence);
  std::vector<Sentence> tags = tag(with_words), result(sentences.size());
  auto next = tags.begin();
  for (size_t i = 0; i < sentences.size(); ++i)
    if (!sentences[i].empty()) result[i] = std::move(*next++);
  return result;
}

}  // namespace fovea::text
