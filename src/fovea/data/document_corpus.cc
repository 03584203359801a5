#include "fovea/data/document_corpus.h"

#include <algorithm>

#include "fovea/base/documents.h"
#include "fovea/base/error.h"
#include "fovea/base/executor.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/text/text_changes.h"

namespace fovea::data {
namespace {

struct DocumentPair {
  std::vector<int64_t> source, target;
};

std::vector<DocumentPair> encode_documents(const ParallelText& text, const text::Vocab& source,
                                           const text::Vocab& target, int num_threads) {
  constexpr int64_t kLines = 256;
  const auto lines = std::ssize(text.source);
  std::vector<DocumentPair> pairs(text.source.size());
  ThreadExecutor threads(num_threads);
  threads.run((lines + kLines - 1) / kLines, [&](int64_t piece, int) {
    for (int64_t i = piece * kLines; i < std::min<int64_t>(lines, (piece + 1) * kLines); ++i) {
      const auto at = static_cast<size_t>(i);
      if (!begins_document(text.source[at]))
        pairs[at] = {source.encode(text.source[at]), target.encode(text.target[at])};
    }
  });
  throw_if_interrupted("reading the corpus");
  return pairs;
}

void append_sentence(const std::vector<int64_t>& tokens, int64_t eos, std::vector<int32_t>& out) {
  for (const int64_t token : tokens) out.push_back(static_cast<int32_t>(token));
  out.push_back(static_cast<int32_t>(eos));
}

// Puts blocks together.
class Blocks {
 public:
  Blocks(const text::Vocab& source, const text::Vocab& target, const DocumentOptions& options)
      : source_eos_(source.eos()), target_eos_(target.eos()), limit_(options.block_tokens), cutter_(limit_) {
    corpus_.source_offsets = corpus_.target_offsets = {0};
  }

  void add(DocumentPair& pair) {
    const bool source_cut = cut_to_block(pair.source, limit_), target_cut = cut_to_block(pair.target, limit_);
    if (source_cut || target_cut) ++cut_;
    if (cutter_.begins_block({std::ssize(pair.source) + 1, std::ssize(pair.target) + 1})) end_block();
    if (!in_document_) ++documents_;
    in_document_ = true;
    append_sentence(pair.source, source_eos_, corpus_.source);
    append_sentence(pair.target, target_eos_, corpus_.target);
    ++sentences_;
  }

  void end_document() {
    end_block();
    cutter_.end_document();
    in_document_ = false;
  }

  ParallelCorpus finish(const ParallelText& text) {
    end_document();
    if (corpus_.size() == 0)
      throw Error(cat("'", text.source_path, "' and '", text.target_path,
                      "' have no sentence; expected documents, a sentence per line"));
    log::info(cat("[data] ", thousands(documents_), documents_ == 1 ? " document of " : " documents of ",
                  thousands(sentences_), " sentence pairs from ", text.source_path, " and ", text.target_path, ", in ",
                  thousands(corpus_.size()), " blocks (", thousands(std::ssize(corpus_.source)), " and ",
                  thousands(std::ssize(corpus_.target)), " tokens)"));
    if (cut_ > 0)
      log::warn(cat("[data] ", thousands(cut_), cut_ == 1 ? " sentence was" : " sentences were",
                    " longer than a block of ", limit_, " tokens and cut (--document-length)"));
    return std::move(corpus_);
  }

 private:
  void end_block() {
    if (std::ssize(corpus_.source) == corpus_.source_offsets.back()) return;
    corpus_.target.push_back(static_cast<int32_t>(target_eos_));
    corpus_.source_offsets.push_back(std::ssize(corpus_.source));
    corpus_.target_offsets.push_back(std::ssize(corpus_.target));
  }

  int64_t source_eos_, target_eos_, limit_;
  BlockCutter cutter_;
  ParallelCorpus corpus_;
  int64_t documents_ = 0, sentences_ = 0, cut_ = 0;
  bool in_document_ = false;
};

}  // namespace

bool BlockCutter::begins_block(const BlockLength& sentence) {
  const bool joins = block_ && std::max(block_->source + sentence.source, block_->target + sentence.target) <= limit_;
  if (!joins) block_ = BlockLength{};
  block_->source += sentence.source;
  block_->target += sentence.target;
  return !joins;
}

bool cut_to_block(std::vector<int64_t>& tokens, int64_t limit) {
  if (std::ssize(tokens) < limit) return false;
  tokens.resize(static_cast<size_t>(limit - 1));
  return true;
}

ParallelCorpus load_documents(const ParallelText& text, const text::Vocab& source, const text::Vocab& target,
                              const DocumentOptions& options) {
  for (size_t i = 0; i < text.source.size(); ++i)
    require_same_boundary(static_cast<long long>(i) + 1, {text.source_path, text.source[i]},
                          {text.target_path, text.target[i]});
  std::vector<DocumentPair> pairs = encode_documents(text, source, target, options.threads);
  Blocks blocks(source, target, options);
  text::TextChanges changes(target);
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (begins_document(text.source[i])) {
      blocks.end_document();
    } else {
      blocks.add(pairs[i]);
      if (options.trains) changes.add(text.target[i]);
    }
  }
  ParallelCorpus corpus = blocks.finish(text);
  text::warn_of_changes(changes, target, "target lines");
  return corpus;
}

}  // namespace fovea::data
