#include "fovea/tasks/language/convert.h"

#include <filesystem>
#include <string>

#include "fovea/base/aside.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/nn/model.h"
#include "fovea/tasks/language/hugging_face.h"
#include "fovea/tasks/language/load_model.h"

namespace fovea::language {
namespace {

void convert_from(const models::ConvertOptions& options) {
  const std::string& input = options.input.front();
  const ForeignDecoder model = read_decoder(input);
  nn::load_parameters(*nn::Model(model.config, std::nullopt), model.weights, cat("'", input, "'"));
  nn::Checkpoint checkpoint;
  checkpoint.identity = nn::identity_of(kTask, model.config, model.units.files());
  checkpoint.model = model.weights;
  nn::save_checkpoint(options.output, checkpoint);
  const LanguageConfig& config = model.config;
  log::info(cat("converted '", input, "': ", config.dec_depth, " layers, width ", config.dim_emb, ", ",
                config.transformer_heads, " heads, ", thousands(config.dim_vocabs.front()), " tokens, attention ",
                config.attention));
}

void convert_to(const models::ConvertOptions& options) {
  LanguageModelOptions trained;
  trained.model = options.input.front();
  const LoadedModel loaded = load_model(trained, "the model");
  const std::filesystem::path folder = options.output;
  AsideFolder aside(folder.has_filename() ? folder : folder.parent_path());
  write_decoder({loaded.config, nn::parameters_of(*loaded.model), loaded.units}, options.precision, aside.path());
  aside.commit();
}

}  // namespace

void convert(const models::ConvertOptions& options) {
  if (options.to.empty()) {
    models::require_checkpoint_place(options.output);
    return convert_from(options);
  }
  models::require_new_folder(options.output);
  convert_to(options);
}

}  // namespace fovea::language
