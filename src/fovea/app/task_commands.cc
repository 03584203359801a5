#include "fovea/app/task_commands.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "fovea/app/options.h"
#include "fovea/app/torch.h"
#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/models/model_task.h"
#include "fovea/nn/checkpoint_choice.h"

namespace fovea::app {
namespace {

struct TaskCommand {
  const char *name, *summary, *usage, *epilogue;
  CommandMaker maker;
};

// The commands on trained models whose options depend on the model's task.
constexpr std::array kTaskCommands = {
    TaskCommand{
        .name = "translate",
        .summary = "Translates lines of text: a line out for each line in, in order.",
        .usage = "--model DIR < text > translation",
        .epilogue =
            "  fovea translate --model run --beam-size 5 --normalize 1 < test.en > test.out\n"
            "  fovea translate --model run --attention 'topk(8)' --n-best --input test.en.gz --output test.nbest.gz",
        .maker = &tasks::TaskEntry::translate},
    TaskCommand{.name = "caption",
                .summary = "Writes a caption for each image, by beam search.",
                .usage = "--model DIR --features FILE... [--output FILE] [OPTIONS]",
                .epilogue = "  fovea caption --model run --features test.npy > test.captions\n"
                            "  fovea caption --model run --features test.safetensors --image-ids test.ids "
                            "--length-penalty gnmt --normalize 0.6",
                .maker = &tasks::TaskEntry::caption},
    TaskCommand{.name = "generate",
                .summary = "Makes text or images with a model: continues what is given, or begins a text or an image.",
                .usage = "--model DIR [--prompt TEXT | < prompts] [--output FILE] [OPTIONS]",
                .epilogue =
                    "  fovea generate --model run --prompt 'Once upon a time' --max-length 500 --temperature 0.8\n"
                    "  fovea generate --model run --count 3 --top-k 40 --seed 7\n"
                    "  fovea generate --model images --count 16 --output samples.png\n"
                    "  fovea generate --model images --complete photo.png --rows 16 --output completed.png",
                .maker = &tasks::TaskEntry::generate},
    TaskCommand{.name = "tag",
                .summary = "Labels the words of sentences: columns come back with one more.",
                .usage = "--model DIR [OPTIONS] < columns",
                .epilogue = "  fovea tag --model ner < eng.testa > eng.testa.tagged\n"
                            "  echo 'Anna lives in Paris.' | fovea tag --model ner --input-format text",
                .maker = &tasks::TaskEntry::tag},
    TaskCommand{.name = "score",
                .summary = "How probable a text or an image is under a model.",
                .usage = "--model DIR --train-sets A [B] [OPTIONS]",
                .epilogue = "  fovea score --model run --train-sets test.en test.de --summary\n"
                            "  fovea score --model run --train-sets test.txt --context 256 --stride 256\n"
                            "  fovea score --model images --train-sets test_batch.bin",
                .maker = &tasks::TaskEntry::score},
    TaskCommand{
        .name = "analyze",
        .summary = "Shows what a model's attention does: a picture of a sentence, figures of a text by layer and head, "
                   "other mechanisms without training, what they cost, or, without a text, adaptive spans.",
        .usage = "--model DIR (--source TEXT [--target TEXT] | --train-sets A [B]) [OPTIONS]",
        .epilogue = "  fovea analyze --model run --source 'The file cannot be opened.'\n"
                    "  fovea analyze --model run --train-sets test.en test.de\n"
                    "  fovea analyze --model run --train-sets test.en test.de --sweep full 'topk(8)' 'topk(4)' "
                    "'cross=topk(4)' --output curve.svg\n"
                    "  fovea analyze --model run --cost --sweep full 'topk(8)' --lengths 100 1000",
        .maker = &tasks::TaskEntry::analyze},
    TaskCommand{.name = "report",
                .summary = "Writes one HTML file that shows the attention of every layer and head on sentences.",
                .usage = "--model DIR --input TEXT --output FILE.html [OPTIONS]",
                .epilogue =
                    "  fovea report --model run --input test.en --reference test.de --output report.html\n"
                    "  fovea report --model run --source 'You can insert a row.' --output report.html\n"
                    "  fovea report --model run --input test.en --compare-attention 'topk(8)' --output report.html",
                .maker = &tasks::TaskEntry::report},
    TaskCommand{
        .name = "align",
        .summary = "Aligns the words of parallel text by a model's cross-attention: a line of links i-j per pair.",
        .usage = "--model DIR --train-sets A B [OPTIONS]",
        .epilogue = "  fovea align --model run --train-sets test.en test.de --layer 2 --shifted > test.align\n"
                    "  fovea align --model run --train-sets test.en test.de --gold test.gold --search\n"
                    "  fovea align --model run --reverse-model back --train-sets test.en test.de --gold test.gold",
        .maker = &tasks::TaskEntry::align},
    TaskCommand{
        .name = "filter",
        .summary = "Scores how well the sides of sentence pairs match, one line per pair, and keeps the best pairs.",
        .usage = "--model DIR --train-sets A B [OPTIONS]",
        .epilogue =
            "  fovea filter --model run --train-sets big.en big.de > big.scores\n"
            "  fovea filter --model run --train-sets big.en big.de --keep 0.9 --output kept.en kept.de > big.scores\n"
            "  fovea filter --model run --train-sets test.en test.de --test shuffled",
        .maker = &tasks::TaskEntry::filter},
};

// The entry of the task of --model; nothing if no model is named, or if options are only to be shown and the model
// cannot be read or has none. If there is one task to choose from, the command itself reports a model that cannot be
// read.
const tasks::TaskEntry* task_of_model(std::span<const tasks::TaskEntry> able,
                                      const std::vector<std::string>& arguments) {
  const std::optional<std::string> model = peek(arguments, "model", 'm');
  const bool asks_for_help = std::ranges::find_if(arguments, [](const std::string& argument) {
                               return argument == "--help" || argument == "-h" || argument == "--help-all";
                             }) != arguments.end();
  if (!model) return nullptr;
  std::string task;
  try {
    task = nn::task_of_checkpoint(*model);
  } catch (const Error&) {
    if (able.size() > 1 && !asks_for_help) throw;
    return nullptr;
  }
  const auto found = std::ranges::find_if(able, [&](const tasks::TaskEntry& entry) { return entry.name == task; });
  if (found != able.end()) return &*found;
  if (asks_for_help) return nullptr;
  std::vector<std::string> names;
  for (const tasks::TaskEntry& entry : able) names.emplace_back(entry.name);
  models::require_task(*model, task, names);
  return nullptr;
}

}  // namespace

int run_task_command(CommandMaker maker, const std::vector<std::string>& arguments) {
  const TaskCommand& command = *std::ranges::find(kTaskCommands, maker, &TaskCommand::maker);
  std::vector<tasks::TaskEntry> able;
  std::vector<std::string> names;
  for (const tasks::TaskEntry& entry : task_list()) {
    if (entry.*maker == nullptr) continue;
    able.push_back(entry);
    names.emplace_back(entry.name);
  }
  const tasks::TaskEntry* found = task_of_model(able, arguments);
  const tasks::TaskEntry& chosen = found == nullptr ? able.front() : *found;
  const tasks::CommandSetup setup = (chosen.*maker)();
  Options options(
      command.name,
      cat(command.summary, " For models of the task", able.size() == 1 ? " " : "s ", join(names, ", "), "."),
      command.usage);
  options.add(setup.fields, able.size() == 1 ? "Options" : cat("Options for models of the task ", chosen.name));
  std::vector<tasks::CommandSetup> others;
  for (const tasks::TaskEntry& entry : able) {
    if (entry.name == chosen.name) continue;
    others.push_back((entry.*maker)());
    options.add_other(cat("a model of the task ", entry.name), others.back().fields);
  }
  options.epilogue(command.epilogue);
  if (!options.parse(arguments)) return 0;
  require_torch();
  setup.run();
  return 0;
}

}  // namespace fovea::app
