#pragma once
#include <span>
#include <vector>

#include "fovea/models/search_model.h"
#include "fovea/models/written_text.h"
#include "fovea/nn/model.h"
#include "fovea/search/beam.h"
#include "fovea/spec/run_options.h"
#include "fovea/tasks/captions/config.h"
#include "fovea/tasks/captions/inputs.h"
#include "fovea/text/vocab.h"

namespace fovea::captions {

struct LoadedCaptionModel {
  nn::Model model;
  CaptionConfig config;
  text::Vocab vocab;
};

// Returns the model of a run or checkpoint, in evaluation, on its device, in its precision, and with the mechanisms
// that `options` replace. Sets the threads.
LoadedCaptionModel load_caption_model(const TrainedModelOptions& options);

struct CaptionerOptions {
  search::BeamOptions beam;  // vocabulary, start, eos and never are filled in
  int64_t max_length = 50;   // tokens of a caption, at most
  bool allow_unk = false;    // or captions do not have the unknown word
  ops::PrepackedLayer::Format layers =
      ops::PrepackedLayer::Format::kExact;  // of the decoder's steps and the output layer
};

// Writes captions, by a model whose weights do not change while this lives.
class Captioner {
 public:
  // `vocab` must outlive this.
  Captioner(nn::Model model, const text::Vocab& vocab, const CaptionerOptions& options);

  // Computes all images together. Results in the order of the images (numbers of `inputs`), each best first. Throws
  // Interrupted when a signal comes.
  std::vector<std::vector<models::WrittenText>> run(const Inputs& inputs, std::span<const int64_t> images);

 private:
  models::SearchModel model_;
  const text::Vocab& vocab_;
  CaptionerOptions options_;
};

}  // namespace fovea::captions
