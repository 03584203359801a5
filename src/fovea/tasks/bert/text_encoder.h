#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/models/batches.h"
#include "fovea/models/trained_model.h"
#include "fovea/nn/model.h"
#include "fovea/spec/run_options.h"
#include "fovea/tasks/bert/hugging_face.h"

namespace fovea::bert {

// The encoder of a trained model and its vocabulary: of a converted BERT, of a tagger, or of a translation model (its
// source side).
struct TextEncoder {
  nn::Model model;
  // A line as one sequence, with the tokens around it; what the model's positions do not reach is left out.
  std::function<std::vector<int64_t>(std::string_view line)> encode;
  std::function<std::string(int64_t token)> piece;
  std::function<bool(int64_t token)> is_special;  // stands for no text
  std::string name = {};                          // of the model's folder

  int64_t depth() const { return model->config().enc_depth; }  // layers
  // Sequences -> the embeddings and the outputs of the first `count` layers, each [tokens of all, M].
  std::vector<at::Tensor> layers(std::span<const models::Sentence* const> sequences, int64_t count) const;
};

// `path` is a folder of Hugging Face's, a run or a checkpoint; `option` named it. Sets the threads. Throws an Error for
// a model of a task without an encoder.
TextEncoder load_encoder(const std::string& path, const MachineOptions& machine, const std::string& option);

// The encoder of a converted BERT, or of a tagger: `trained` is a model of one of these two tasks.
struct LoadedEncoder {
  nn::Model model;
  EncoderConfig config;
  text::EncoderVocab vocab;
};
LoadedEncoder load_encoder_only(const models::TrainedModel& trained);

}  // namespace fovea::bert
