#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "fovea/text/clause_dictionary.h"

namespace fovea::text {

// A model that says which words of a text are signal words.
struct ClauseTagger {
  using Sentence = std::vector<std::string>;  // its words, or their tags
  // The tags of sentences, none of which is empty.
  std::function<std::vector<Sentence>(std::span<const Sentence> sentences)> tag;
  bool gives_labels = false;  // the tags are labels of signal words; all but kSignalLabels count as O

  // The tags of sentences, tagged together; one without words has none.
  std::vector<Sentence> tags_of(std::span<const Sentence> sentences) const;
  std::vector<ClauseDictionary::Tagged> signals(const ClauseDictionary& dictionary, const Sentence& words,
                                                const Sentence& tags) const {
    return gives_labels ? dictionary.labelled_signals(words, tags) : dictionary.signals(words, tags);
  }
};

}  // namespace fovea::text
