#pragma once
#include <string>
#include <vector>

#include "fovea/nn/checkpoint.h"
#include "fovea/spec/model_config.h"
#include "fovea/text/vocab.h"

// Translation models of other systems.
namespace fovea::models {

inline constexpr float kImpossibleLogit = -1e9F;  // its probability is 0 in float32

// A translation model by our names of parameters (nn/stack.h).
struct ForeignModel {
  EncoderDecoderConfig config;
  nn::NamedTensors weights;
  text::Vocab source, target;
};

// Files that the caller of a converter names.
struct ForeignFiles {
  std::string model;                // file or folder
  std::vector<std::string> vocabs;  // SentencePiece models of the source and the target; may be empty where the folder
                                    // has them
  std::string vocab_ids;            // the numbers of pieces, if they are not those of the SentencePiece models
  bool source_eos = false;          // the source ends with </s> although the folder leaves it to its tokeniser
};

// The tables of a model whatever is tied in it. `output` is undefined if it is the target's. A model without a bias has
// zeros.
struct ModelTables {
  at::Tensor source, target;  // [V, M]
  at::Tensor output, bias;    // [V, M], [V]
};
ModelTables tables_of(const ForeignModel& model);
// Adds them to the weights, a bias if it is defined, and says in the configuration what is tied: tables that are one
// tensor.
void add_tables(const ModelTables& tables, ForeignModel& model);

// The first mechanism of a layer that is not full attention, which no other system computes; empty if all are full.
std::string first_sparse_attention(const ModelConfig& config);

// Sinusoidal positions whose table begins with these rows [P, M], which another system stored or computes; throws an
// Error that begins with `origin` if no scheme of ours gives them.
std::string positions_of_table(const at::Tensor& table, const std::string& origin);

// Throws an Error that begins with `origin` if the weights are not exactly those of the configuration.
nn::Checkpoint checkpoint_of(const ForeignModel& model, const std::string& origin);

}  // namespace fovea::models
