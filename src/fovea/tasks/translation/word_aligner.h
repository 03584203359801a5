#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "fovea/analysis/alignment.h"
#include "fovea/models/translation/loaded_model.h"
#include "fovea/tasks/translation/cross_attention.h"
#include "fovea/tasks/translation/pair_reader.h"
#include "fovea/tasks/translation/translator.h"

namespace fovea::translation {

// Aligns the words of parallel text by the cross-attention of one model.
class WordAligner {
 public:
  struct Options {
    LinkChoice choice;
    BatchLimits limits;
    int64_t max_length = 1000;  // longer lines, in tokens, are cut, with a warning
    bool reversed = false;      // the model translates from the text's target side to its source side
  };
  // Throws an Error if the model lacks the layer or the head of `options`.
  WordAligner(LoadedModel loaded, const Options& options);

  // Returns the links of each pair, the text's source first whatever the model's direction. A pair with a side without
  // words has none.
  std::vector<analysis::Links> align(const std::vector<TextPair>& pairs);

  // Shows the weights of each pair whose sides both have words, in the model's direction.
  using See = std::function<void(size_t index, const WordPair& pair, const at::Tensor& weights)>;
  void see(const std::vector<TextPair>& pairs, const See& see);

  const ModelConfig& model() const { return loaded_.model->config(); }
  void report() const { warn_of_cut_lines(cut_.count(), limit_); }  // at the end

 private:
  text::WordPieces encode(const text::Vocab& vocab, const std::string& line, int64_t line_number);

  LoadedModel loaded_;
  Options options_;
  LineLimit limit_;
  LineWarnings cut_;
};

}  // namespace fovea::translation
