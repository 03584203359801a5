#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace fovea::data {

// A caption of an image. An image may have several.
struct Caption {
  std::string image, text;  // `image` is the image's id
  bool operator==(const Caption&) const = default;
};

// Reads the captions of a file's bytes, in their order, in one of three forms:
//   TSV: lines with an image's id, a tab and a caption, in the quotes of a spreadsheet if one wrote them. If all ids
//   end with the number of a caption, as Flickr8k's "1.jpg#0", the number is left out; COCO's captions_*.json:
//   {"annotations": [{"image_id": 1, "caption": "..."}]}; Karpathy's dataset_*.json: {"images": [{"split": "train",
//   "cocoid": 1, "sentences": [{"tokens": ["a"]}]}]}. The id is cocoid, else imgid; the text is the tokens with blanks
//   between them, else "raw".
// Only the last form has splits; captions of the splits in `splits` are read. Throws an Error that begins with `name`,
// the file's name in quotes, for bytes in none of these forms, and if there are no captions.
std::vector<Caption> parse_captions(std::string_view bytes, const std::string& name,
                                    const std::vector<std::string>& splits);

// Like parse_captions(), for files, which may be compressed. `option` named them.
std::vector<Caption> read_captions(const std::vector<std::string>& paths, const std::string& option,
                                   const std::vector<std::string>& splits);

}  // namespace fovea::data
