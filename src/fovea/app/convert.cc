#include "fovea/tasks/bert/convert.h"

#include <string>
#include <vector>

#include "fovea/app/options.h"
#include "fovea/app/torch.h"
#include "fovea/spec/logging.h"

namespace fovea::app {

int run_convert(const std::vector<std::string>& arguments) {
  bert::ConvertOptions config;
  Options options("convert", "Reads the weights of BERT into a checkpoint, or writes them back.",
                  "--from bert DIR --output MODEL | --to bert MODEL --output DIR");
  LogOptions log_options;
  options.add(config, "Options");
  options.add(log_options, "Options");
  options.positional("folder", config.input, "the folder to convert", 1);
  options.epilogue(
      "  fovea convert --from bert bert-base-cased --output bert\n"
      "  fovea convert --to bert bert --output bert-again");
  if (!options.parse(arguments)) return 0;
  require_torch();
  configure_log(log_options, {});
  bert::convert(config);
  return 0;
}

}  // namespace fovea::app
