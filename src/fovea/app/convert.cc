#include "fovea/models/formats/convert.h"

#include <string>
#include <vector>

#include "fovea/app/options.h"
#include "fovea/app/torch.h"
#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/nn/checkpoint_choice.h"
#include "fovea/spec/config_problems.h"
#include "fovea/spec/logging.h"
#include "fovea/tasks/bert/convert.h"
#include "fovea/tasks/language/convert.h"
#include "fovea/tasks/language/hugging_face_config.h"

namespace fovea::app {
namespace {

void check(const models::ConvertOptions& options) {
  Problems problems;
  problems.add_if(options.from.empty() == options.to.empty(), "--from and --to: expected one of the two");
  problems.add_if(options.input.size() != 1, cat("got ", options.input.size(), " models to convert; expected one"));
  problems.add_if(options.output.empty(), "--output is missing; expected a folder to write");
  const bool takes_vocabs = options.from == "marian" || options.from == "ctranslate2";
  problems.add_if(!options.vocabs.empty() && (options.vocabs.size() != 2 || !takes_vocabs),
                  cat("--vocabs: got ", options.vocabs.size(),
                      " files; expected two, the source's and the target's, with --from marian or ctranslate2"));
  problems.add_if(!options.vocab_ids.empty() && options.from != "marian",
                  "--vocab-ids: the folder holds the numbers of its pieces; it is for --from marian");
  problems.add_if(options.source_eos && options.from != "ctranslate2",
                  "--source-eos: the other forms say how sentences end; it is for --from ctranslate2");
  problems.add_if(options.precision != "float32" && options.to != "huggingface",
                  cat("--precision: got ", options.precision, "; it is for --to huggingface"));
  problems.throw_if_any();
}

// Whether the model is a language model of Hugging Face's form.
bool is_language_model(const models::ConvertOptions& options) {
  const std::string& model = options.input.front();
  if (options.to == "huggingface") return nn::task_of_checkpoint(model, "the model") == language::kTask;
  return options.from == "huggingface" && language::is_decoder_folder(model);
}

}  // namespace

int run_convert(const std::vector<std::string>& arguments) {
  models::ConvertOptions config;
  Options options(
      "convert",
      "Reads a model of another system into a checkpoint, or writes one for it: BERT, language models of the kinds "
      "Llama, Mistral, Qwen2 and Qwen3, translation models of Marian, of Hugging Face and of CTranslate2.",
      "--from FORM MODEL --output CHECKPOINT | --to FORM CHECKPOINT --output FOLDER");
  LogOptions log_options;
  options.add(config, "Options");
  options.add(log_options, "Options");
  options.positional("model", config.input, "the folder or file to convert", 1);
  options.epilogue(
      "  fovea convert --from marian model.npz --vocabs vocab.spm vocab.spm --output en-de\n"
      "  fovea convert --from huggingface opus-mt-en-de --output en-de\n"
      "  fovea convert --from huggingface llama-folder --output llama\n"
      "  fovea convert --to ctranslate2 en-de --output en-de-ct2\n"
      "  fovea convert --from bert bert-base-cased --output bert");
  if (!options.parse(arguments)) return 0;
  check(config);
  require_torch();
  configure_log(log_options, {});
  if (config.from == "bert" || config.to == "bert") {
    bert::convert(config);
  } else if (is_language_model(config)) {
    language::convert(config);
  } else {
    if (config.precision != "float32")
      throw UsageError(cat("--precision: got ", config.precision,
                           "; it is for language models, and MarianMTModel is written in float32"));
    models::convert(config);
  }
  return 0;
}

}  // namespace fovea::app
