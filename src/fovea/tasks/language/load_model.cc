#include "fovea/tasks/language/load_model.h"

#include <string>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/models/load_decoder.h"
#include "fovea/models/open_checkpoint.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/nn/checkpoint_files.h"

namespace fovea::language {
namespace {

text::Units load_units(const nn::Checkpoint& checkpoint) {
  const std::string folder = checkpoint.folder.string();
  if (checkpoint.identity.files.size() != 1)
    throw Error(cat(folder, ": damaged: got ", checkpoint.identity.files.size(),
                    " files of units; expected one, units.txt or units.spm"));
  const auto& [name, contents] = *checkpoint.identity.files.begin();
  return text::Units::from_file(name, contents);
}

void check_units(const nn::Checkpoint& checkpoint, const LanguageConfig& config, const text::Units& units) {
  if (config.dim_vocabs.size() == 1 && config.dim_vocabs.front() == units.size()) return;
  throw Error(cat((checkpoint.folder / nn::kConfigFile).string(), ": dim-vocabs: expected [", units.size(),
                  "], the size of ", units.file_name()));
}

}  // namespace

nn::StreamCut stream_cut(const LanguageConfig& config) {
  const int64_t memory = memory_of(config);
  return memory == 0 ? nn::StreamCut{} : nn::StreamCut{.segment = config.segment_length, .memory = memory};
}

LoadedModel load_model(const LanguageModelOptions& options, std::string_view option) {
  const nn::Checkpoint checkpoint = models::open_checkpoint(options.model, {kTask}, option);
  LanguageConfig config = nn::config_of<LanguageConfig>(checkpoint.identity, checkpoint.folder / nn::kConfigFile);
  config.memory_length = memory_of(config);  // as trained, whatever mechanism the options bring
  text::Units units = load_units(checkpoint);
  check_units(checkpoint, config, units);
  nn::DecoderOnly model = models::load_decoder(checkpoint, config, options);
  static_cast<DecoderConfig&>(config) = model->config();
  if (options.memory_length >= 0) config.memory_length = options.memory_length;
  config.same_length = options.same_length || (config.same_length && config.memory_length > 0);
  validate(config);
  if (config.same_length) model->limit_reach(config.memory_length + 1);
  return {model, std::move(config), std::move(units)};
}

}  // namespace fovea::language
