#include <string>
#include <vector>

#include "fovea/app/options.h"
#include "fovea/app/torch.h"
#include "fovea/nn/checkpoint_choice.h"
#include "fovea/serve/serve_options.h"
#include "fovea/spec/logging.h"

namespace fovea::app {

int run_serve(const std::vector<std::string>& arguments) {
  serve::ServeOptions config;
  Options options("serve",
                  "Answers HTTP requests with models: translation in the dialects of LibreTranslate, DeepL and OpenAI, "
                  "texts of language models in OpenAI's.",
                  "--model DIR [--model NAME=DIR ...] [--port N]");
  options.add(config, "Options");
  options.epilogue(
      "  fovea serve --model run --port 8080\n"
      "  fovea serve --model en-de=run-de --model en-fr=run-fr --api-key keys.txt\n"
      "  curl -s localhost:8080/translate -H 'Content-Type: application/json' -d '{\"text\": \"Hello.\"}'");
  if (!options.parse(arguments)) return 0;
  validate(config);
  // Before the server prints its address, as it loads the models only after that.
  for (const serve::ModelPlace& place : serve::model_places(config.model)) (void)nn::task_of_checkpoint(place.folder);
  require_torch();
  configure_log(config, {{config.api_key}});
  serve::run_serve(config);
  return 0;
}

}  // namespace fovea::app
