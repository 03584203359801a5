#include "fovea/models/formats/convert.h"

#include <array>
#include <filesystem>

#include "fovea/base/aside.h"
#include "fovea/base/error.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/models/formats/ctranslate2.h"
#include "fovea/models/formats/hugging_face.h"
#include "fovea/models/formats/marian.h"
#include "fovea/models/translation/loaded_model.h"
#include "fovea/nn/checkpoint_module.h"

namespace fovea::models {
namespace {

struct Format {
  std::string_view name;
  ForeignModel (*read)(const ForeignFiles& files);
  void (*write)(const ForeignModel& model, const std::filesystem::path& folder);  // null: only read
};
constexpr std::array kFormats = {
    Format{"marian", read_marian, nullptr},
    Format{"huggingface", read_hugging_face, write_hugging_face},
    Format{"ctranslate2", read_ctranslate2, write_ctranslate2},
};

const Format& format_of(const std::string& name) {
  for (const Format& format : kFormats)
    if (format.name == name) return format;
  throw Error(cat("convert: no form of translation models is called '", name, "'"));
}

void convert_from(const Format& format, const ConvertOptions& options) {
  const std::string& input = options.input.front();
  const ForeignModel model = format.read({input, options.vocabs, options.vocab_ids});
  nn::save_checkpoint(options.output, checkpoint_of(model, cat("'", input, "'")));
  const EncoderDecoderConfig& config = model.config;
  log::info(cat("converted '", input, "': ", config.enc_depth, " and ", config.dec_depth, " layers, width ",
                config.dim_emb, ", ", thousands(config.dim_vocabs[0]), " and ", thousands(config.dim_vocabs[1]),
                " pieces"));
}

void convert_to(const Format& format, const ConvertOptions& options) {
  require_new_folder(options.output);
  ModelOptions trained;
  trained.model = options.input.front();
  const TrainedModel opened(trained, {translation::kTask}, "the model");
  translation::LoadedModel loaded = translation::load_model(opened);
  const ForeignModel model = {opened.config<EncoderDecoderConfig>(), nn::parameters_of(*loaded.model),
                              std::move(loaded.source), std::move(loaded.target)};
  const std::filesystem::path folder = options.output;
  AsideFolder aside(folder.has_filename() ? folder : folder.parent_path());
  format.write(model, aside.path());
  aside.commit();
}

}  // namespace

void require_checkpoint_place(const std::string& folder) {
  restore_folder(folder);
  if (std::filesystem::exists(folder) && !nn::is_checkpoint(folder, "--output"))
    throw Error(cat("--output: '", folder, "' exists already and is not a checkpoint; name a new folder"));
}

void require_new_folder(const std::string& folder) {
  if (std::filesystem::exists(folder)) throw Error(cat("--output: '", folder, "' exists already; name a new folder"));
}

void convert(const ConvertOptions& options) {
  if (!options.to.empty()) return convert_to(format_of(options.to), options);
  require_checkpoint_place(options.output);
  convert_from(format_of(options.from), options);
}

}  // namespace fovea::models
