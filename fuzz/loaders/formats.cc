#include "fovea/data/npz.h"
#include "fovea/models/formats/ctranslate2_file.h"
#include "loaders/loaders.h"

namespace fovea::fuzz {

void load_npz(std::string_view bytes) {
  static const MemoryFile file;
  for (const auto& [name, array] : data::read_npz(file.put(bytes)))
    require(array.values().size() <= array.bytes.size(), "an array is larger than its member of the archive");
}

// A file that was read is written as the same bytes, if its names came in their order.
void load_ctranslate2(std::string_view bytes) {
  const models::CTranslate2File file = models::parse_ctranslate2(bytes, "model.bin");
  const std::string written = models::print_ctranslate2(file);
  require(written.size() == bytes.size(), "a file of another size was written");
  require(models::print_ctranslate2(models::parse_ctranslate2(written, "model.bin")) == written,
          "what was written is read as something else");
}

}  // namespace fovea::fuzz
