#include "fovea/tasks/bert/bertscore.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/numbers.h"
#include "fovea/base/strings.h"
#include "fovea/spec/config_problems.h"
#include "fovea/tasks/bert/encode_lines.h"
#include "fovea/tasks/bert/text_encoder.h"

namespace fovea::bert {
namespace {

using Sequence = std::vector<int64_t>;

struct UsualLayer {
  std::string_view name;
  int64_t layer;
};
// bert-score's table, of the models that Fovea reads.
constexpr std::array kUsualLayers = {
    UsualLayer{"bert-base-uncased", 9},
    UsualLayer{"bert-large-uncased", 18},
    UsualLayer{"bert-base-cased-finetuned-mrpc", 9},
    UsualLayer{"bert-base-multilingual-cased", 9},
    UsualLayer{"bert-base-chinese", 8},
    UsualLayer{"scibert_scivocab_uncased", 8},
    UsualLayer{"scibert_scivocab_cased", 9},
    UsualLayer{"scibert_basevocab_uncased", 9},
    UsualLayer{"finbert", 10},
    UsualLayer{"unsup-simcse-bert-base-uncased", 10},
    UsualLayer{"unsup-simcse-bert-large-uncased", 18},
    UsualLayer{"sup-simcse-bert-base-uncased", 10},
    UsualLayer{"sup-simcse-bert-large-uncased", 18},
    UsualLayer{"bert-base-turkish-cased", 10},
};

// The weight of each token: by how few references have it, or 1. Tokens around a text have none.
class TokenWeights {
 public:
  TokenWeights(const TextEncoder& encoder, std::span<const Sequence* const> references, bool idf)
      : encoder_(encoder), idf_(idf), texts_(static_cast<double>(references.size())) {
    if (!idf) return;
    for (const Sequence* reference : references) {
      for (const int64_t token : std::set<int64_t>(reference->begin(), reference->end())) ++counts_[token];
    }
  }
  at::Tensor of(const Sequence& tokens) const {
    at::Tensor weights = at::empty({std::ssize(tokens)}, at::kDouble);
    std::ranges::transform(tokens, weights.mutable_data_ptr<double>(), [this](int64_t token) { return of(token); });
    return weights;
  }

 private:
  double of(int64_t token) const {
    if (!idf_) return encoder_.is_special(token) ? 0 : 1;
    const auto found = counts_.find(token);
    const double count = found == counts_.end() ? 0 : found->second;
    return std::log((texts_ + 1) / (count + 1));
  }
  const TextEncoder& encoder_;
  bool idf_;
  double texts_;
  std::unordered_map<int64_t, double> counts_;
};

double weighted_mean(const at::Tensor& values, const at::Tensor& weights) {
  const double sum = weights.sum().item<double>();
  return sum > 0 ? (values.to(at::kDouble) * weights).sum().item<double>() / sum : 0;
}

// A text as unit vectors [tokens, M] and weights [tokens].
struct EncodedText {
  at::Tensor vectors, weights;
  bool is_empty;
};

BertScore match(const EncodedText& hypothesis, const EncodedText& reference) {
  if (hypothesis.is_empty || reference.is_empty) return {};
  const at::Tensor cosines = at::matmul(hypothesis.vectors, reference.vectors.t());
  BertScore score;
  score.precision = weighted_mean(std::get<0>(cosines.max(1)), hypothesis.weights);
  score.recall = weighted_mean(std::get<0>(cosines.max(0)), reference.weights);
  const double sum = score.precision + score.recall;
  score.f1 = sum != 0 ? 2 * score.precision * score.recall / sum : 0;
  return score;
}

// Every different line once.
class EncodedLines {
 public:
  void add(const TextEncoder& encoder, const std::string& line) {
    if (!numbers_.emplace(line, sequences_.size()).second) return;
    sequences_.push_back(encoder.encode(trim(line)));
  }
  const Sequence& sequence(const std::string& line) const { return sequences_[numbers_.at(line)]; }
  const EncodedText& text(const std::string& line) const { return texts_[numbers_.at(line)]; }

