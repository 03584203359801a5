#include "fovea/tasks/captions/inputs.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/data/image_order.h"
#include "fovea/data/npy.h"
#include "fovea/data/value_file.h"
#include "fovea/nn/safetensors_header.h"

namespace fovea::captions {
namespace {

enum class FileKind : uint8_t { kImages, kNpy, kSafetensors };

FileKind kind_of_file(const std::string& path, const std::string& option) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return FileKind::kImages;
  require_file(path, option);
  if (path.ends_with(".safetensors")) return FileKind::kSafetensors;
  LineReader reader(path, Content::kBytes);
  std::string begin;
  reader.read(begin, data::kLongestNpyHeader);
  if (!data::begins_npy(begin)) return FileKind::kImages;
  return data::npy_type(begin, cat("'", path, "'")).find('f') != std::string::npos ? FileKind::kNpy : FileKind::kImages;
}

// The tensors of a file, [rows, width] of float32 each, and their names.
struct NamedFeatures {
  std::vector<std::string> ids;
  data::FeatureSet features;
};

NamedFeatures open_safetensors(const std::string& path) {
  const auto file = std::make_shared<const data::ValueFile>(path);
  const std::string name = cat("'", path, "'");
  const std::string begin = file->begin(nn::safetensors_head_bytes(file->begin(nn::kSafetensorsLengthBytes)));
  const nn::SafetensorsHeader header = nn::parse_safetensors_header(begin, name, file->size());
  if (header.entries.empty()) throw Error(cat(name, ": has no tensor; expected one for each image"));
  NamedFeatures named{{},
                      data::FeatureSet(header.entries.front().shape.empty() ? 0 : header.entries.front().shape.back())};
  for (const nn::SafetensorsEntry& entry : header.entries) {
    const bool fits = entry.dtype == "F32" && entry.shape.size() == 2 && entry.shape[0] > 0 && entry.shape[1] > 0 &&
                      entry.shape[1] == named.features.width();
    if (!fits)
      throw Error(cat(name, ": the tensor '", entry.name, "' has the type ", entry.dtype, " and ", entry.shape.size(),
                      " dimensions; expected F32 [regions, width] with one width for all images"));
    named.features.add(file, header.data_start + entry.begin, entry.shape[0]);
    named.ids.push_back(entry.name);
  }
  return named;
}

// Appends the features of another file.
void append_features(const data::FeatureSet& more, const std::string& path, data::FeatureSet& all) {
  if (all.size() == 0) all = data::FeatureSet(more.width());
  if (more.width() != all.width())
    throw Error(cat("'", path, "': features of width ", more.width(), ", but those before have ", all.width(),
                    "; expected one width"));
  all.add_all(more);
}

std::vector<std::string> read_ids(const std::string& path, const std::string& option) {
  require_file(path, option);
  return read_lines(path);
}

}  // namespace

Inputs::Inputs(const InputFiles& files, int64_t patch_size) : patch_size_(patch_size) {
  const FileKind kind = kind_of_file(files.features.at(0), files.features_option);
  std::vector<std::string> names;
  data::FeatureSet features;
  for (const std::string& path : files.features) {
    if (kind_of_file(path, files.features_option) != kind)
      throw Error(
          cat(files.features_option, ": '", path, "' and '", files.features.front(),
              "' are of different kinds; expected images, or features in .npy files, or in .safetensors files"));
    if (kind == FileKind::kNpy) append_features(data::read_npy_features(path), path, features);
    if (kind != FileKind::kSafetensors) continue;
    const NamedFeatures named = open_safetensors(path);
    append_features(named.features, path, features);
    names.insert(names.end(), named.ids.begin(), named.ids.end());
  }
  if (kind == FileKind::kImages) {
    source_ = data::load_images(files.features, files.features_option);
    data::warn_of_image_order(files.features, files.features_option, "ids and captions");
  } else {
    log::info(
        cat("[data] features of ", thousands(features.size()), " images, of width ", thousands(features.width())));
    source_ = std::move(features);
  }
  const int64_t count = std::visit([](const auto& source) { return source.size(); }, source_);
  set_ids(files, std::move(names), count);
  check_patches(files.features_option);
}

