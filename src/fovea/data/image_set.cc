#include "fovea/data/image_set.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/data/image.h"
#include "fovea/data/npy.h"
#include "fovea/data/png.h"

namespace fovea::data {
namespace fs = std::filesystem;
namespace {

constexpr ImageShape kCifarShape = {32, 32, 3};

constexpr size_t kPlane = 32 * 32, kRecord = 1 + 3 * kPlane;

void check_label(unsigned char label, int64_t record, const std::string& name) {
  if (label <= 9) return;
  if (record == 0)
    throw Error(cat(name,
                    ": begins with neither a PNG, an .npy array nor a CIFAR-10 label (0 to 9): its first byte is ",
                    int{label}, "; expected PNG, .npy or the binary version of CIFAR-10"));
  throw Error(cat(name, ", record ", thousands(record + 1), ": the label is ", int{label},
                  "; expected 0 to 9; this is not a binary batch of CIFAR-10, or it is damaged"));
}

void append_record(const std::string& record, std::vector<uint8_t>& values) {
  for (size_t pixel = 0; pixel < kPlane; ++pixel) {
    for (size_t channel = 0; channel < 3; ++channel)
      values.push_back(static_cast<uint8_t>(record[1 + channel * kPlane + pixel]));
  }
}

// Returns the images of a CIFAR-10 binary batch, [N, 32, 32, 3]; the labels are dropped. `begin` are bytes that were
// read before. A record has 3,073 bytes: a label from 0 to 9, then the red, green and blue plane, each row by row.
// Throws an Error that begins with `name`, the file's name in quotes, for an empty file, another label, and a last
// record that is not complete.
std::vector<uint8_t> read_cifar(LineReader& reader, std::string begin, const std::string& name) {
  std::vector<uint8_t> values;
  std::string record = std::move(begin);
  for (int64_t index = 0;; ++index) {
    throw_if_interrupted("reading images");
    while (record.size() < kRecord && reader.read(record, kRecord - record.size()) > 0) continue;
    if (record.empty() && index == 0) throw Error(cat(name, ": is empty; expected images"));
    if (record.empty()) return values;
    check_label(static_cast<unsigned char>(record.front()), index, name);
    if (record.size() < kRecord)
      throw Error(cat(name, ": ends after ", thousands(static_cast<int64_t>(record.size())), " bytes of record ",
                      thousands(index + 1), "; expected a multiple of 3,073 bytes, the size of a CIFAR-10 record; the ",
                      "file is truncated, or of another kind"));
    append_record(record, values);
    record.clear();
  }
}

struct LoadedImages {
  ImageShape shape;
  ImageSet::Part part;
};

std::string quoted_path(const fs::path& path) { return cat("'", path.string(), "'"); }

LoadedImages in_memory(const ImageShape& shape, std::vector<uint8_t> values) {
  const int64_t images = std::ssize(values) / shape.values();
  return {shape, {.images = images, .memory = std::make_shared<const std::vector<uint8_t>>(std::move(values))}};
}

// Returns nothing if the path is not a regular file with an .npy array.
std::optional<LoadedImages> open_npy(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored) || fs::is_empty(path, ignored)) return std::nullopt;
  const auto file = std::make_shared<const ValueFile>(path);
  const std::string begin = file->begin(kLongestNpyHeader);
  if (!begins_npy(begin)) return std::nullopt;
  const NpyHeader header = parse_npy_header(begin, file->size(), quoted_path(path));
  return LoadedImages{header.shape, {.images = header.images, .file = file, .data_start = header.data_start}};
}

void require_same_shape(const ImageShape& shape, const std::string& name, const ImageShape& first,
                        const std::string& first_name) {
  if (shape == first) return;
  throw Error(cat(name, ": an image of ", print(shape), ", but ", first_name, " has ", print(first),
                  " (height x width x channels); expected one size"));
}

