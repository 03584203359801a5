#include "fovea/tasks/captions/config.h"

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::captions {
namespace {

data::ImageShape shape_of(const CaptionConfig& config) {
  return {config.image_shape.at(0), config.image_shape.at(1), config.image_shape.at(2)};
}

bool reads_images(const CaptionConfig& config) { return shape_of(config) != data::ImageShape{}; }

bool is_possible_shape(const CaptionConfig& config) {
  if (config.image_shape.size() != 3) return false;
  const auto [height, width, channels] = shape_of(config);
  return !reads_images(config) || (height > 0 && width > 0 && (channels == 1 || channels == 3) &&
                                   width <= data::kMostImageValues / channels / height);
}

std::string description(const CaptionConfig& config) {
  if (reads_images(config)) return cat("images of ", print(shape_of(config)), " (height x width x channels)");
  return cat("features of width ", thousands(config.dim_features));
}

}  // namespace

void validate(const CaptionConfig& config) {
  fovea::validate(config);
  Problems problems;
  const bool is_possible = is_possible_shape(config);
  problems.add_if(!is_possible, cat("--image-shape: expected height, width and channels (1 or 3), with at most ",
                                    thousands(data::kMostImageValues), " values in an image"));
  problems.add_if(is_possible && reads_images(config) && config.dim_features > 0,
                  "--dim-features is for features and --image-shape for images; expected one of them");
  problems.add_if(
      is_possible && (config.image_shape[0] % config.patch_size != 0 || config.image_shape[1] % config.patch_size != 0),
      cat("--patch-size ", config.patch_size, " does not divide --image-shape"));
  problems.add_if(find_scheme<ImagePositions>(parse_positions(config.transformer_positions)).has_value(),
                  "--transformer-positions image is for models that write images; captions need another scheme");
  problems.add_if(uses_clauses(config), "--attention-encoder: images have no clauses; expected another mechanism");
  problems.add_if(config.dim_vocabs.size() != 1,
                  cat("--dim-vocabs has ", config.dim_vocabs.size(), " numbers; expected one"));
  problems.throw_if_any();
}

nn::VectorInput vector_input(const CaptionConfig& config) {
  if (!reads_images(config)) return {.width = config.dim_features};
  const int64_t patch = config.patch_size;
  const auto [height, width, channels] = shape_of(config);
  return {.width = patch * patch * channels, .places = height / patch * (width / patch)};
}

CaptionConfig with_data(CaptionConfig config, const Inputs& inputs, int64_t vocabulary) {
  const int64_t wanted = config.dim_vocabs.at(0);
  if (wanted != 0 && wanted != vocabulary)
    throw Error(cat("--dim-vocabs: got ", wanted, ", but the vocabulary of --vocabs has ", vocabulary,
                    " pieces; leave the option out, its size is the vocabulary's"));
  config.dim_vocabs = {vocabulary};
  if (!reads_images(config) && config.dim_features == 0) {
    const data::ImageShape shape = inputs.image_shape();
    config.image_shape = {shape.height, shape.width, shape.channels};
    if (!inputs.are_images()) config.dim_features = inputs.width();
  }
  require_fitting(config, inputs, "--features");
  return config;
}

void require_fitting(const CaptionConfig& config, const Inputs& inputs, const std::string& option) {
  const bool fits = inputs.are_images() ? inputs.image_shape() == shape_of(config)
                                        : !reads_images(config) && inputs.width() == config.dim_features;
  if (fits) return;
  CaptionConfig got;
  const data::ImageShape shape = inputs.image_shape();
  got.image_shape = {shape.height, shape.width, shape.channels};
  got.dim_features = inputs.width();
  throw Error(cat(option, ": got ", description(got), ", but the model reads ", description(config)));
}

}  // namespace fovea::captions
