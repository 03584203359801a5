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

}  // namespace fovea::text