void Inputs::check_patches(const std::string& option) const {
  const data::ImageShape shape = image_shape();
  if (shape.height % patch_size_ == 0 && shape.width % patch_size_ == 0) return;
  throw Error(cat(option, ": images of ", print(shape), " (height x width x channels) cannot be cut into patches of ",
                  patch_size_, "x", patch_size_, "; expected a --patch-size that divides height and width"));
}

void Inputs::set_ids(const InputFiles& files, std::vector<std::string> names, int64_t count) {
  const bool has_names = !names.empty();
  if (!has_names && files.ids.empty()) {
    for (int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  }
  place_.resize(static_cast<size_t>(count));
  std::iota(place_.begin(), place_.end(), 0);
  ids_ = files.ids.empty() ? std::move(names) : read_ids(files.ids, files.ids_option);
  if (!has_names && size() != count)
    throw Error(cat(files.ids_option, ": '", files.ids, "' has ", thousands(size()), " ids, but there are ",
                    thousands(count), " images; expected one id for each"));
  if (has_names && !files.ids.empty()) choose(names, files);
  for (int64_t i = 0; i < size(); ++i) {
    if (!numbers_.emplace(id(i), i).second)
      throw Error(cat(files.ids.empty() ? files.features_option : files.ids_option, ": the id '", id(i).substr(0, 40),
                      "' comes twice; expected one image for each id"));
  }
}

// The tensors that the file of ids names, in its order.
void Inputs::choose(const std::vector<std::string>& names, const InputFiles& files) {
  std::unordered_map<std::string, int64_t> place;
  for (size_t i = 0; i < names.size(); ++i) place.emplace(names[i], static_cast<int64_t>(i));
  place_.clear();
  for (const std::string& wanted : ids_) {
    const auto found = place.find(wanted);
    if (found == place.end())
      throw Error(cat(files.ids_option, ": ", files.features_option, " has no tensor '", wanted.substr(0, 40), "'"));
    place_.push_back(found->second);
  }
}

std::optional<int64_t> Inputs::find(const std::string& id) const {
  const auto found = numbers_.find(id);
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

data::ImageShape Inputs::image_shape() const {
  return are_images() ? std::get<data::ImageSet>(source_).shape() : data::ImageShape{};
}

int64_t Inputs::width() const {
  return are_images() ? patch_size_ * patch_size_ * image_shape().channels
                      : std::get<data::FeatureSet>(source_).width();
}

int64_t Inputs::length(int64_t image) const {
  if (are_images()) return image_shape().height / patch_size_ * (image_shape().width / patch_size_);
  return std::get<data::FeatureSet>(source_).rows(place_[static_cast<size_t>(image)]);
}

void Inputs::append_patches(std::span<const uint8_t> values, std::vector<float>& out) const {
  constexpr float kHalf = 127.5F;
  const data::ImageShape shape = image_shape();
  for (int64_t y = 0; y < shape.height; y += patch_size_) {
    for (int64_t x = 0; x < shape.width; x += patch_size_) {
      for (int64_t row = y; row < y + patch_size_; ++row) {
        const auto begin = static_cast<size_t>((row * shape.width + x) * shape.channels);
        for (const uint8_t value : values.subspan(begin, static_cast<size_t>(patch_size_ * shape.channels)))
          out.push_back(static_cast<float>(value) / kHalf - 1);
      }
    }
  }
}

void Inputs::append(int64_t image, std::vector<float>& out) const {
  const int64_t place = place_[static_cast<size_t>(image)];
  if (are_images()) return append_patches(std::get<data::ImageSet>(source_).at(place), out);
  const auto before = std::ssize(out);
  std::get<data::FeatureSet>(source_).append(place, out);
  if (!std::all_of(out.begin() + before, out.end(), [](float value) { return std::isfinite(value); }))
    throw Error(cat("the features of the image '", id(image), "' are not all finite; expected numbers without NaN"));
}

std::string Inputs::fingerprint() const {
  const std::string values = std::visit([](const auto& source) { return data::fingerprint(source); }, source_);
  return checksum(cat(values, " ", checksum(join(ids_, "\n"))));
}

}  // namespace fovea::captions
