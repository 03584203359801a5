#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fovea/metrics/chunks.h"

// Finds out how the labels of a data set mark chunks, if they do.
namespace fovea::metrics {

using LabelSentences = std::span<const std::vector<std::string>>;

// Labels or chunks that differ from the others: how many, and the first one's sentence and word.
struct OddLabels {
  int64_t count = 0;
  size_t sentence = 0, word = 0;
  std::vector<std::string> names = {};  // of the labels, each once
};

struct FoundNotation {
  LabelNotation notation;
  int64_t chunks = 0;
  OddLabels other_chunks;  // chunks that are not written in the dialect of most chunks
  OddLabels lookalikes;    // words whose labels resemble those of chunks or O, and are neither in this form
};

// The part of the notation that is known already; the rest is looked for.
struct KnownNotation {
  std::optional<LabelForm> form = std::nullopt;
  std::optional<LabelDialect> dialect = std::nullopt;
};

// Decides by all labels together: single letters or beginnings of labels that parts of speech have, too, mark chunks
// only if no others of their kind are there and their order is that of chunks. The dialect is the one in which most
// chunks are written. Labels that mark no chunks are of the form kWordsAlone and the dialect kWords, unless another one
// is known.
FoundNotation find_notation(LabelSentences sentences, const KnownNotation& known = {});

// The form in which to read labels whose model knows labels of the form `own`: `own` if one of them has it, or another
// one in which they mark chunks.
LabelForm form_to_read(LabelSentences sentences, const LabelForm& own);

}  // namespace fovea::metrics
