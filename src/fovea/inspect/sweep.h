#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/analysis/plot.h"
#include "fovea/inspect/analyze_options.h"
#include "fovea/spec/run_options.h"

// Measurements of a model under the mechanisms of --sweep, for models of every task.
namespace fovea::inspect {

// One mechanism of a sweep.
struct SweepPoint {
  std::string spec;           // as given
  double loss = 0;            // cross-entropy per unit, in nats
  double bleu = -1;           // negative: not measured
  double bits_per_byte = -1;  // of bytes and characters; negative: of other units
};
struct Sweep {
  std::string unit;                  // of the loss: "target token"
  int64_t units = 0, beam_size = 0;  // without a beam there is no BLEU
  std::string tokenize = {};         // of BLEU
  std::vector<SweepPoint> points;
};
// Specs that differ in their first number, such as topk(4) and topk(8), are a curve over that number; others a level
// line.
analysis::Plot sweep_plot(const Sweep& sweep);
// Writes the table or the JSON object to standard output, and the picture to --output if it names a file.
void write_sweep(const AnalysisOptions& options, const Sweep& sweep);

// The mechanisms that an entry of --sweep sets, "cross=topk(4)" for one sort of attention or "topk(4)" for all, over
// other mechanisms: an entry for all sorts replaces them, one for a sort leaves the others.
AttentionOverride override_by(const AttentionOverride& mechanisms, const std::string& entry);
// Throws a UsageError if an entry is for a sort of attention that a decoder alone does not have.
void require_decoder_entries(const std::vector<std::string>& entries);

// The options with the mechanisms of an entry of --sweep.
template <class Options>
Options with_mechanism(const Options& options, const std::string& entry) {
  Options own = options;
  static_cast<AttentionOverride&>(own) = override_by(own, entry);
  return own;
}

}  // namespace fovea::inspect
