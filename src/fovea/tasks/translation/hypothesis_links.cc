#include "fovea/tasks/translation/hypothesis_links.h"

#include <utility>

namespace fovea::translation {

std::vector<std::vector<analysis::Links>> links_of(LoadedModel& loaded, std::span<const std::string> lines,
                                                   const std::vector<std::vector<Sentence>>& hypotheses,
                                                   const LinkPass& pass) {
  std::vector<std::vector<analysis::Links>> all(lines.size());
  std::vector<WordPair> words;
  std::vector<SentencePair> tokens;
  std::vector<std::pair<size_t, size_t>> places;
  for (size_t line = 0; line < lines.size(); ++line) {
    all[line].resize(hypotheses[line].size());
    if (hypotheses[line].empty()) continue;
    text::WordPieces source = text::encode_words(loaded.source, lines[line]);
    text::cut(source, pass.max_length);
    for (size_t i = 0; i < hypotheses[line].size(); ++i) {
      WordPair pair{source, text::words_of_pieces(loaded.target, hypotheses[line][i])};
      if (pair.is_empty()) continue;
      tokens.push_back(with_eos(pair, loaded.source.eos(), loaded.target.eos()));
      words.push_back(std::move(pair));
      places.emplace_back(line, i);
    }
  }
  see_cross_attention(loaded.model, tokens, pass.limits, pass.what, [&](size_t i, const at::Tensor& weights) {
    all[places[i].first][places[i].second] = word_links(weights, words[i], pass.choice);
  });
  return all;
}

}  // namespace fovea::translation
