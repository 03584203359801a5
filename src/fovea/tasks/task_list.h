#pragma once
#include <array>

#include "fovea/tasks/captions/caption.h"
#include "fovea/tasks/captions/training.h"
#include "fovea/tasks/image/generate.h"
#include "fovea/tasks/image/score.h"
#include "fovea/tasks/image/training.h"
#include "fovea/tasks/language/analyze/analyze.h"
#include "fovea/tasks/language/generate.h"
#include "fovea/tasks/language/report.h"
#include "fovea/tasks/language/score.h"
#include "fovea/tasks/language/training.h"
#include "fovea/tasks/setup.h"
#include "fovea/tasks/tagging/score.h"
#include "fovea/tasks/tagging/tag.h"
#include "fovea/tasks/tagging/training.h"
#include "fovea/tasks/translation/align.h"
#include "fovea/tasks/translation/analyze/analyze.h"
#include "fovea/tasks/translation/filter.h"
#include "fovea/tasks/translation/report.h"
#include "fovea/tasks/translation/run.h"
#include "fovea/tasks/translation/training.h"

namespace fovea::tasks {

// The one list of tasks. The first is the default of `fovea train`. With is WithWork (train_setup.h) in a program with
// libtorch, else OptionsAlone.
template <class With>
inline constexpr std::array kTaskList = {
    TaskEntry{.name = translation::kTask,
              .summary = "one language to another, by an encoder-decoder",
              .train = With::template train<translation::Training>,
              .translate = With::template command<translation::run_translate>,
              .score = With::template command<translation::run_score>,
              .align = With::template command<translation::run_align>,
              .filter = With::template command<translation::run_filter>,
              .report = With::template command<translation::run_report>,
              .analyze = With::template command<translation::run_analyze>},
    TaskEntry{.name = language::kTask,
              .summary = "text, unit by unit, by a decoder-only model",
              .train = With::template train<language::Training>,
              .score = With::template command<language::run_score>,
              .generate = With::template command<language::run_generate>,
              .report = With::template command<language::run_report>,
              .analyze = With::template command<language::run_analyze>},
    TaskEntry{.name = image::kTask,
              .summary = "images, value by value, by a decoder-only model",
              .train = With::template train<image::Training>,
              .score = With::template command<image::run_score>,
              .generate = With::template command<image::run_generate>},
    TaskEntry{.name = tagging::kTask,
              .summary = "labels of words, such as names or parts of speech, by an encoder-only model",
              .train = With::template train<tagging::Training>,
              .score = With::template command<tagging::run_score>,
              .tag = With::template command<tagging::run_tag>},
    TaskEntry{.name = captions::kTask,
              .summary = "captions of images or of their features, by an encoder-decoder",
              .train = With::template train<captions::Training>,
              .caption = With::template command<captions::run_caption>},
};

}  // namespace fovea::tasks
