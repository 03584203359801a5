#pragma once
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "fovea/data/image.h"
#include "fovea/nn/vector_input.h"
#include "fovea/spec/model_config.h"
#include "fovea/tasks/captions/inputs.h"

namespace fovea::captions {

inline constexpr const char* kTask = "caption";

// The configuration that a captioning model's checkpoint keeps: the encoder-decoder, and the inputs of its encoder.
// Either `image_shape` or `dim_features` is set, once the data are known.
struct CaptionConfig : ModelConfig {
  std::vector<int64_t> image_shape = {0, 0, 0};  // height, width, channels; 0: not known before images are loaded
  int64_t patch_size = 8, dim_features = 0;

  static constexpr auto fields() {
    using C = CaptionConfig;
    return std::tuple_cat(
        std::tuple(
            number("patch-size", &C::patch_size,
                   "the encoder reads an image as patches of N x N pixels; must divide height and width", 1, 4096),
            at_most(3, number("image-shape", &C::image_shape,
                              "height, width and channels, which the images must have; 0: as they are", 0,
                              data::kMostImageValues)),
            number("dim-features", &C::dim_features, "width of the features, which they must have; 0: as it is", 0,
                   1 << 24)),
        stack_fields(enc_depth_field(), dec_depth_field()),
        std::tuple(tied_embeddings_field("embeddings of the captions are the output layer's weights"),
                   max_positions_field("rows of learned position vectors; longer captions are refused in training"),
                   dim_vocabs_field()),
        attention_fields("exceptions: WHERE.LAYERS=SPEC, e.g. encoder.1-2=topk(16) cross.6=topk(8), layers from 1",
                         encoder_field(), decoder_field(), cross_field()));
  }
};

// Throws an Error that names every forbidden combination found, one after the other in one line.
void validate(const CaptionConfig& config);

// The inputs of the model's encoder.
nn::VectorInput vector_input(const CaptionConfig& config);

// The configuration of a model for these inputs and a vocabulary of this size. Throws an Error if the options ask for
// others.
CaptionConfig with_data(CaptionConfig config, const Inputs& inputs, int64_t vocabulary);

// Throws an Error unless the model reads these inputs; `option` named them.
void require_fitting(const CaptionConfig& config, const Inputs& inputs, const std::string& option);

}  // namespace fovea::captions