// The .png files of a folder, by name.
LoadedImages load_folder(const fs::path& folder) {
  std::vector<fs::path> files;
  int64_t others = 0;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    const bool is_png = lower(entry.path().extension().string()) == ".png";
    if (is_png) files.push_back(entry.path());
    if (!is_png) ++others;
  }
  if (failed) throw Error(cat("cannot read the folder ", quoted_path(folder), ": ", failed.message()));
  const std::string other_files = cat(thousands(others), others == 1 ? " other file" : " other files");
  if (files.empty())
    throw Error(
        cat(quoted_path(folder), ": the folder has no .png file (", other_files, "); expected a folder of PNG files"));
  std::ranges::sort(files);
  ImageShape shape;
  std::vector<uint8_t> values;
  for (const fs::path& file : files) {
    throw_if_interrupted("reading images");
    const Image image = decode_png(read_file(file), quoted_path(file));
    if (file == files.front()) shape = image.shape;
    require_same_shape(image.shape, quoted_path(file), shape, quoted_path(files.front()));
    values.insert(values.end(), image.values.begin(), image.values.end());
  }
  if (others > 0) log::info(cat("[data] ", quoted_path(folder), ": skipped ", other_files));
  return in_memory(shape, std::move(values));
}

LoadedImages load_path(const std::string& path, const std::string& option) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return load_folder(path);
  require_file(path, option);
  if (std::optional<LoadedImages> array = open_npy(path)) return *std::move(array);
  LineReader reader(path, Content::kBytes);
  constexpr size_t kPart = 1024;
  std::string begin;
  reader.read(begin, kPart);
  const std::string name = quoted_path(path);
  if (begins_npy(begin))
    throw Error(cat(name, ": a compressed .npy, or one in a pipe; expected a file; uncompress it"));
  if (!begins_png(begin)) return in_memory(kCifarShape, read_cifar(reader, std::move(begin), name));
  Image image = decode_png(begin + reader.rest(), name);
  return in_memory(image.shape, std::move(image.values));
}

}  // namespace

ImageSet::ImageSet(const ImageShape& shape, std::vector<Part> parts) : shape_(shape), parts_(std::move(parts)) {
  for (const Part& part : parts_) first_.push_back(first_.back() + part.images);
}

std::vector<uint8_t> ImageSet::at(int64_t index) const {
  const auto found = static_cast<size_t>(std::ranges::upper_bound(first_, index) - first_.begin()) - 1;
  const Part& part = parts_[found];
  const auto values = static_cast<size_t>(shape_.values()), at = static_cast<size_t>(index - first_[found]) * values;
  if (part.memory) {
    const auto begin = part.memory->begin() + static_cast<std::ptrdiff_t>(at);
    return {begin, begin + static_cast<std::ptrdiff_t>(values)};
  }
  std::vector<uint8_t> image(values);
  part.file->read(part.data_start + at, image.data(), values);
  return image;
}

ImageSet load_images(const std::vector<std::string>& paths, const std::string& option) {
  ImageShape shape;
  std::vector<ImageSet::Part> parts;
  for (const std::string& path : paths) {
    LoadedImages loaded = load_path(path, option);
    if (parts.empty()) shape = loaded.shape;
    require_same_shape(loaded.shape, quoted_path(path), shape, quoted_path(paths.front()));
    log::info(cat("[data] ", thousands(loaded.part.images), loaded.part.images == 1 ? " image" : " images", " of ",
                  print(loaded.shape), " from ", quoted_path(path)));
    parts.push_back(std::move(loaded.part));
  }
  return {shape, std::move(parts)};
}

std::string fingerprint(const ImageSet& images) {
  constexpr int64_t kMostBytes = 64 << 20;
  std::string sums = cat(images.size(), " ", print(images.shape()));
  if (images.size() == 0) return checksum(sums);
  const int64_t most = std::max<int64_t>(1, kMostBytes / images.shape().values());
  const int64_t count = std::min(images.size(), most);
  for (int64_t i = 0; i < count; ++i) {
    const std::vector<uint8_t> values = images.at(i * images.size() / count);
    sums += checksum({reinterpret_cast<const char*>(values.data()), values.size()});
  }
  return checksum(sums);
}

}  // namespace fovea::data
