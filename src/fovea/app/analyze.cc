#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "fovea/app/analyze_spans.h"
#include "fovea/app/option_help.h"
#include "fovea/app/options.h"
#include "fovea/app/task_commands.h"
#include "fovea/app/torch.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/models/translation/names.h"
#include "fovea/nn/checkpoint_choice.h"
#include "fovea/nn/checkpoint_files.h"
#include "fovea/spec/adaptive_span.h"
#include "fovea/spec/logging.h"
#include "fovea/spec/model_config.h"
#include "fovea/tasks/image/config.h"
#include "fovea/tasks/language/config.h"

namespace fovea::app {
namespace {

struct SpanOptions : LogOptions {
  std::string model, output = "-";
  bool json = false;

  static constexpr auto fields() {
    using C = SpanOptions;
    return std::tuple_cat(std::tuple(named("model", &C::model, "folder of a run or of a checkpoint", "m"),
                                     field("json", &C::json, "one JSON object"),
                                     named("output", &C::output, "where the result goes, - is standard output", "o")),
                          LogOptions::fields());
  }
};

template <class Config>
bool has_spans(const nn::CheckpointHead& checkpoint) {
  const auto config = nn::config_of<Config>(checkpoint.identity, (checkpoint.folder / nn::kConfigFile).string());
  for (int64_t layer = 0; layer < depth_of(config, Sublayer::kDecoder); ++layer) {
    for (const auto& span : spans_of_heads(attention_of(config, Sublayer::kDecoder, layer))) {
      if (span) return true;
    }
  }
  return false;
}

// Whether the folder of a run or of a checkpoint holds a model with span(limit,ramp); false if it cannot be read.
bool has_spans(const std::string& model) {
  try {
    const nn::CheckpointHead checkpoint = nn::read_head(model);
    const std::string& task = checkpoint.identity.task;
    if (task == language::kTask) return has_spans<language::LanguageConfig>(checkpoint);
    if (task == image::kTask) return has_spans<image::ImageConfig>(checkpoint);
    return task == translation::kTask && has_spans<EncoderDecoderConfig>(checkpoint);
  } catch (const Error&) {
    return false;
  }
}

// Whether an argument is a value, or an option of SpanOptions.
bool is_of_spans(const std::string& argument) {
  if (!argument.starts_with("-") || argument == "-") return true;
  const std::string flag = argument.starts_with("--") ? argument.substr(0, argument.find('=')) : argument.substr(0, 2);
  SpanOptions config;
  return std::ranges::any_of(field_views(config), [&](const FieldView& field) {
    const std::vector<std::string> flags = flags_of(field);
    return std::ranges::find(flags, flag) != flags.end();
  });
}

// A model with adaptive spans shows these if no other option is given.
bool asks_for_spans(const std::vector<std::string>& arguments) {
  const std::optional<std::string> model = peek(arguments, "model", 'm');
  return model && std::ranges::all_of(arguments, is_of_spans) && has_spans(*model);
}

void show_spans(const std::vector<std::string>& arguments) {
  SpanOptions config;
  Options options("analyze", "Prints the adaptive spans of a model.", "--model DIR [--json] [--output FILE]");
  options.add(config, "Options");
  if (!options.parse(arguments)) return;
  require_torch();
  configure_log(config, {});
  LineWriter output(config.output);
  output.write(spans_text(config.model, config.json));
  output.close();
}

}  // namespace

int run_analyze(const std::vector<std::string>& arguments) {
  if (asks_for_spans(arguments)) {
    show_spans(arguments);
    return 0;
  }
  return run_task_command(&tasks::TaskEntry::analyze, arguments);
}

}  // namespace fovea::app
