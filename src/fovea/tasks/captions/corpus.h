#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/data/captions.h"
#include "fovea/data/corpus.h"
#include "fovea/tasks/captions/inputs.h"
#include "fovea/text/vocab.h"

namespace fovea::captions {

// Images that have captions, in the order of the inputs.
struct CaptionedImages {
  std::vector<int64_t> images;                  // their numbers in the inputs
  std::vector<std::vector<std::string>> texts;  // the captions of each, at least one
};

// Puts captions to their images. Captions of white space are left out. Throws an Error if a caption's image is not
// among the inputs. The log tells how many images have none. `option` named the captions.
CaptionedImages pair_captions(const Inputs& inputs, const std::vector<data::Caption>& captions,
                              const std::string& option);

// Images and their captions as token ids, in flat arrays; </s> ends each caption.
struct CaptionCorpus {
  std::vector<int64_t> images;                 // numbers in the inputs
  std::vector<int32_t> tokens;                 // of all captions
  std::vector<int64_t> caption_offsets = {0};  // in `tokens`; [captions + 1]
  std::vector<int64_t> first_caption = {0};    // of each image; [images + 1]
  std::vector<int64_t> token_offsets = {0};    // of each image's captions in `tokens`; [images + 1]
  std::vector<int64_t> vector_offsets = {0};   // of the images' vectors, behind each other; [images + 1]
  int64_t size() const { return static_cast<int64_t>(images.size()); }
  int64_t captions() const { return static_cast<int64_t>(caption_offsets.size()) - 1; }
  data::PairLengths lengths() const { return {vector_offsets, token_offsets}; }
};

// Leaves out captions of more than `max_length` tokens (0: none). Throws an Error if nothing is left.
CaptionCorpus encode_captions(const Inputs& inputs, const CaptionedImages& captioned, const text::Vocab& vocab,
                              int64_t max_length, const std::string& option);

// XXH3 of the captions and of the inputs.
std::string fingerprint(const Inputs& inputs, const CaptionCorpus& corpus);

}  // namespace fovea::captions
