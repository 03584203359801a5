#include "fovea/data/feature_set.h"

#include <algorithm>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/data/mapped_file.h"
#include "fovea/data/npy.h"

namespace fovea::data {

void FeatureSet::add(const std::shared_ptr<const void>& owner, const float* values, int64_t rows) {
  items_.push_back({values, rows});
  if (owners_.empty() || owners_.back() != owner) owners_.push_back(owner);
}

void FeatureSet::add_all(const FeatureSet& other) {
  items_.insert(items_.end(), other.items_.begin(), other.items_.end());
  owners_.insert(owners_.end(), other.owners_.begin(), other.owners_.end());
}

std::span<const float> FeatureSet::at(int64_t index) const {
  const Item& item = items_[static_cast<size_t>(index)];
  return {item.values, static_cast<size_t>(item.rows * width_)};
}

FeatureSet map_npy_features(const std::string& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  const std::string name = cat("'", path, "'");
  const std::string_view bytes = file->bytes();
  const NpyFeatureHeader header = parse_npy_features(bytes.substr(0, kLongestNpyHeader), bytes.size(), name);
  if (header.data_start % sizeof(float) != 0)
    throw Error(cat(name, ": the values begin at byte ", header.data_start, ", which is not a multiple of 4; save the ",
                    "array again with numpy.save()"));
  const auto* values = reinterpret_cast<const float*>(file->data() + header.data_start);
  FeatureSet features(header.width);
  for (int64_t i = 0; i < header.items; ++i) features.add(file, values + i * header.rows * header.width, header.rows);
  return features;
}

std::string fingerprint(const FeatureSet& features) {
  constexpr int64_t kMostBytes = 64 << 20;
  std::string sums = cat(features.size(), " ", features.width());
  for (int64_t i = 0; i < features.size(); ++i) sums += cat(" ", features.rows(i));
  if (features.size() == 0) return checksum(sums);
  const int64_t item_bytes = std::max<int64_t>(1, std::ssize(features.at(0)) * static_cast<int64_t>(sizeof(float)));
  const int64_t count = std::min(features.size(), std::max<int64_t>(1, kMostBytes / item_bytes));
  for (int64_t i = 0; i < count; ++i) {
    const std::span<const float> values = features.at(i * features.size() / count);
    sums += checksum({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }
  return checksum(sums);
}

}  // namespace fovea::data