  void encode(const TextEncoder& encoder, int64_t layer, const TokenWeights& weights) {
    texts_.resize(sequences_.size());
    each_vector(encoder, sequences_, layer, [&](size_t i, const at::Tensor& vectors) {
      const bool is_empty = std::ranges::all_of(sequences_[i], encoder.is_special);
      texts_[i] = {vectors / vectors.norm(2, {1}, true), weights.of(sequences_[i]), is_empty};
    });
  }

 private:
  std::unordered_map<std::string, size_t> numbers_;
  std::vector<Sequence> sequences_;
  std::vector<EncodedText> texts_;
};

double rescaled(double value, double baseline) { return (value - baseline) / (1 - baseline); }

std::string signature_of(const BertScoreOptions& options, const TextEncoder& encoder, int64_t layer,
                         size_t references) {
  return cat("nrefs:", references, "|model:", encoder.name, "|layer:", layer, "|idf:", options.idf ? "yes" : "no",
             "|rescaled:", options.baseline.empty() ? "no" : "yes", "|version:", FOVEA_VERSION);
}

std::vector<std::string> read_segments_of(const std::string& path, const std::string& option) {
  if (path != "-") require_file(path, option);
  return read_lines(path);
}

// Options of evaluate that the other metrics read; a figure must not look as if it were made with them.
void add_unread(const metrics::EvaluateOptions& evaluate, Problems& problems) {
  constexpr std::array<std::string_view, 10> kReadOrNamed = {"reference", "input",      "metrics",    "sentence-level",
                                                             "json",      "score-only", "confidence", "baseline",
                                                             "bands",     "bands-by"};
  for (const std::string_view name : changed_fields(evaluate))
    problems.add_if(std::ranges::find(kReadOrNamed, name) == kReadOrNamed.end(),
                    cat("--", name, ": bertscore does not read it; leave it out"));
}

void check_bertscore(const metrics::EvaluateOptions& evaluate, const BertScoreOptions& options) {
  Problems problems;
  problems.add_ranges(options);
  problems.add_if(evaluate.metrics.size() != 1,
                  "--metrics: bertscore is computed alone; give the other metrics a call of their own");
  problems.add_if(options.model.empty(), "--bertscore-model is missing; expected the folder of an encoder");
  problems.add_if(evaluate.reference.empty(), "--reference: got none; expected at least one file of references");
  problems.add_if(evaluate.confidence || !evaluate.baseline.empty(),
                  "--confidence and --baseline: bertscore has no intervals; leave them out");
  problems.add_if(
      evaluate.bands > 0 || !evaluate.bands_by.empty(),
      "--bands and --bands-by: bertscore has no groups; sort its --sentence-level scores, or leave them out");
  add_unread(evaluate, problems);
  size_t readers = evaluate.input == "-" ? 1 : 0;
  for (const std::string& path : evaluate.reference) readers += path == "-" ? 1 : 0;
  problems.add_if(readers > 1, "--reference: '-' is standard input, which another file comes from; name a file");
  problems.throw_if_any();
}

double six_digits(double value) { return number_in<double>(fixed(value, 6)).value_or(value); }

nlohmann::ordered_json figures(const BertScore& score) {
  return {
      {"precision", six_digits(score.precision)}, {"recall", six_digits(score.recall)}, {"f1", six_digits(score.f1)}};
}

std::string sentence(const metrics::EvaluateOptions& evaluate, const BertScore& score) {
  if (evaluate.score_only) return cat(fixed(score.f1, 6), "\n");
  if (evaluate.json) return figures(score).dump() + "\n";
  return cat(fixed(score.precision, 6), " ", fixed(score.recall, 6), " ", fixed(score.f1, 6), "\n");
}

// "P 0.912345" and the like, or JSON.
std::string summary(const metrics::EvaluateOptions& evaluate, const BertScore& mean, const std::string& signature) {
  if (evaluate.score_only) return cat(fixed(mean.f1, 6), "\n");
  if (evaluate.json) {
    nlohmann::ordered_json json = {{"name", "BERTScore"}};
    json.update(figures(mean));
    json["signature"] = signature;  // has the name of a folder, which is bytes
    return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  }
  return cat("P ", fixed(mean.precision, 6), "\nR ", fixed(mean.recall, 6), "\nF1 ", fixed(mean.f1, 6),
             "\nsignature BERTScore|", signature, "\n");
}

}  // namespace

int64_t usual_layer(const std::string& name) {
  const auto* const found = std::ranges::find(kUsualLayers, name, &UsualLayer::name);
  return found == kUsualLayers.end() ? -1 : found->layer;
}

BertScore read_baseline(const std::string& path, int64_t layer) {
  require_file(path, "--bertscore-baseline");
  return parse_baseline(read_lines(path), path, layer);
}

std::vector<BertScore> bert_scores(const TextEncoder& encoder, int64_t layer, bool idf,
                                   std::span<const std::string> hypotheses,
                                   std::span<const std::vector<std::string>> references) {
  const c10::InferenceMode guard;
  EncodedLines lines;
  for (const std::string& line : hypotheses) lines.add(encoder, line);
  for (const std::vector<std::string>& list : references) {
    for (const std::string& line : list) lines.add(encoder, line);
  }
  std::vector<const Sequence*> counted;
  for (const std::vector<std::string>& list : references) {
    for (const std::string& line : list) counted.push_back(&lines.sequence(line));
  }
  lines.encode(encoder, layer, TokenWeights(encoder, counted, idf));
  std::vector<BertScore> scores;
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    BertScore best = match(lines.text(hypotheses[i]), lines.text(references[0][i]));
    for (const std::vector<std::string>& list : references.subspan(1)) {
      const BertScore other = match(lines.text(hypotheses[i]), lines.text(list[i]));
      best = {std::max(best.precision, other.precision), std::max(best.recall, other.recall),
              std::max(best.f1, other.f1)};
    }
    scores.push_back(best);
  }
  return scores;
}

