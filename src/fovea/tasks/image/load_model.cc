#include "fovea/tasks/image/load_model.h"

#include <optional>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/data/image_batches.h"
#include "fovea/models/trained_model.h"

namespace fovea::image {

LoadedModel load_model(const TrainedModelOptions& options) {
  const models::TrainedModel trained(options, {kTask});
  const auto config = trained.config<ImageConfig>();
  if (shape_of(config).values() == 0)
    throw Error(cat(trained.path(nn::kConfigFile), ": image-shape: expected the size of the images"));
  trained.require_vocabulary(config.dim_vocabs, data::kImageSymbols, "the number of symbols");
  return {trained.with_weights(nn::Model(config, std::nullopt, nn::MediaInput{.image_shape = config.image_shape})),
          config};
}

}  // namespace fovea::image
