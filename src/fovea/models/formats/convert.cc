#include "fovea/models/formats/convert.h"

#include <array>
#include <filesystem>

#include "fovea/base/aside_folder.h"
#include "fovea/base/error.h"
#include "fovea/base/log.h"
#include "fovea/base/replace.h"
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

// Other systems split text by SentencePiece itself.
void warn_of_joined_unknowns(const ForeignModel& model) {
  using enum text::VocabType;
  for (const text::Vocab* vocab : {&model.source, &model.target}) {
    if (vocab->type() != kWord && vocab->type() != kChar) continue;
    const char* const units = vocab->type() == kWord ? "words" : "characters";
    return log::warn(cat("the vocabulary is one of ", units, ": other systems read neighbouring unknown ", units,
                         " as one <unk>, and Fovea as one each, so they compute other scores of such lines"));
  }
}

// The folders of both systems name these pieces, and their programs look for them.
void require_usual_pieces(const ForeignModel& model, const std::string& form) {
  for (const text::Vocab* vocab : {&model.source, &model.target})
    for (const auto& [id, usual] : {std::pair{vocab->eos(), "</s>"}, {vocab->unk(), "<unk>"}})
      if (vocab->piece(id) != usual)
        throw Error(cat("--to ", form, ": the vocabulary has the piece '", vocab->piece(id), "' in the place of ",
                        usual, "; expected a vocabulary with ", usual,
                        ", as fovea vocab and spm_train make by default"));
}

void convert_from(const Format& format, const ConvertOptions& options) {
  const std::string& input = options.input.front();
  const ForeignModel model = format.read({input, options.vocabs, options.vocab_ids, options.source_eos});
  nn::save_checkpoint(options.output, checkpoint_of(model, cat("'", input, "'")));
  warn_of_joined_unknowns(model);
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
  require_usual_pieces(model, options.to);
  format.write(model, aside.path());
  aside.commit();
  warn_of_joined_unknowns(model);
}

}  // namespace

void require_checkpoint_place(const std::string& folder) {
  const std::filesystem::path beside = folder_of(std::filesystem::path(folder));
  finish_killed_replacements({&beside, 1});
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
