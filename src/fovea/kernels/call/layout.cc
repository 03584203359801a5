#include "fovea/kernels/call/layout.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::kernels {
namespace {

std::span<const int64_t> host_integers(const TensorView& x, std::string_view name) {
  const bool contiguous = x.sizes.size() == 1 && (x.sizes[0] < 2 || x.strides[0] == 1);
  if (x.element != TensorView::Element::kInt64 || !x.on_cpu || !contiguous) {
    throw Error(cat("attention: ", name, " is ", x.sizes.size(), "-dimensional ", x.type_name(), " on ",
                    x.device_name(), "; expected a contiguous int64 vector on the CPU (.long(), .cpu())"));
  }
  return {static_cast<const int64_t*>(x.data), static_cast<size_t>(x.sizes[0])};
}

// "[0, 5, 12]", the first of many.
std::string listed(std::span<const int64_t> values) {
  constexpr size_t kMost = 8;
  std::vector<std::string> texts;
  for (const int64_t value : values.first(std::min(kMost, values.size()))) texts.push_back(cat(value));
  if (values.size() > kMost) texts.push_back(cat("... ", values.size(), " in all"));
  return cat('[', join(texts, ", "), ']');
}

std::span<const int64_t> offsets_of(const TensorView& x, int64_t tokens, std::string_view name) {
  const std::span<const int64_t> offsets = host_integers(x, name);
  bool rising = !offsets.empty() && offsets.front() == 0 && offsets.back() == tokens;
  for (size_t i = 1; i < offsets.size(); ++i) rising = rising && offsets[i - 1] <= offsets[i];
  if (!rising) {
    throw Error(cat("attention: ", name, " is ", listed(offsets),
                    "; expected it to rise from 0 to the number of tokens, ", tokens));
  }
  return offsets;
}

// Sequences whose keys are ranges [k_begins[b], k_begins[b] + k_lengths[b]) anywhere in k.
std::vector<Sequence> key_ranges(std::span<const int64_t> q, int64_t keys, const SequenceVectors& vectors) {
  if (vectors.k_offsets || !vectors.k_lengths) {
    throw Error("attention: k_begins needs k_lengths, and stands in place of k_offsets");
  }
  const auto begins = host_integers(*vectors.k_begins, "k_begins");
  const auto lengths = host_integers(*vectors.k_lengths, "k_lengths");
  bool fits = begins.size() + 1 == q.size() && lengths.size() == begins.size();
  for (size_t b = 0; fits && b < begins.size(); ++b) {
    fits = begins[b] >= 0 && begins[b] <= keys && lengths[b] >= 0 && lengths[b] <= keys - begins[b];
  }
  if (!fits) {
    throw Error(cat("attention: k_begins is ", listed(begins), " and k_lengths ", listed(lengths), "; expected ",
                    q.size() - 1, " ranges within the ", keys, " keys"));
  }
  std::vector<Sequence> all;
  for (size_t b = 0; b < begins.size(); ++b) all.push_back({q[b], q[b + 1] - q[b], begins[b], lengths[b]});
  return all;
}

std::vector<Sequence> packed_sequences(const CallSizes& sizes, const SequenceVectors& vectors) {
  if (!vectors.q_offsets) {
    if (vectors.k_offsets || vectors.k_begins) {
      throw Error("attention: keys of sequences without q_offsets; give both");
    }
    return {{0, sizes.queries, 0, sizes.keys}};
  }
  const auto q = offsets_of(*vectors.q_offsets, sizes.queries, "q_offsets");
  if (vectors.k_begins) {
    const int64_t keys = vectors.k_tokens && !vectors.k_tokens->sizes.empty() ? vectors.k_tokens->sizes[0] : sizes.keys;
    return key_ranges(q, keys, vectors);
  }
  const auto k = offsets_of(vectors.k_offsets ? *vectors.k_offsets : *vectors.q_offsets, sizes.keys, "k_offsets");
  if (q.size() != k.size()) {
    throw Error(cat("attention: q_offsets are of ", q.size() - 1, " sequences and k_offsets of ", k.size() - 1,
                    "; expected as many"));
  }
  std::vector<Sequence> all;
  for (size_t b = 0; b + 1 < q.size(); ++b) all.push_back({q[b], q[b + 1] - q[b], k[b], k[b + 1] - k[b]});
  return all;
}

// The length of sequence b, [0, N].
struct Lengths {
  std::span<const int64_t> given;
  int64_t padded;
  int64_t operator[](int64_t b) const { return given.empty() ? padded : given[static_cast<size_t>(b)]; }
};

Lengths lengths_of(const std::optional<TensorView>& x, int64_t batch, int64_t padded, std::string_view name) {
  if (!x) return {{}, padded};
  const std::span<const int64_t> given = host_integers(*x, name);
  bool fits = static_cast<int64_t>(given.size()) == batch;
  for (const int64_t length : given) fits = fits && length >= 0 && length <= padded;
  if (!fits) {
    throw Error(
        cat("attention: ", name, " is ", listed(given), "; expected ", batch, " lengths between 0 and ", padded));
  }
  return {given, padded};
}

}  // namespace

std::vector<Sequence> read_sequences(const CallSizes& sizes, const SequenceVectors& vectors) {
  if (sizes.packed) return packed_sequences(sizes, vectors);
  const Lengths q = lengths_of(vectors.q_lengths, sizes.batch, sizes.queries, "q_lengths");
  const Lengths k = lengths_of(vectors.k_lengths, sizes.batch, sizes.keys, "k_lengths");
  std::vector<Sequence> all;
  for (int64_t b = 0; b < sizes.batch; ++b) all.push_back({b * sizes.queries, q[b], b * sizes.keys, k[b]});
  return all;
}

std::span<const int64_t> read_key_tokens(const CallSizes& sizes, const SequenceVectors& vectors) {
  if (!vectors.k_tokens) return {};
  if (!sizes.packed || !vectors.k_begins) throw Error("attention: k_tokens go with k_begins and k_lengths");
  const std::span<const int64_t> tokens = host_integers(*vectors.k_tokens, "k_tokens");
  int64_t least = 0, greatest = 0;
  for (const int64_t token : tokens) least = std::min(least, token), greatest = std::max(greatest, token);
  if (least < 0 || (!tokens.empty() && greatest >= sizes.keys)) {
    throw Error(
        cat("attention: k_tokens hold ", least < 0 ? least : greatest, "; expected rows of k, 0 to ", sizes.keys - 1));
  }
  return tokens;
}

}  // namespace fovea::kernels
