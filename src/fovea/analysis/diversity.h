#pragma once
#include <cstdint>
#include <span>
#include <vector>

// Measures how much the heads of a layer differ. A row is what one query gives to its keys.
namespace fovea::analysis {

// The weights of one query in all heads: head h gives key j weights[h * head_stride + j], 0 <= j < keys.
struct HeadRows {
  const float* weights = nullptr;
  int64_t heads = 0, head_stride = 0, keys = 0;
  std::span<const float> of(int64_t head) const { return {weights + head * head_stride, static_cast<size_t>(keys)}; }
};

// Computes the generalised Jensen-Shannon divergence of heads (Correia, Niculae, Martins 2019): the entropy of the mean
// distribution less the mean entropy of the heads, in nats, from 0 (all alike) to ln H. A distribution has an outcome
// for each key and one for "no key". A head without any weight gives that outcome probability 1.
class HeadDiversity {
 public:
  // `rectified` says of each head whether its weights are unnormalised, as those of ReLA: their distribution is
  // softmax(sign(w) |w|^tau) over all keys, zeros included. Other heads' is |w| over its sum, whatever tau is.
  explicit HeadDiversity(std::vector<bool> rectified) : rectified_(std::move(rectified)) {}
  double operator()(const HeadRows& rows, double tau);
  bool depends_on_tau() const;

 private:
  // Adds the head's distribution to mean_, and returns its entropy.
  double add_rectified(std::span<const float> row, double tau);
  double add_normalised(std::span<const float> row);

  std::vector<bool> rectified_;
  std::vector<double> mean_, scratch_;  // [keys + 1], and of one head
};

// The Jensen-Shannon divergence of two rows, KL(a, m) / 2 + KL(b, m) / 2 with their mean m, in nats, from 0 to ln 2.
// Each row is divided by its sum of magnitudes first; negative if one of them has no weight.
double pair_divergence(std::span<const float> a, std::span<const float> b);

}  // namespace fovea::analysis
