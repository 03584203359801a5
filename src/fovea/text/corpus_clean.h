#pragma once
#include <functional>
#include <string>
#include <vector>

#include "fovea/text/corpus.h"
#include "fovea/text/corpus_formats.h"

namespace fovea::text {

// Rewrites pairs in place (Unicode, markup, accelerators) and counts what it changed.
class Rewriter {
 public:
  explicit Rewriter(const CorpusOptions& options);
  void rewrite(Pair& pair, Kind kind);
  const std::vector<CorpusReport::Count>& counts() const { return counts_; }

 private:
  const CorpusOptions& options_;
  std::vector<CorpusReport::Count> counts_;
};

// Drops pairs that no model should learn from; each is counted under the first reason that applies.
void drop_unusable(std::vector<Pair>& pairs, const CorpusOptions& options, std::vector<CorpusReport::Count>& dropped);

// Why a document goes, and whether it does; the reasons are those of pairs that hold for whole documents.
struct DropReason {
  std::string name;
  std::function<bool(const Pair&)> drops;
};
// `documents` are pairs of whole texts.
std::vector<DropReason> document_reasons(const std::vector<Pair>& documents, const CorpusOptions& options);

// The steps, for tests.
// Takes out tags. A tag that ends a line or a paragraph leaves a blank.
std::string strip_tags(const std::string& text);
// Takes out tags, and decodes entities.
std::string strip_markup(const std::string& text);
// Takes "_", "~" or "&" marks out of both captions where they mark access keys, "(_F)" behind Chinese captions too.
void strip_accelerators(std::string& source, std::string& target, Kind kind);

}  // namespace fovea::text
