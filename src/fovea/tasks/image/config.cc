#include "fovea/tasks/image/config.h"

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/data/image_batches.h"

namespace fovea::image {
namespace {

bool is_unknown(const data::ImageShape& shape) { return shape == data::ImageShape{}; }

bool is_possible(const data::ImageShape& shape) {
  const auto [height, width, channels] = shape;
  return height > 0 && width > 0 && (channels == 1 || channels == 3) &&
         width <= data::kMostImageValues / channels / height;
}

// Learned positions must reach the last value.
std::string problem_of_positions(const ImageConfig& config) {
  const data::ImageShape shape = shape_of(config);
  if (!has_learned_positions(config) || shape.values() <= config.max_positions) return "";
  return cat("--transformer-positions learned: an image of ", print(shape), " has ", shape.values(),
             " values; --max-positions is ", config.max_positions, "; raise it, or choose the positions image");
}

}  // namespace

void validate(const ImageConfig& config) {
  fovea::validate(config);  // first: has_learned_positions() needs positions that parse
  Problems problems;
  const std::vector<int64_t>& crop = config.crop;
  problems.add_if(!crop.empty() && crop.size() != 2,
                  cat("--crop has ", crop.size(), " number; expected two, height and width"));
  const bool is_shape =
      config.image_shape.size() == 3 && (is_unknown(shape_of(config)) || is_possible(shape_of(config)));
  problems.add_if(!is_shape, cat("--image-shape: expected height, width and channels (1 or 3), with at most ",
                                 thousands(data::kMostImageValues), " values in an image"));
  const bool is_cut = is_shape && crop.size() == 2 && !is_unknown(shape_of(config));
  problems.add_if(is_cut && (crop[0] != config.image_shape[0] || crop[1] != config.image_shape[1]),
                  "--crop and --image-shape have different heights or widths; leave one of them out");
  if (is_shape) {
    const std::string problem = problem_of_positions(config);
    problems.add_if(!problem.empty(), problem);
  }
  problems.throw_if_any();
}

data::ImageShape shape_of(const ImageConfig& config) {
  return {config.image_shape.at(0), config.image_shape.at(1), config.image_shape.at(2)};
}

ImageConfig with_images(ImageConfig config, const data::ImageSet& images) {
  if (const int64_t symbols = config.dim_vocabs.at(0); symbols != 0 && symbols != data::kImageSymbols)
    throw Error(cat("--dim-vocabs: got ", symbols, ", but images have ", data::kImageSymbols,
                    " symbols (256 values and the beginning); leave the option out"));
  config.dim_vocabs = {data::kImageSymbols};
  if (is_unknown(shape_of(config))) {
    data::ImageShape shape = images.shape();
    if (!config.crop.empty()) shape.height = config.crop[0], shape.width = config.crop[1];
    config.image_shape = {shape.height, shape.width, shape.channels};
  }
  require_fitting(config, images, "--train-sets");
  if (const std::string problem = problem_of_positions(config); !problem.empty()) throw Error(problem);
  return config;
}

void require_fitting(const ImageConfig& config, const data::ImageSet& images, const std::string& option) {
  const data::ImageShape wanted = shape_of(config), got = images.shape();
  const bool is_cut = !config.crop.empty();
  const bool fits = is_cut ? got.height >= wanted.height && got.width >= wanted.width && got.channels == wanted.channels
                           : got == wanted;
  if (fits) return;
  throw Error(cat(option, ": got images of ", print(got), " (height x width x channels), but the model reads ",
                  print(wanted), is_cut ? ", cut from images that are at least as large" : "",
                  "; expected images of that size"));
}

}  // namespace fovea::image
