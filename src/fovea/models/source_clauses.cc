#include "fovea/models/source_clauses.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/models/clause_tagger.h"
#include "fovea/nn/checkpoint_choice.h"
#include "fovea/text/clauses.h"

namespace fovea::models {
namespace {

// The clauses of texts that were tagged, so that training tags each text in its first epoch alone.
class KnownClauses {
 public:
  using Levels = std::vector<uint8_t>;
  static std::string key_of(std::span<const int64_t> pieces) {
    return {reinterpret_cast<const char*>(pieces.data()), pieces.size_bytes()};
  }
  const Levels* find(std::span<const int64_t> pieces) const {
    const auto found = known_.find(key_of(pieces));
    return found == known_.end() ? nullptr : &found->second;
  }
  // Forgets all others if there would be too many.
  void add(std::span<const int64_t> pieces, const Levels& levels) {
    if (pieces_ > kMostPieces) {
      known_.clear();
      pieces_ = 0;
    }
    pieces_ += std::ssize(pieces);
    known_.emplace(key_of(pieces), levels);
  }

 private:
  static constexpr int64_t kMostPieces = 1 << 24;  // some 10 bytes each: 170 MB
  std::unordered_map<std::string, Levels> known_;
  int64_t pieces_ = 0;
};

using Pieces = std::span<const int64_t>;

class SourceSplitter {
 public:
  SourceSplitter(const text::Vocab& vocab, const ClauseSource& source) : vocab_(vocab), source_(source) {}

  nn::Clauses split(const at::Tensor& tokens, const at::Tensor& offsets) {
    const at::Tensor ids = tokens.contiguous();
    const auto* id = ids.const_data_ptr<int64_t>();
    const auto* bounds = offsets.const_data_ptr<int64_t>();
    std::vector<Pieces> sentences;
    for (int64_t b = 0; b + 1 < offsets.numel(); ++b)
      add_sentences({id + bounds[b], static_cast<size_t>(bounds[b + 1] - bounds[b])}, sentences);
    std::vector<uint8_t> levels;
    for (const std::vector<uint8_t>& own : source_.tagger ? by_tagger(sentences) : by_dictionary(sentences))
      levels.insert(levels.end(), own.begin(), own.end());
    return nn::clauses_of_levels(levels, {bounds, static_cast<size_t>(offsets.numel())});
  }

 private:
  // A block of a document has several sentences, and each ends with </s>.
  void add_sentences(Pieces text, std::vector<Pieces>& sentences) const {
    while (!text.empty()) {
      const auto end = std::ranges::find(text, vocab_.eos());
      const auto size = static_cast<size_t>(end - text.begin()) + (end != text.end() ? 1 : 0);
      sentences.push_back(text.first(size));
      text = text.subspan(size);
    }
  }

  std::vector<std::vector<uint8_t>> by_dictionary(const std::vector<Pieces>& texts) const {
    std::vector<std::vector<uint8_t>> levels;
    levels.reserve(texts.size());
    for (const Pieces& pieces : texts) levels.push_back(text::clause_levels(vocab_, source_.dictionary, pieces));
    return levels;
  }

  std::vector<std::vector<uint8_t>> by_tagger(const std::vector<Pieces>& texts) {
    const std::lock_guard lock(mutex_);
    std::vector<std::vector<uint8_t>> levels(texts.size());
    std::vector<size_t> unknown;
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto* const found = known_.find(texts[i]);
      if (found != nullptr) {
        levels[i] = *found;
      } else {
        unknown.push_back(i);
      }
    }
    tag(texts, unknown, levels);
    for (const size_t i : unknown) known_.add(texts[i], levels[i]);
    return levels;
  }

  // Finds the levels of those texts, tagged together.
  void tag(const std::vector<Pieces>& texts, std::span<const size_t> which,
           std::vector<std::vector<uint8_t>>& levels) const {
    std::vector<text::PieceText> split;
    std::vector<std::vector<text::TextToken>> tokens;
    std::vector<text::ClauseTagger::Sentence> words;
    for (const size_t i : which) {
      const std::string& own = split.emplace_back(text::text_of(vocab_, texts[i])).text;
      words.push_back(text::words_of(tokens.emplace_back(source_.dictionary.tokens(own)), own));
    }
    const std::vector<text::ClauseTagger::Sentence> tags = source_.tagger->tags_of(words);
    for (size_t k = 0; k < which.size(); ++k) {
      std::vector<text::ClauseStart> starts =
          text::clause_starts(source_.tagger->signals(source_.dictionary, words[k], tags[k]));
      for (text::ClauseStart& start : starts) start.at = tokens[k][start.at].begin;
      levels[which[k]] = text::clause_levels(vocab_, texts[which[k]], split[k], starts);
    }
  }

  text::Vocab vocab_;
  ClauseSource source_;
  std::mutex mutex_;  // of known_
  KnownClauses known_;
};

}  // namespace

ClauseSource clause_source_of(const nn::Identity& identity) {
  return {clause_dictionary_of(identity), clause_tagger_of(identity)};
}

nn::ClauseSplitter clause_splitter(const text::Vocab& vocab, const ClauseSource& source) {
  const auto splitter = std::make_shared<SourceSplitter>(vocab, source);
  return [splitter](const at::Tensor& tokens, const at::Tensor& offsets) { return splitter->split(tokens, offsets); };
}

std::string new_clause_dictionary(const std::string& path, bool is_needed, const std::string& trained) {
  if (is_needed && !path.empty()) return text::ClauseDictionary::load(path).bytes();
  if (is_needed) {
    // The English dictionary of an older program may be another one.
    if (!trained.empty()) return clause_dictionary_of(nn::read_checkpoint(trained, nn::Load::kModel).identity).bytes();
    return text::ClauseDictionary::english().bytes();
  }
  if (!path.empty())
    throw UsageError(
        "--clause-dictionary: the model has no clauses; give --attention-encoder some, such as mix(full,clause(1))");
  return "";
}

text::ClauseDictionary clause_dictionary_of(const nn::Identity& identity) {
  const auto found = identity.files.find(kClausesFile);
  if (found == identity.files.end()) return text::ClauseDictionary::english();
  return text::ClauseDictionary::parse(found->second, kClausesFile);
}

}  // namespace fovea::models
