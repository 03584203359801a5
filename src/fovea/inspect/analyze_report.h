#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/analysis/plot.h"
#include "fovea/inspect/attention_statistics.h"
#include "fovea/spec/run_options.h"

// The output of `fovea analyze`, for models of every task.
namespace fovea::inspect {

// The figures of one model.
struct ModelFigures {
  std::string model;
  std::vector<AttentionRecord> records;
  std::vector<SortRecord> sorts;
  std::vector<LabelRecord> labels;
};
ModelFigures figures_of(const std::string& model, const AttentionStatistics& statistics);

// The text that the figures describe.
struct AnalyzedText {
  std::string unit;                 // word or piece
  int64_t sequences = 0;            // pairs of sentences, or segments
  std::string sequence_name;        // "pairs"
  std::vector<std::string> labels;  // names of labels; empty: no figures by label
  std::string by;                   // --by
};

// Tables or one JSON object. With several models each figure is the mean over them, with its deviation beside it.
// Throws an Error unless all of them have the same records.
std::string analysis_table(const std::vector<ModelFigures>& models, const AnalyzedText& text);
std::string analysis_json(const std::vector<ModelFigures>& models, const AnalyzedText& text);

// One mechanism of a sweep.
struct SweepPoint {
  std::string spec;  // as given
  double loss = 0;   // cross-entropy per unit, in nats
  double bleu = -1;  // negative: not measured
};
struct Sweep {
  std::string unit;                  // of the loss: "target token"
  int64_t units = 0, beam_size = 0;  // without a beam there is no BLEU
  std::string tokenize = {};         // of BLEU
  std::vector<SweepPoint> points;
};
std::string sweep_table(const Sweep& sweep);
std::string sweep_json(const Sweep& sweep);
// Specs that differ in one number, such as topk(4) and topk(8), are a curve over that number; others a level line.
analysis::Plot sweep_plot(const Sweep& sweep);
std::string sweep_svg(const Sweep& sweep);

// The mechanisms that an entry of --sweep sets: "cross=topk(4)" one sort of attention, "topk(4)" all.
AttentionOverride override_of(const std::string& entry);
// Like override_of(), over other mechanisms: an entry for all sorts replaces them, one for a sort leaves the others.
AttentionOverride override_by(const AttentionOverride& mechanisms, const std::string& entry);
// Throws a UsageError for an entry of a sort of attention that a decoder alone does not have.
void require_decoder_entry(const std::string& entry);

// `cells` under `header`, in columns.
std::string aligned_table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& cells);

}  // namespace fovea::inspect
