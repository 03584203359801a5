#include "fovea/tasks/image/load_model.h"

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/data/image_batches.h"
#include "fovea/models/load_decoder.h"
#include "fovea/models/open_checkpoint.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/nn/checkpoint_files.h"

namespace fovea::image {

LoadedModel load_model(const TrainedModelOptions& options) {
  const nn::Checkpoint checkpoint = models::open_checkpoint(options.model, {kTask});
  const std::string origin = checkpoint.folder / nn::kConfigFile;
  const ImageConfig config = nn::config_of<ImageConfig>(checkpoint.identity, origin);
  if (shape_of(config).values() == 0) throw Error(cat(origin, ": image-shape: expected the size of the images"));
  if (config.dim_vocabs.front() != data::kImageSymbols)
    throw Error(cat(origin, ": dim-vocabs: expected [", data::kImageSymbols, "], the number of symbols"));
  return {models::load_decoder(checkpoint, config, options), config};
}

}  // namespace fovea::image
