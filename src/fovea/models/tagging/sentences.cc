#include "fovea/models/tagging/sentences.h"

#include <algorithm>
#include <utility>

#include "fovea/text/clauses.h"

namespace fovea::tagging {

const std::vector<int64_t>& SentenceEncoder::pieces_of(const std::string& word) {
  const auto found = known_.find(word);
  if (found != known_.end()) return found->second;
  std::vector<int64_t> pieces = vocab_.encode_word(word);
  if (most_ > 0) pieces.resize(std::min(pieces.size(), static_cast<size_t>(most_ - vocab_.extra_tokens())));
  return known_.emplace(word, std::move(pieces)).first->second;
}

std::vector<uint8_t> ClauseFinder::levels(std::span<const std::string> words, std::span<const std::string> tags) const {
  std::vector<uint8_t> levels;
  if (dictionary_ == nullptr) return levels;
  levels.resize(words.size());
  for (const text::ClauseStart& start : text::clause_starts(words, tags, *dictionary_))
    levels[start.at] = static_cast<uint8_t>(start.level);
  return levels;
}

std::vector<Part> SentenceEncoder::encode(std::span<const std::string> words, std::span<const uint8_t> levels) {
  const int64_t before = vocab_.is_word_piece() ? 1 : 0, room = most_ - vocab_.extra_tokens();
  std::vector<Part> parts;
  Part part;
  size_t first_word = 0;  // of the part
  const auto finish = [&] {
    part.tokens = vocab_.sequence(std::move(part.tokens));
    if (!levels.empty()) {
      part.levels.resize(part.tokens.size());
      // The first word's clause begins with the sequence.
      for (size_t w = 1; w < part.firsts.size(); ++w)
        part.levels[static_cast<size_t>(part.firsts[w])] = levels[first_word + w];
      part.levels.front() = 1;
    }
    first_word += part.firsts.size();
    parts.push_back(std::exchange(part, {}));
  };
  for (const std::string& word : words) {
    const std::vector<int64_t>& pieces = pieces_of(word);
    if (most_ > 0 && std::ssize(part.tokens) + std::ssize(pieces) > room) finish();
    part.firsts.push_back(std::ssize(part.tokens) + before);
    part.tokens.insert(part.tokens.end(), pieces.begin(), pieces.end());
  }
  if (!part.firsts.empty()) finish();
  return parts;
}

void TagBatch::add(std::span<const int64_t> part_tokens, std::span<const int64_t> part_firsts,
                   std::span<const uint8_t> part_levels) {
  for (const int64_t first : part_firsts) firsts.push_back(std::ssize(tokens) + first);
  tokens.insert(tokens.end(), part_tokens.begin(), part_tokens.end());
  levels.insert(levels.end(), part_levels.begin(), part_levels.end());
  offsets.push_back(std::ssize(tokens));
}

std::shared_ptr<const nn::Clauses> TagBatch::clauses() const {
  if (levels.empty()) return nullptr;
  return std::make_shared<const nn::Clauses>(nn::clauses_of_levels(levels, offsets));
}

}  // namespace fovea::tagging
