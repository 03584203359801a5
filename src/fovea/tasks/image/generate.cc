#include "fovea/tasks/image/generate.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/log.h"
#include "fovea/base/stopwatch.h"
#include "fovea/base/strings.h"
#include "fovea/data/image_batches.h"
#include "fovea/data/image_order.h"
#include "fovea/models/sampler.h"
#include "fovea/models/trained_model.h"
#include "fovea/spec/config_problems.h"
#include "fovea/tasks/image/load_model.h"
#include "fovea/tasks/image/pictures.h"

namespace fovea::image {
namespace fs = std::filesystem;
namespace {

using Values = std::vector<int64_t>;

// The prefixes of the images: kImageBegin, and the values of the rows that are kept.
struct Prefixes {
  std::vector<Values> prompts;
  std::vector<data::Image> originals;  // of --complete, else none
};

data::Image image_of(const Values& values, const data::ImageShape& shape) {
  data::Image image = {shape, {}};
  for (const int64_t value : values) image.values.push_back(static_cast<uint8_t>(value));
  return image;
}

Prefixes prefixes_of(const GenerateOptions& options, const ImageConfig& config) {
  Prefixes result;
  if (options.complete.empty()) {
    result.prompts = {{data::kImageBegin}};
    return result;
  }
  const data::ImageShape shape = shape_of(config);
  if (shape.height == 1)
    throw Error("--complete: the model's images have one row, and --rows keeps whole rows; leave --complete out");
  if (options.rows >= shape.height)
    throw Error(cat("--rows: got ", options.rows, "; the model's images have ", shape.height, " rows; expected 1 to ",
                    shape.height - 1));
  const data::ImageSet images = data::load_images(options.complete, "--complete");
  require_fitting(config, images, "--complete");
  data::warn_of_image_order(options.complete, "--complete", "the completions");
  for (int64_t i = 0; i < images.size(); ++i) {
    Values values;
    append_cut(images.at(i), images.shape(), centre_cut(images.shape(), shape), values);
    result.originals.push_back(image_of(values, shape));
    values.resize(static_cast<size_t>(options.rows * shape.width * shape.channels));
    values.insert(values.begin(), data::kImageBegin);
    result.prompts.push_back(std::move(values));
  }
  return result;
}

// Throws an Error if a picture would replace an image that is read. configure_log() looks at single files alone.
void require_other_pictures(const GenerateOptions& options, const PictureFiles& files, int64_t total) {
  if (options.complete.empty()) return;
  for (int64_t index = 0; index < (files.is_folder() ? total : 1); ++index) {
    const fs::path path = files.path(index, total);
    std::error_code none_there;
    if (!fs::exists(path, none_there)) continue;
    for (const std::string& input : options.complete) {
      const fs::path same = fs::is_directory(input, none_there) ? fs::absolute(path).parent_path() : path;
      if (fs::equivalent(same, input, none_there))
        throw Error(cat("--output: '", path.string(), "' is read too, as an image of --complete, and would be ",
                        "replaced; name another ", files.is_folder() ? "folder" : "file"));
    }
  }
}

// The rows of an image that the model saw; the other rows are grey.
data::Image upper_rows(data::Image image, int64_t rows) {
  const auto kept = image.values.begin() + rows * image.shape.width * image.shape.channels;
  std::fill(kept, image.values.end(), uint8_t{128});
  return image;
}

// One picture of all images: a row for each image that was completed, which shows the rows that were kept, the
// completions and the image itself; without those, as square as it gets. A single tile stands alone.
GridPlan plan_of_picture(int64_t images, int64_t originals) {
  if (originals > 0) return {images + 2 * originals, images / originals + 2};
  return {images, static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(images))))};
}

// How many times larger than they are the images of the output become. A file with one image is exact unless the user
// asks for more: it may be read again.
int64_t times_of(const GenerateOptions& options, const data::ImageShape& shape, const GridPlan& plan, bool is_folder) {
  if (options.enlarge > 0 || is_folder || plan.count == 1) return std::max<int64_t>(options.enlarge, 1);
  return enlargement(shape, plan);
}

