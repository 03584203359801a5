#include "fovea/tasks/bert/embed.h"

#include <string>
#include <vector>

#include "fovea/app/options.h"
#include "fovea/app/torch.h"
#include "fovea/spec/logging.h"

namespace fovea::app {

int run_embed(const std::vector<std::string>& arguments) {
  bert::EmbedOptions config;
  Options options("embed", "Writes what an encoder makes of lines of text: a vector for each token.",
                  "--model DIR [--layer N] --output FILE < text");
  options.add(config, "Options");
  options.epilogue(
      "  fovea embed --model bert --output vectors.safetensors < text\n"
      "  fovea embed --model bert --pieces < text");
  if (!options.parse(arguments)) return 0;
  require_torch();
  configure_log(config, config.inputs());
  bert::embed(config);
  return 0;
}

}  // namespace fovea::app
