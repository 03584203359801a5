#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/metrics/ngrams.h"

namespace fovea::metrics {

// CIDEr-D (Vedantam et al. 2015) as COCO's evaluation of captions computes it, on text that is tokenised already. The
// weight of an n-gram depends on how many of all images have it in a reference, so scores exist for a whole corpus
// only.
class Cider {
 public:
  static constexpr size_t kOrder = 4;

  explicit Cider(bool lowercase = false) : lowercase_(lowercase) {}
  // Adds an image: one caption, and at least one reference.
  void add(std::string_view hypothesis, std::span<const std::string> references);
  // Returns the score of each image added, times 100: 100 is a usual score and 1,000 the greatest.
  std::vector<double> scores() const;

 private:
  using Words = std::vector<uint32_t>;
  struct Image {
    Words hypothesis;
    std::vector<Words> references;
  };
  // The n-grams of a text with their tf-idf weights, by n - 1.
  struct Vector {
    std::array<std::unordered_map<Gram, double, GramHash>, kOrder> weights;
    std::array<double, kOrder> norms{};
    double length = 0;  // in bigrams, which COCO's penalty of lengths counts
  };
  Words words_of(std::string_view text);
  Vector vector_of(const Words& words) const;
  static double similarity(const Vector& hypothesis, const Vector& reference);

  bool lowercase_;
  WordNumbers numbers_;
  std::vector<Image> images_;
  std::array<GramCounts, kOrder> images_with_;  // how many images have each n-gram in a reference, by n - 1
};

}  // namespace fovea::metrics
