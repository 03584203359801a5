#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/data/parallel_lines.h"
#include "fovea/models/translation/languages.h"
#include "fovea/models/translation/loaded_model.h"
#include "fovea/tasks/translation/encoded_line.h"
#include "fovea/tasks/translation/score_pairs.h"

// Parallel text for a trained model, pair by pair.
namespace fovea::translation {

struct TextPair {
  std::string source, target;
  int64_t line = 0;  // in both files, from 1
};

// Throws an Error unless the files of --train-sets can be read; '-' is standard input.
void require_parallel_text(const std::vector<std::string>& files);

// Pairs of two files, in windows that long lines end early.
class PairReader {
 public:
  explicit PairReader(const std::vector<std::string>& files) : lines_(files.at(0), files.at(1)) {}
  // Returns at most `count` pairs; none at the end. Throws an Error for files of unequal lengths and broken UTF-8.
  std::vector<TextPair> next(size_t count);

 private:
  data::ParallelLines lines_;
};

// Turns pairs into a model's tokens, with the marks of languages before lines without one. Longer lines than its limit
// are cut, with a warning per pair.
class PairEncoder {
 public:
  PairEncoder(const LoadedModel& model, int64_t max_length, LanguageMarks marks = {});
  std::vector<SentencePair> encode(const std::vector<TextPair>& pairs);
  void report() const;  // at the end

 private:
  void warn_of_cuts(int64_t line, const Encoded& source, const Encoded& target);

  const LoadedModel& model_;
  LineLimit limit_;
  LanguageMarks marks_;
  LineWarnings cut_;
  int64_t unknown_ = 0;  // tokens of text that the vocabularies lack
};

}  // namespace fovea::translation
