#include "fovea/tasks/bert/convert.h"

#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/tasks/bert/hugging_face.h"
#include "fovea/tasks/bert/text_encoder.h"

namespace fovea::bert {
namespace {

void convert_from_bert(const std::string& input, const std::string& output) {
  models::require_checkpoint_place(output);
  const BertModel model = read_bert(input);
  nn::save_checkpoint(output, checkpoint_of(model));
  if (!model.unused.empty())
    log::info(cat("left out: tensors that do not belong to the encoder: ", join(model.unused, ", ")));
  log::info(cat("converted '", input, "': ", model.config.enc_depth, " layers, width ", model.config.dim_emb, ", ",
                thousands(model.config.dim_vocabs.front()), " pieces"));
}

}  // namespace

void convert(const models::ConvertOptions& options) {
  const std::string& input = options.input.front();
  if (!options.from.empty()) return convert_from_bert(input, options.output);
  TrainedModelOptions trained;
  trained.model = input;
  LoadedEncoder encoder = load_encoder_only({trained, {kTask, tagging::kTask}, "the model"});
  write_bert({.config = encoder.config,
              .vocab = std::move(encoder.vocab),
              .weights = nn::parameters_of(*encoder.model),
              .unused = {}},
             options.output);
}

}  // namespace fovea::bert
