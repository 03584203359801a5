#pragma once
#include "fovea/nn/checkpoint.h"
#include "fovea/nn/decoder_only.h"
#include "fovea/spec/run_options.h"

namespace fovea::models {

// Returns the decoder-only model of a checkpoint, in evaluation, on its device, in its precision, and with the
// mechanisms that `options` replace. Sets the threads. `config` is the checkpoint's, with one vocabulary size. Throws
// an Error if the tensors disagree with it, before a model of its sizes takes memory.
nn::DecoderOnly load_decoder(const nn::Checkpoint& checkpoint, const DecoderConfig& config,
                             const TrainedModelOptions& options);

}  // namespace fovea::models
