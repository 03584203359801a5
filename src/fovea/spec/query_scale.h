#pragma once
#include <string_view>
#include <tuple>

namespace fovea {

// A factor of each query that grows with the logarithm of n, the number of its candidates, so that weights stay as
// sharp among many keys as among few. The terms by distance are added after it.
//     SSMax (Nakanishi 2025, arXiv 2501.19399), with softmax and sink: s ln n, s a number of the head
//     ASEntmax (Vasylenko et al. 2025, arXiv 2506.16640), with entmax and sparsemax:
//         1 + softplus(x b) (ln(n + 1))^(2 tanh(x g)), x what the queries are projected from, b and g [M, H]
// It reads n and x, so that it is a part of a layer, and the function of q, k and v refuses it.
struct QueryScale {
  static constexpr std::string_view kName = "scaled",
                                    kHelp =
                                        "q times a learned factor that grows with ln of its number of candidates "
                                        "(SSMax, Nakanishi 2025; of entmax: ASEntmax, Vasylenko 2025)";
  static constexpr auto fields() { return std::tuple<>(); }
  bool operator==(const QueryScale&) const = default;
};

}  // namespace fovea
