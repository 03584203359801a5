#pragma once
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "fovea/base/fields.h"
#include "fovea/data/image_set.h"
#include "fovea/spec/model_config.h"

namespace fovea::image {

inline constexpr const char* kTask = "image";

// The configuration that an image model's checkpoint keeps: the decoder-only model, and which images it is for.
struct ImageConfig : DecoderConfig {
  ImageConfig() {
    transformer_positions = "image+rotary";
    transformer_dropout = 0;
  }

  std::vector<int64_t> image_shape = {0, 0, 0};  // height, width, channels; 0: not known before images are loaded
  std::vector<int64_t> crop;                     // height and width; empty: whole images

  static constexpr auto fields() {
    using C = ImageConfig;
    return std::tuple_cat(
        std::tuple(at_most(2, number("crop", &C::crop,
                                     "train on a part of each image, N rows high and N columns wide: at a random place "
                                     "in training, in the middle elsewhere",
                                     1, data::kMostImageValues)),
                   at_most(3, number("image-shape", &C::image_shape,
                                     "height, width and channels, which the images must have; 0: as they are", 0,
                                     data::kMostImageValues))),
        DecoderConfig::fields());
  }
};

// Throws an Error that names every forbidden combination found, one after the other in one line.
void validate(const ImageConfig& config);

// The shape that the model reads.
data::ImageShape shape_of(const ImageConfig& config);

// The configuration of a model for these images: their shape, or that of --crop, and the number of symbols. Throws an
// Error if the options ask for another one.
ImageConfig with_images(ImageConfig config, const data::ImageSet& images);

// Throws an Error unless the model reads these images: of its shape or, with --crop, at least as large. `option` named
// them.
void require_fitting(const ImageConfig& config, const data::ImageSet& images, const std::string& option);

}  // namespace fovea::image