void evaluate_bertscore(const metrics::EvaluateOptions& evaluate, const BertScoreOptions& options, std::ostream& out) {
  check_bertscore(evaluate, options);
  const TextEncoder encoder = load_encoder(options.model, options, "--bertscore-model");
  const int64_t wanted = options.layer < 0 ? usual_layer(encoder.name) : options.layer;
  const int64_t layer = layer_of(encoder, wanted, "--bertscore-layer");
  BertScore baseline;
  if (!options.baseline.empty()) baseline = read_baseline(options.baseline, layer);
  std::vector<std::vector<std::string>> references;
  for (const std::string& path : evaluate.reference) references.push_back(read_segments_of(path, "--reference"));
  const std::vector<std::string> hypotheses = read_segments_of(evaluate.input, "--input");
  if (hypotheses.empty()) throw Error("evaluate: got no translations; expected a line for each reference");
  for (size_t r = 0; r < references.size(); ++r) {
    if (references[r].size() != hypotheses.size())
      throw Error(cat("evaluate: got ", hypotheses.size(), " translations and ", references[r].size(), " references (",
                      evaluate.reference[r], "); expected as many lines of each"));
  }
  BertScore mean;
  const auto count = static_cast<double>(hypotheses.size());
  for (const BertScore& raw : bert_scores(encoder, layer, options.idf, hypotheses, references)) {
    const BertScore score = {rescaled(raw.precision, baseline.precision), rescaled(raw.recall, baseline.recall),
                             rescaled(raw.f1, baseline.f1)};
    if (evaluate.sentence_level) out << sentence(evaluate, score);
    mean.precision += score.precision / count;
    mean.recall += score.recall / count;
    mean.f1 += score.f1 / count;
  }
  if (!evaluate.sentence_level)
    out << summary(evaluate, mean, signature_of(options, encoder, layer, references.size()));
}

}  // namespace fovea::bert
