#include "fovea/tasks/translation/word_aligner.h"

#include <algorithm>
#include <utility>

#include "fovea/base/strings.h"

namespace fovea::translation {

WordAligner::WordAligner(LoadedModel loaded, const Options& options)
    : loaded_(std::move(loaded)), options_(options), limit_(line_limit(loaded_.model->config(), options.max_length)) {
  require_layer_and_head(model(), options.choice, options.reversed ? "--reverse-" : "--");
}

text::WordPieces WordAligner::encode(const text::Vocab& vocab, const std::string& line, int64_t line_number) {
  text::WordPieces encoded = text::encode_words(vocab, line);
  const auto length = static_cast<int64_t>(encoded.pieces.size());
  if (length > limit_.tokens) {
    cut_.warn(line_number, cut_message({{}, length}, limit_));
    text::cut(encoded, limit_.tokens);
  }
  return encoded;
}

void WordAligner::see(const std::vector<TextPair>& pairs, const See& see) {
  std::vector<WordPair> words;
  std::vector<SentencePair> tokens;
  std::vector<size_t> index_of;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const TextPair& text = pairs[i];
    WordPair pair{encode(loaded_.source, options_.reversed ? text.target : text.source, text.line),
                  encode(loaded_.target, options_.reversed ? text.source : text.target, text.line)};
    if (pair.is_empty()) continue;
    tokens.push_back(with_eos(pair, loaded_.source.eos(), loaded_.target.eos()));
    words.push_back(std::move(pair));
    index_of.push_back(i);
  }
  see_cross_attention(loaded_.model, tokens, options_.limits, "aligning",
                      [&](size_t i, const at::Tensor& weights) { see(index_of[i], words[i], weights); });
}

std::vector<analysis::Links> WordAligner::align(const std::vector<TextPair>& pairs) {
  std::vector<analysis::Links> links(pairs.size());
  see(pairs, [&](size_t index, const WordPair& pair, const at::Tensor& weights) {
    analysis::Links& found = links[index];
    found = word_links(weights, pair, options_.choice);
    if (!options_.reversed) return;
    for (analysis::Link& link : found) std::swap(link.source, link.target);
    std::ranges::sort(found);
  });
  return links;
}

}  // namespace fovea::translation
