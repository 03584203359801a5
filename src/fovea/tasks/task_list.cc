#include "fovea/tasks/task_list.h"

#include <array>

#include "fovea/tasks/captions/caption.h"
#include "fovea/tasks/captions/task.h"
#include "fovea/tasks/image/generate.h"
#include "fovea/tasks/image/score.h"
#include "fovea/tasks/image/task.h"
#include "fovea/tasks/language/analyze/analyze.h"
#include "fovea/tasks/language/generate.h"
#include "fovea/tasks/language/report.h"
#include "fovea/tasks/language/score.h"
#include "fovea/tasks/language/task.h"
#include "fovea/tasks/tagging/score.h"
#include "fovea/tasks/tagging/tag.h"
#include "fovea/tasks/tagging/task.h"
#include "fovea/tasks/translation/align.h"
#include "fovea/tasks/translation/analyze/analyze.h"
#include "fovea/tasks/translation/filter.h"
#include "fovea/tasks/translation/report.h"
#include "fovea/tasks/translation/run.h"
#include "fovea/tasks/translation/task.h"

namespace fovea::tasks {

std::span<const TaskEntry> task_list() {
  static constexpr std::array kTasks = {
      TaskEntry{.name = translation::kTask,
                .summary = "one language to another, by an encoder-decoder",
                .train = train_setup<translation::TranslationTask>,
                .translate = [] { return command_setup(translation::run_translate); },
                .score = [] { return command_setup(translation::run_score); },
                .align = [] { return command_setup(translation::run_align); },
                .filter = [] { return command_setup(translation::run_filter); },
                .report = [] { return command_setup(translation::run_report); },
                .analyze = [] { return command_setup(translation::run_analyze); }},
      TaskEntry{.name = language::kTask,
                .summary = "text, unit by unit, by a decoder-only model",
                .train = train_setup<language::LanguageTask>,
                .score = [] { return command_setup(language::run_score); },
                .generate = [] { return command_setup(language::run_generate); },
                .report = [] { return command_setup(language::run_report); },
                .analyze = [] { return command_setup(language::run_analyze); }},
      TaskEntry{.name = image::kTask,
                .summary = "images, value by value, by a decoder-only model",
                .train = train_setup<image::ImageTask>,
                .score = [] { return command_setup(image::run_score); },
                .generate = [] { return command_setup(image::run_generate); }},
      TaskEntry{.name = tagging::kTask,
                .summary = "labels of words, such as names or parts of speech, by an encoder-only model",
                .train = train_setup<tagging::TaggingTask>,
                .score = [] { return command_setup(tagging::run_score); },
                .tag = [] { return command_setup(tagging::run_tag); }},
      TaskEntry{.name = captions::kTask,
                .summary = "captions of images or of their features, by an encoder-decoder",
                .train = train_setup<captions::CaptionTask>,
                .caption = [] { return command_setup(captions::run_caption); }},
  };
  return kTasks;
}

}  // namespace fovea::tasks
