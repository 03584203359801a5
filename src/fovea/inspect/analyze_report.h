#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fovea/inspect/attention_statistics.h"
#include "fovea/spec/model_config.h"

// The figures of `fovea analyze`, for models of every task.
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

// One of several --model whose figures become one mean.
struct ComparedModel {
  std::string name;  // as --model has it
  ModelConfig config;
  std::map<std::string, std::string> units = {};    // what decides which units a text has: names and contents
  std::map<std::string, std::string> options = {};  // names and values of options that decide how it reads a text
};

// Throws an Error that names --model unless `other` has the layers, the heads, the mechanisms, the vocabularies and the
// options of `first`: figures of other attentions, or of other units, have no common mean.
void require_one_shape(const ComparedModel& first, const ComparedModel& other);

}  // namespace fovea::inspect
