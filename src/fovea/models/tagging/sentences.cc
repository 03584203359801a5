#include "fovea/models/tagging/sentences.h"

#include <algorithm>

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

TaggedText encode_text(const data::LabelledText& text, const LabelSet& labels, SentenceEncoder& encoder,
                       const ClauseFinder& clauses) {
  TaggedText result;
  data::ParallelCorpus& parts = result.parts;
  parts.source_offsets = parts.target_offsets = {0};
  result.sentences = text.size();
  for (size_t s = 0; s < text.words.size(); ++s) {
    const std::vector<int64_t> ids = labels.encode(text.labels[s]);
    parts.source.insert(parts.source.end(), ids.begin(), ids.end());
    const std::vector<uint8_t> levels = clauses.levels(text.words[s], tags_of(text.tags, s));
    for (const Part& part : encoder.encode(text.words[s], levels)) {
      result.levels.insert(result.levels.end(), part.levels.begin(), part.levels.end());
      parts.target.insert(parts.target.end(), part.tokens.begin(), part.tokens.end());
      parts.target_offsets.push_back(std::ssize(parts.target));
      parts.source_offsets.push_back(parts.source_offsets.back() + std::ssize(part.firsts));
      result.firsts.insert(result.firsts.end(), part.firsts.begin(), part.firsts.end());
    }
  }
  return result;
}

LabelledBatch batch_of(const TaggedText& text, const data::Batch& parts) {
  LabelledBatch batch;
  const data::ParallelCorpus& all = text.parts;
  for (const int64_t part : parts) {
    const int64_t words = all.source_offsets[static_cast<size_t>(part)],
                  tokens = all.target_offsets[static_cast<size_t>(part)];
    const auto length = static_cast<size_t>(all.target_length(part));
    const std::vector<int64_t> ids(all.target.begin() + tokens, all.target.begin() + tokens + all.target_length(part));
    const std::span<const uint8_t> levels(text.levels);
    batch.add(ids,
              std::span(text.firsts).subspan(static_cast<size_t>(words), static_cast<size_t>(all.source_length(part))),
              levels.empty() ? levels : levels.subspan(static_cast<size_t>(tokens), length));
    batch.labels.insert(batch.labels.end(), all.source.begin() + words,
                        all.source.begin() + words + all.source_length(part));
  }
  return batch;
}

}  // namespace fovea::tagging
