#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "fovea/text/corpus.h"
#include "fovea/text/corpus_split.h"

namespace fovea::text {

// The folder that is written into, made if it is not there; one that was made and stays empty goes again. Throws where
// nothing can be written, so that this shows before hours of reading.
class CorpusFolder {
 public:
  explicit CorpusFolder(const std::string& path);
  ~CorpusFolder();
  CorpusFolder(const CorpusFolder&) = delete;
  CorpusFolder& operator=(const CorpusFolder&) = delete;

 private:
  std::vector<std::filesystem::path> made_;  // the innermost first
};

// The suffixes of the files: a language that a file states is used only if it is short and of plain letters.
void name_languages(Bitext& bitext);

// Throws the Error that tells why no pair is left.
[[noreturn]] void nothing_left(const CorpusReport& report);

// Writes all files of a split or, where one cannot be written, none; `report` gets the parts and the files' names.
void write_split(const Split& split, const Bitext& languages, const CorpusOptions& options, CorpusReport& report);

}  // namespace fovea::text
