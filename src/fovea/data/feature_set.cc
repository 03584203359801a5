#include "fovea/data/feature_set.h"

#include <algorithm>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/data/npy.h"

namespace fovea::data {

void FeatureSet::add(const std::shared_ptr<const ValueFile>& file, size_t offset, int64_t rows) {
  items_.push_back({file.get(), offset, rows});
  if (files_.empty() || files_.back() != file) files_.push_back(file);
}

void FeatureSet::add_all(const FeatureSet& other) {
  items_.insert(items_.end(), other.items_.begin(), other.items_.end());
  files_.insert(files_.end(), other.files_.begin(), other.files_.end());
}

void FeatureSet::append(int64_t index, std::vector<float>& out) const {
  const Item& item = items_[static_cast<size_t>(index)];
  const size_t before = out.size(), values = static_cast<size_t>(item.rows * width_);
  out.resize(before + values);
  item.file->read(item.offset, out.data() + before, values * sizeof(float));
}

FeatureSet read_npy_features(const std::string& path) {
  const auto file = std::make_shared<const ValueFile>(path);
  const NpyFeatureHeader header = parse_npy_features(file->begin(kLongestNpyHeader), file->size(), cat("'", path, "'"));
  FeatureSet features(header.width);
  const size_t item_bytes = static_cast<size_t>(header.rows * header.width) * sizeof(float);
  for (int64_t i = 0; i < header.items; ++i)
    features.add(file, header.data_start + static_cast<size_t>(i) * item_bytes, header.rows);
  return features;
}

std::string fingerprint(const FeatureSet& features) {
  constexpr int64_t kMostBytes = 64 << 20;
  std::string sums = cat(features.size(), " ", features.width());
  for (int64_t i = 0; i < features.size(); ++i) sums += cat(" ", features.rows(i));
  if (features.size() == 0) return checksum(sums);
  const int64_t item_bytes =
      std::max<int64_t>(1, features.rows(0) * features.width() * static_cast<int64_t>(sizeof(float)));
  const int64_t count = std::min(features.size(), std::max<int64_t>(1, kMostBytes / item_bytes));
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    values.clear();
    features.append(i * features.size() / count, values);
    sums += checksum({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }
  return checksum(sums);
}

}  // namespace fovea::data
