#pragma once
#include <cstdint>
#include <string>
#include <string_view>

// Attention weights as bytes for a browser.
namespace fovea::analysis {

// Weights of one attention for one sentence, [heads, rows, columns].
struct HeadWeights {
  const float* data = nullptr;  // finite
  int64_t heads = 0, rows = 0, columns = 0;
  bool is_causal = false;  // square; row t has the columns up to t
  int64_t row_length(int64_t row) const { return is_causal ? row + 1 : columns; }
  const float* row(int64_t head, int64_t row) const { return data + (head * rows + row) * columns; }
  int64_t pairs() const;  // of a head: the sum of all row lengths
};

// A weight w is the byte round(levels sqrt(|w| / scale)), at least 1, plus 128 if w < 0. Only an exact zero is 0. The
// square root spends the levels where weights are small.
inline constexpr int kMostWeightLevels = 127, kFewWeightLevels = 47;

// Returns the scale of a head: 1 if its weights are in [-1, 1], else the greatest magnitude.
float weight_scale(const HeadWeights& weights, int64_t head);

// Appends the bytes of a head with kMostWeightLevels, row by row, without the pairs that a causal head does not have.
void append_weight_codes(const HeadWeights& weights, int64_t head, float scale, std::string& codes);

// Returns codes with kFewWeightLevels, which compress to about two thirds of the size.
std::string with_few_levels(const std::string& codes);

// Returns the bytes in zlib's format (RFC 1950), which browsers call "deflate".
std::string deflated(std::string_view bytes);

std::string base64(std::string_view bytes);

}  // namespace fovea::analysis
