#include "fovea/tasks/captions/caption.h"

#include <algorithm>
#include <numeric>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/stopwatch.h"
#include "fovea/base/strings.h"
#include "fovea/models/beam_options.h"
#include "fovea/models/trained_model.h"
#include "fovea/spec/config_problems.h"
#include "fovea/tasks/captions/captioner.h"

namespace fovea::captions {
namespace {

CaptionerOptions captioner_options(const CaptionCommand& config) {
  return {.beam = models::beam_options(config),
          .max_length = config.max_length,
          .allow_unk = config.allow_unk,
          .layers = models::step_format(config)};
}

// Writers of safetensors files sort the names, so the order may be another one than that of the references.
void tell_order(const CaptionCommand& config, const Inputs& inputs) {
  constexpr int64_t kShown = 3;
  const bool has_names = config.features.front().ends_with(".safetensors");
  if (!has_names || !config.image_ids.empty() || inputs.size() <= 1) return;
  std::vector<std::string> first;
  for (int64_t i = 0; i < std::min(inputs.size(), kShown); ++i) first.push_back(one_line(inputs.id(i)).substr(0, 40));
  log::info(cat("[data] captions in the order of the file's tensors: ", join(first, ", "),
                inputs.size() > kShown ? " ..." : "", "; --image-ids gives another order"));
}

}  // namespace

void validate(const CaptionCommand& config) {
  Problems problems;
  problems.add_ranges(config);
  problems.add_if(config.model.empty(), "--model is missing; expected the folder of a run or of a checkpoint");
  problems.add_if(config.features.empty(), "--features is missing; expected files of images or of features");
  problems.add_if(config.n_best && config.scores, "--n-best prints the scores already; leave out --scores");
  problems.throw_if_any();
}

int64_t run_caption(const CaptionCommand& config) {
  validate(config);
  LoadedCaptionModel loaded = load_caption_model(config);
  const Inputs inputs({.features = config.features, .ids = config.image_ids}, loaded.config.patch_size);
  require_fitting(loaded.config, inputs, "--features");
  tell_order(config, inputs);
  Captioner captioner(loaded.model, loaded.vocab, captioner_options(config));
  LineWriter output(config.output);
  const Stopwatch watch;
  const bool shows = models::has_room_for_progress(config.output);
  log::Progress progress("captioning, images", inputs.size());
  std::vector<int64_t> images(static_cast<size_t>(inputs.size()));
  std::iota(images.begin(), images.end(), 0);
  int64_t done = 0;
  try {
    while (done < inputs.size()) {
      const auto rest = std::span<const int64_t>(images).subspan(static_cast<size_t>(done));
      const auto batch = rest.first(std::min(rest.size(), static_cast<size_t>(config.mini_batch)));
      const std::vector<std::vector<models::WrittenText>> written = captioner.run(inputs, batch);
      for (size_t i = 0; i < batch.size(); ++i) models::print_texts(output, config, batch[i], written[i]);
      output.flush();
      done += std::ssize(batch);
      if (shows) progress.at(static_cast<double>(done));
    }
  } catch (...) {
    if (done > 0) models::keep_partial(output, cat(thousands(done), done == 1 ? " image" : " images"));
    throw;
  }
  progress.finish();
  output.close();
  log::info(cat("wrote captions of ", thousands(inputs.size()), inputs.size() == 1 ? " image" : " images", " in ",
                fixed(watch.seconds(), 1), " s"));
  return inputs.size();
}

}  // namespace fovea::captions