data::Image picture_of(std::vector<data::Image> images, const std::vector<data::Image>& originals, int64_t rows) {
  const GridPlan plan = plan_of_picture(std::ssize(images), std::ssize(originals));
  if (plan.count == 1) return std::move(images.front());
  if (originals.empty()) return grid_of(images, plan.columns);
  const size_t count = images.size() / originals.size();
  std::vector<data::Image> tiles;
  for (size_t i = 0; i < originals.size(); ++i) {
    tiles.push_back(upper_rows(originals[i], rows));
    for (size_t c = 0; c < count; ++c) tiles.push_back(std::move(images[i * count + c]));
    tiles.push_back(originals[i]);
  }
  return grid_of(tiles, plan.columns);
}

models::Sampler sampler_of(const GenerateOptions& options, const LoadedModel& loaded, int64_t length) {
  models::SamplingRules rules;
  rules.choice = {.temperature = options.temperature, .top_k = options.top_k, .top_p = options.top_p};
  rules.max_length = length;
  rules.never = {data::kImageBegin};
  return {loaded.model, rules, models::step_format(options)};
}

}  // namespace

void validate(const GenerateOptions& options) {
  Problems problems;
  problems.add_ranges(options);
  add_model_problems(options, problems);
  problems.add_if(options.output.empty(), "--output is missing; expected a .png file, or a folder that ends in /");
  problems.add_if(options.top_p == 0, "--top-p is 0; expected a probability above 0, at most 1");
  problems.add_if(!options.complete.empty() && options.rows == 0,
                  "--rows is missing; expected the number of rows of --complete to keep");
  problems.add_if(options.complete.empty() && options.rows > 0,
                  "--rows is for --complete, which is missing; name images to complete");
  problems.throw_if_any();
}

int64_t run_generate(const GenerateOptions& options) {
  validate(options);
  const PictureFiles files(options.output);
  const LoadedModel loaded = load_model(options);
  const data::ImageShape shape = shape_of(loaded.config);
  const Prefixes prefixes = prefixes_of(options, loaded.config);
  const int64_t total = std::ssize(prefixes.prompts) * options.count;
  const int64_t length = shape.values() + 1 - std::ssize(prefixes.prompts.front());  // values that an image lacks
  require_other_pictures(options, files, total);
  const GridPlan plan = plan_of_picture(total, std::ssize(prefixes.originals));
  const int64_t times = times_of(options, shape, plan, files.is_folder());
  // Checks the grid before the work, which may take hours.
  if (!files.is_folder()) grid_shape({shape.height * times, shape.width * times, shape.channels}, plan);
  const models::Sampler sampler = sampler_of(options, loaded, length);
  log::Progress progress("generating, values", static_cast<double>(total * length));
  const Stopwatch watch;
  std::vector<data::Image> images;
  int64_t made = 0;
  for (int64_t first = 0; first < total; first += options.mini_batch) {
    std::vector<models::Draft> drafts;
    for (int64_t i = first; i < std::min(total, first + options.mini_batch); ++i)
      drafts.push_back({prefixes.prompts[static_cast<size_t>(i / options.count)],
                        models::draft_seed(options.seed, i, options.count)});
    std::vector<Values> values;
    for (const models::Draft& draft : drafts) values.emplace_back(draft.prompt.begin() + 1, draft.prompt.end());
    sampler.run(drafts, [&](size_t draft, int64_t value) {
      values[draft].push_back(value);
      progress.at(static_cast<double>(++made));
    });
    for (size_t i = 0; i < values.size(); ++i) {
      data::Image image = enlarged(image_of(values[i], shape), times);
      if (files.is_folder()) files.write(image, first + static_cast<int64_t>(i), total);
      if (!files.is_folder()) images.push_back(std::move(image));
    }
  }
  progress.finish();
  if (!files.is_folder()) {
    std::vector<data::Image> originals;
    for (const data::Image& original : prefixes.originals) originals.push_back(enlarged(original, times));
    files.write(picture_of(std::move(images), originals, options.rows * times));
  }
  const double seconds = watch.seconds();
  log::info(cat("made ", thousands(total), total == 1 ? " image" : " images", " of ", print(shape),
                times > 1 ? cat(", each pixel shown as ", times, "x", times, ",") : "", " in ", fixed(seconds, 1),
                " s (", fixed(static_cast<double>(made) / std::max(seconds, 1e-9), 0), " values per second)"));
  return total;
}

}  // namespace fovea::image
