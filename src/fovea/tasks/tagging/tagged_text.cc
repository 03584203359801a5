#include "fovea/tasks/tagging/tagged_text.h"

#include <span>

namespace fovea::tagging {

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
