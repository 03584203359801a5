#include "fovea/tasks/image/score.h"

#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/shared_work.h"
#include "fovea/base/strings.h"
#include "fovea/data/image_order.h"
#include "fovea/spec/config_problems.h"
#include "fovea/tasks/image/load_model.h"
#include "fovea/tasks/image/score_images.h"
#include "fovea/tasks/score_signature.h"

namespace fovea::image {
namespace {

// One line that says how the numbers were made, so that others can be compared with them.
std::string score_signature(const ScoreOptions& options, const LoadedModel& loaded, const data::ImageShape& images,
                            const ImageScore& score) {
  const data::ImageShape shape = shape_of(loaded.config);
  std::string text = cat("images:", score.images, "|size:", print(shape));
  if (images != shape) text += cat("|middle-of:", print(images));
  return cat(text, "|values:", score.tokens, tasks::signature_end(options, loaded.model->config()));
}

}  // namespace

void validate(const ScoreOptions& options) {
  Problems problems;
  problems.add_ranges(options);
  add_model_problems(options, problems);
  problems.add_if(options.train_sets.empty(), "--train-sets is missing; expected folders or files of images");
  problems.throw_if_any();
}

int64_t run_score(const ScoreOptions& options) {
  require_one_process("fovea score for models of the task image");
  validate(options);
  const LoadedModel loaded = load_model(options);
  const data::ImageSet images = data::load_images(options.train_sets, "--train-sets");
  require_fitting(loaded.config, images, "--train-sets");
  const ScoreImages scorer(loaded.model, shape_of(loaded.config), options.mini_batch);
  LineWriter output(options.output);
  const bool of_images = options.level == "image";
  if (of_images) data::warn_of_image_order(options.train_sets, "--train-sets", "the lines of the output");
  log::Progress progress("scoring, images", static_cast<double>(images.size()));
  int64_t done = 0;
  const ImageScore score = scorer.run(images, [&](double log_prob) {
    progress.at(static_cast<double>(++done));
    if (of_images) output.line(fixed(log_prob, 6));
  });
  progress.finish();
  const std::string how = score_signature(options, loaded, images.shape(), score);
  if (of_images) {
    log::info(how);
  } else {
    for (const train::Measure& measure : measures().known())
      output.line(cat(measure.name, " ", fixed(measures().value(score, measure.name), 6)));
    output.line(cat("signature ", how));
  }
  output.close();
  return score.images;
}

}  // namespace fovea::image
