#pragma once
#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "fovea/base/fields.h"
#include "fovea/metrics/evaluate.h"
#include "fovea/spec/run_options.h"
#include "fovea/tasks/bert/baseline.h"

// BERTScore (Zhang et al. 2020), as the package bert-score computes it: each token of one text is matched with the most
// similar token of the other, by the cosine of their vectors in one layer of an encoder.
namespace fovea::bert {

struct TextEncoder;

inline constexpr const char* kBertScore = "bertscore";  // of --metrics

struct BertScoreOptions : MachineOptions {
  std::string model, baseline;
  int64_t layer = -1;
  bool idf = false;

  static constexpr auto fields() {
    using C = BertScoreOptions;
    return std::tuple_cat(
        std::tuple(
            field("bertscore-model", &C::model,
                  "the encoder: a folder of BERT's (Hugging Face), of a run or of a checkpoint; of a translation model "
                  "its source side"),
            number(
                "bertscore-layer", &C::layer,
                "the layer whose vectors are compared (0: embeddings; -1: that of bert-score's table by the folder's "
                "name, else the last)",
                -1, 1000),
            field("bertscore-idf", &C::idf, "weight tokens by how few references have them"),
            field("bertscore-baseline", &C::baseline,
                  "rescale by the row of the layer in this file of baselines: LAYER,P,R,F after a line of names")),
        MachineOptions::fields());
  }
};

// The layer that bert-score takes for a model of this name; -1 if it has none.
int64_t usual_layer(const std::string& name);

// The row of a layer in a file of baselines. Throws an Error that names the file if it has none.
BertScore read_baseline(const std::string& path, int64_t layer);

// Returns one score for each hypothesis. Among several references the best counts, for each figure by itself;
// references[r] are as many as the hypotheses.
std::vector<BertScore> bert_scores(const TextEncoder& encoder, int64_t layer, bool idf,
                                   std::span<const std::string> hypotheses,
                                   std::span<const std::vector<std::string>> references);

// `fovea evaluate --metrics bertscore`: writes the means and a signature, or with --sentence-level a line "P R F1" for
// each hypothesis.
void evaluate_bertscore(const metrics::EvaluateOptions& evaluate, const BertScoreOptions& options, std::ostream& out);

}  // namespace fovea::bert
