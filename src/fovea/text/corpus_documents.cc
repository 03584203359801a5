#include "fovea/text/corpus_documents.h"

#include <algorithm>
#include <utility>

#include "fovea/base/documents.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/text/corpus_clean.h"
#include "fovea/text/corpus_formats.h"
#include "fovea/text/corpus_readers.h"
#include "fovea/text/corpus_split.h"
#include "fovea/text/corpus_write.h"
#include "fovea/text/unicode.h"

namespace fovea::text {
namespace {

// A document's sides as one text each.
Pair joined(const Document& document) {
  Pair text;
  for (const Pair& pair : document.pairs) {
    text.source += text.source.empty() ? pair.source : " " + pair.source;
    text.target += text.target.empty() ? pair.target : " " + pair.target;
  }
  return text;
}

std::vector<Document> documents_of(Bitext bitext, const CorpusInput& input) {
  std::vector<Document> documents;
  bool begins = true;
  for (size_t i = 0; i < bitext.pairs.size(); ++i) {
    Pair& pair = bitext.pairs[i];
    require_same_boundary(static_cast<long long>(i) + 1, {input.path, pair.source}, {input.second, pair.target});
    if (begins_document(pair.source)) {
      begins = true;
      continue;
    }
    if (std::exchange(begins, false)) documents.emplace_back();
    documents.back().pairs.push_back(std::move(pair));
  }
  return documents;
}

int64_t pairs_of(const std::vector<Document>& documents) {
  int64_t pairs = 0;
  for (const Document& document : documents) pairs += std::ssize(document.pairs);
  return pairs;
}

// Drops the documents for which `drops` holds, given their number and text.
template <class F>
void drop_documents(std::vector<Document>& documents, std::vector<Pair>& texts, const std::string& reason,
                    const F& drops, CorpusReport& report) {
  size_t kept = 0;
  int64_t pairs = 0, dropped = 0;
  for (size_t i = 0; i < documents.size(); ++i) {
    throw_if_interrupted("cleaning the corpus");
    if (drops(documents[i], texts[i])) {
      pairs += std::ssize(documents[i].pairs);
      ++dropped;
      continue;
    }
    if (kept != i) {
      documents[kept] = std::move(documents[i]);
      texts[kept] = std::move(texts[i]);
    }
    ++kept;
  }
  documents.resize(kept);
  texts.resize(kept);
  report.dropped.push_back({cat(reason, ", ", thousands(dropped), dropped == 1 ? " document" : " documents"), pairs});
}

void drop_unusable_documents(std::vector<Document>& documents, const CorpusOptions& options, CorpusReport& report) {
  std::vector<Pair> texts;
  for (const Document& document : documents) texts.push_back(joined(document));
  // A sentence that cleaning left empty would be a document's boundary.
  const auto has_gap = [](const Document& document, const Pair&) {
    return std::ranges::any_of(
        document.pairs, [](const Pair& pair) { return begins_document(pair.source) || begins_document(pair.target); });
  };
  drop_documents(documents, texts, "a sentence became empty", has_gap, report);
  for (const DropReason& reason : document_reasons(texts, options))
    drop_documents(
        documents, texts, reason.name, [&](const Document&, const Pair& text) { return reason.drops(text); }, report);
}

// The documents in the order of the draw, which depends on the seed and their sources alone.
std::vector<size_t> drawn(const std::vector<Document>& documents, int64_t seed) {
  std::vector<std::pair<std::string, size_t>> ranks;
  for (size_t i = 0; i < documents.size(); ++i)
    ranks.emplace_back(checksum(cat(seed, '\n', folded(joined(documents[i]).source))), i);
  std::ranges::sort(ranks);
  std::vector<size_t> order;
  for (const auto& rank : ranks) order.push_back(rank.second);
  return order;
}

// The part of each document, by its number among kPartNames.
std::vector<size_t> parts_of(const std::vector<Document>& documents, const CorpusOptions& options) {
  std::vector<size_t> parts(documents.size(), 0);
  int64_t test = 0, valid = 0;
  for (const size_t i : drawn(documents, options.seed)) {
    const bool to_test = test < options.test;
    if (!to_test && valid >= options.valid) break;
    parts[i] = to_test ? 2 : 1;
    (to_test ? test : valid) += std::ssize(documents[i].pairs);
  }
  if (std::ranges::find(parts, size_t{0}) == parts.end())
    throw Error(cat("--valid ", options.valid, " --test ", options.test, ": only ", documents.size(),
                    documents.size() == 1 ? " document is" : " documents are",
                    " left after cleaning, and none remains to train on; ask for fewer sentences or give more text"));
  return parts;
}

}  // namespace

void check_document_options(const CorpusOptions& options) {
  const CorpusOptions defaults;
  const auto refuse = [](bool given, const char* option, const char* why) {
    if (given) throw UsageError(cat(option, ": --documents ", why, "; leave it out"));
  };
  refuse(options.generate > 0, "--generate", "reads two aligned files");
  refuse(options.sentences == "split", "--sentences", "keeps the lines as they are");
  refuse(options.min_words != defaults.min_words, "--min-words", "drops whole documents, however long their sentences");
  refuse(options.max_words != defaults.max_words, "--max-words", "drops whole documents, however long their sentences");
}

DocumentText read_documents(const CorpusOptions& options, CorpusReport& report) {
  DocumentText text{options.source(), options.target(), {}};
  Rewriter rewriter(options);
  for (const CorpusInput& input : list_corpus_inputs(options)) {
    if (input.format->shape != InputShape::kTwoFiles)
      throw Error(cat("--documents: got '", input.path, "', a file of format ", input.format->name,
                      "; expected two aligned files, a sentence per line"));
    Bitext bitext = input.format->read(input, options);
    if (text.source_lang.empty()) text.source_lang = bitext.source_lang;
    if (text.target_lang.empty()) text.target_lang = bitext.target_lang;
    for (Document& document : documents_of(std::move(bitext), input)) {
      throw_if_interrupted("cleaning the corpus");
      for (Pair& pair : document.pairs) rewriter.rewrite(pair, input.format->kind);
      text.documents.push_back(std::move(document));
    }
  }
  report.read = report.segments = pairs_of(text.documents);
  report.changed = rewriter.counts();
  drop_unusable_documents(text.documents, options, report);
  if (text.documents.empty()) nothing_left(report);
  return text;
}

void write_documents(DocumentText text, const CorpusOptions& options, CorpusReport& report) {
  const std::vector<size_t> parts = parts_of(text.documents, options);
  Split split;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string mark(kDocumentLine);
    split[parts[i]].push_back({mark, mark});
    for (Pair& pair : text.documents[i].pairs) split[parts[i]].push_back(std::move(pair));
  }
  Bitext languages{.source_lang = text.source_lang, .target_lang = text.target_lang, .pairs = {}};
  name_languages(languages);
  write_split(split, languages, options, report);
  // The table counts sentences.
  for (size_t part = 0; part < split.size(); ++part)
    report.parts[part].pairs -= std::ranges::count(split[part], kDocumentLine, &Pair::source);
}

}  // namespace fovea::text
