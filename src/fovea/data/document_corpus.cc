#include "fovea/data/document_corpus.h"

#include <algorithm>

#include "fovea/base/documents.h"
#include "fovea/base/error.h"
#include "fovea/base/executor.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/data/pair_encoders.h"
#include "fovea/data/parallel_lines.h"
#include "fovea/text/text_changes.h"

namespace fovea::data {
namespace {

struct DocumentPair {
  std::vector<int64_t> source, target;
};

void append_sentence(const std::vector<int64_t>& tokens, int64_t eos, std::vector<int32_t>& out) {
  for (const int64_t token : tokens) out.push_back(static_cast<int32_t>(token));
  out.push_back(static_cast<int32_t>(eos));
}

// Puts blocks together.
class Blocks {
 public:
  Blocks(const text::Vocab& source, const text::Vocab& target, const DocumentOptions& options, PairSink& sink)
      : source_eos_(source.eos()),
        target_eos_(target.eos()),
        limit_(options.block_tokens),
        cutter_(limit_),
        sink_(sink) {}

  void add(DocumentPair& pair) {
    const bool source_cut = cut_to_block(pair.source, limit_), target_cut = cut_to_block(pair.target, limit_);
    if (source_cut || target_cut) ++cut_;
    if (cutter_.begins_block({std::ssize(pair.source) + 1, std::ssize(pair.target) + 1})) end_block();
    if (!in_document_) ++documents_;
    in_document_ = true;
    append_sentence(pair.source, source_eos_, source_);
    append_sentence(pair.target, target_eos_, target_);
    ++sentences_;
  }

  void end_document() {
    end_block();
    cutter_.end_document();
    in_document_ = false;
  }

  TextReport finish(const ParallelText& text) {
    end_document();
    if (blocks_ == 0)
      throw Error(cat("'", text.source_path, "' and '", text.target_path,
                      "' have no sentence; expected documents, a sentence per line"));
    TextReport report = {cat("[data] ", thousands(documents_), documents_ == 1 ? " document of " : " documents of ",
                             thousands(sentences_), " sentence pairs from ", text.source_path, " and ",
                             text.target_path, ", in ", thousands(blocks_), " blocks (", thousands(source_tokens_),
                             " and ", thousands(target_tokens_), " tokens)")};
    if (cut_ > 0)
      report.warnings.push_back(cat("[data] ", thousands(cut_), cut_ == 1 ? " sentence was" : " sentences were",
                                    " longer than a block of ", limit_, " tokens and cut (--document-length)"));
    return report;
  }

 private:
  void end_block() {
    if (source_.empty()) return;
    target_.push_back(static_cast<int32_t>(target_eos_));
    sink_.add(source_, target_);
    ++blocks_;
    source_tokens_ += std::ssize(source_);
    target_tokens_ += std::ssize(target_);
    source_.clear(), target_.clear();
  }

  int64_t source_eos_, target_eos_, limit_;
  BlockCutter cutter_;
  PairSink& sink_;
  std::vector<int32_t> source_, target_;  // of the block
  int64_t documents_ = 0, sentences_ = 0, blocks_ = 0, source_tokens_ = 0, target_tokens_ = 0, cut_ = 0;
  bool in_document_ = false;
};

// Encodes documents whose text comes in parts.
class DocumentEncoder {
 public:
  DocumentEncoder(const text::Vocab& source, const text::Vocab& target, const DocumentOptions& options, PairSink& sink)
      : target_(target),
        trains_(options.trains),
        threads_(options.threads),
        encoders_(source, target, threads_.num_threads()),
        blocks_(source, target, options, sink),
        changes_(target) {}

  void add(const ParallelText& text) {
    for (size_t i = 0; i < text.source.size(); ++i)
      require_same_boundary(++lines_, {text.source_path, text.source[i]}, {text.target_path, text.target[i]});
    std::vector<DocumentPair> pairs = encoded(text);
    for (size_t i = 0; i < pairs.size(); ++i) {
      if (begins_document(text.source[i])) {
        blocks_.end_document();
      } else {
        blocks_.add(pairs[i]);
        if (trains_) changes_.add(text.target[i]);
      }
    }
  }

  TextReport finish(const ParallelText& text) {
    TextReport report = blocks_.finish(text);
    const std::string warning = text::change_warning(changes_, target_, "target lines");
    if (!warning.empty()) report.warnings.push_back(warning);
    return report;
  }

 private:
  std::vector<DocumentPair> encoded(const ParallelText& text) {
    constexpr int64_t kLines = 256;
    const auto lines = std::ssize(text.source);
    std::vector<DocumentPair> pairs(text.source.size());
    threads_.run((lines + kLines - 1) / kLines, [&](int64_t piece, int thread) {
      for (int64_t i = piece * kLines; i < std::min<int64_t>(lines, (piece + 1) * kLines); ++i) {
        const auto at = static_cast<size_t>(i);
        if (!begins_document(text.source[at]))
          pairs[at] = {encoders_.source(thread).encode(text.source[at]),
                       encoders_.target(thread).encode(text.target[at])};
      }
    });
    throw_if_interrupted("reading the corpus");
    return pairs;
  }

  const text::Vocab& target_;
  bool trains_;
  ThreadExecutor threads_;
  PairEncoders encoders_;
  Blocks blocks_;
  text::TextChanges changes_;  // of the target
  long long lines_ = 0;
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
  HeldPairs blocks;
  DocumentEncoder encoder(source, target, options, blocks);
  encoder.add(text);
  log_report(encoder.finish(text));
  return blocks.take();
}

TextReport encode_documents(const std::string& source_path, const std::string& target_path, const text::Vocab& source,
                            const text::Vocab& target, const DocumentOptions& options, PairSink& sink) {
  DocumentEncoder encoder(source, target, options, sink);
  ParallelText text{source_path, target_path, {}, {}};
  read_in_parts(text, [&] { encoder.add(text); });
  return encoder.finish(text);
}

}  // namespace fovea::data
