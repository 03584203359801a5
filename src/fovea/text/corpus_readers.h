#pragma once
#include <string>
#include <string_view>

#include "fovea/text/corpus.h"

// One reader per format. Each throws an Error with the path, and the line if any, for text that it cannot read.
namespace fovea::text {

Bitext read_po(const std::string& path);
Bitext read_tsv(const std::string& path, int64_t source_column, int64_t target_column);
Bitext read_aligned(const std::string& source, const std::string& target);

// "en" stands for "en-US", and the other way round.
bool same_language(std::string_view a, std::string_view b);

// The two languages wanted; empty: the source language of the file; the only other one.
struct Languages {
  std::string source, target;
};
Bitext read_tmx(const std::string& path, const Languages& wanted);
Bitext read_xliff(const std::string& path);

// Two trees of LibreOffice's help pages: paragraphs of one file with the same id translate each other.
Bitext read_help(const std::string& source_folder, const std::string& target_folder);
// Returns the folder of a language's pages under `folder`, into which Debian's packages of the help were unpacked.
std::string find_help(const std::string& folder, const std::string& language);

}  // namespace fovea::text
