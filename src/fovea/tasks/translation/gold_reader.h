#pragma once
#include <cstdint>
#include <string>

#include "fovea/analysis/alignment.h"
#include "fovea/base/file.h"
#include "fovea/tasks/translation/pair_reader.h"

namespace fovea::translation {

// The lines of a gold alignment in step with a text. Every Error names --gold and the file.
class GoldReader {
 public:
  // Throws an Error if the file cannot be read.
  GoldReader(const std::string& path, const analysis::LinkFormat& format);
  // The links of the next pair. Throws an Error if there is no line, or one that does not belong to this pair.
  analysis::GoldLinks next(const TextPair& pair);
  // Throws an Error if the file has lines after the text's last pair, or no links.
  void finish();

 private:
  std::string name() const;

  analysis::LinkFormat format_;
  LineReader lines_;
  int64_t pairs_ = 0;
  bool has_links_ = false;
};

}  // namespace fovea::translation
