#pragma once
#include <string>
#include <vector>

#include "fovea/text/corpus.h"

// `fovea corpus --documents`: sentences keep their order, and whole documents are dropped or set aside.
namespace fovea::text {

struct Document {
  std::vector<Pair> pairs;
};

struct DocumentText {
  std::string source_lang, target_lang;
  std::vector<Document> documents;
};

// Throws a UsageError for options that do not go with --documents.
void check_document_options(const CorpusOptions& options);

// Reads aligned text and cleans it. Throws an Error if documents begin at other lines of the two files.
DocumentText read_documents(const CorpusOptions& options, CorpusReport& report);

// Splits the documents and writes the parts, a line <d> before each document on both sides.
void write_documents(DocumentText text, const CorpusOptions& options, CorpusReport& report);

}  // namespace fovea::text
