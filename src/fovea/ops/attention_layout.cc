#include "fovea/ops/attention_layout.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "fovea/base/strings.h"

namespace fovea::ops {
namespace {

std::span<const int64_t> host_integers(const at::Tensor& x, std::string_view name) {
  if (x.scalar_type() != at::kLong || !x.device().is_cpu() || x.dim() != 1 || !x.is_contiguous()) {
    throw Error(cat("attention: ", name, " is ", x.dim(), "-dimensional ", x.scalar_type(), " on ", x.device().str(),
                    "; expected a contiguous int64 vector on the CPU (.long(), .cpu())"));
  }
  return {x.const_data_ptr<int64_t>(), static_cast<size_t>(x.numel())};
}

// "[0, 5, 12]", the first of many.
std::string listed(std::span<const int64_t> values) {
  constexpr size_t kMost = 8;
  std::vector<std::string> texts;
  for (const int64_t value : values.first(std::min(kMost, values.size()))) texts.push_back(cat(value));
  if (values.size() > kMost) texts.push_back(cat("... ", values.size(), " in all"));
  return cat('[', join(texts, ", "), ']');
}

std::span<const int64_t> offsets_of(const at::Tensor& x, int64_t tokens, std::string_view name) {
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
std::vector<kernels::Sequence> key_ranges(std::span<const int64_t> q, int64_t keys, const AttentionOptions& options) {
  if (options.k_offsets || !options.k_lengths) {
    throw Error("attention: k_begins needs k_lengths, and stands in place of k_offsets");
  }
  const auto begins = host_integers(*options.k_begins, "k_begins");
  const auto lengths = host_integers(*options.k_lengths, "k_lengths");
  bool fits = begins.size() + 1 == q.size() && lengths.size() == begins.size();
  for (size_t b = 0; fits && b < begins.size(); ++b) {
    fits = begins[b] >= 0 && begins[b] <= keys && lengths[b] >= 0 && lengths[b] <= keys - begins[b];
  }
  if (!fits) {
    throw Error(cat("attention: k_begins is ", listed(begins), " and k_lengths ", listed(lengths), "; expected ",
                    q.size() - 1, " ranges within the ", keys, " keys"));
  }
  std::vector<kernels::Sequence> all;
  for (size_t b = 0; b < begins.size(); ++b) all.push_back({q[b], q[b + 1] - q[b], begins[b], lengths[b]});
  return all;
}

std::vector<kernels::Sequence> packed_sequences(const QueryKey& x, const AttentionOptions& options) {
  const int64_t queries = x.q.size(0), keys = x.k.size(0);
  if (!options.q_offsets) {
    if (options.k_offsets || options.k_begins) {
      throw Error("attention: keys of sequences without q_offsets; give both");
    }
    return {{0, queries, 0, keys}};
  }
  const auto q = offsets_of(*options.q_offsets, queries, "q_offsets");
  if (options.k_begins) return key_ranges(q, options.k_tokens ? options.k_tokens->numel() : keys, options);
  const auto k = offsets_of(options.k_offsets ? *options.k_offsets : *options.q_offsets, keys, "k_offsets");
  if (q.size() != k.size()) {
    throw Error(cat("attention: q_offsets are of ", q.size() - 1, " sequences and k_offsets of ", k.size() - 1,
                    "; expected as many"));
  }
  std::vector<kernels::Sequence> all;
  for (size_t b = 0; b + 1 < q.size(); ++b) all.push_back({q[b], q[b + 1] - q[b], k[b], k[b + 1] - k[b]});
  return all;
}

// The length of sequence b, [0, N].
struct Lengths {
  std::span<const int64_t> given;
  int64_t padded;
  int64_t operator[](int64_t b) const { return given.empty() ? padded : given[static_cast<size_t>(b)]; }
};

Lengths lengths_of(const std::optional<at::Tensor>& x, const at::Tensor& rows, std::string_view name) {
  if (!x) return {{}, rows.size(2)};
  const std::span<const int64_t> given = host_integers(*x, name);
  bool fits = static_cast<int64_t>(given.size()) == rows.size(0);
  for (const int64_t length : given) fits = fits && length >= 0 && length <= rows.size(2);
  if (!fits) {
    throw Error(cat("attention: ", name, " is ", listed(given), "; expected ", rows.size(0), " lengths between 0 and ",
                    rows.size(2)));
  }
  return {given, rows.size(2)};
}

}  // namespace

at::Tensor token_rows(const at::Tensor& x) {
  const at::Tensor rows =
      x.dim() == 3 ? x
                   : x.transpose(1, 2).reshape_symint({x.sym_size(0) * x.sym_size(2), x.sym_size(1), x.sym_size(3)});
  return rows.sym_size(2) < 2 || rows.sym_stride(2) == 1 ? rows : rows.contiguous();
}

at::Tensor from_token_rows(const at::Tensor& rows, const at::Tensor& like) {
  if (like.dim() == 3) return rows;
  return rows.view_symint({like.sym_size(0), like.sym_size(2), like.sym_size(1), rows.sym_size(2)}).transpose(1, 2);
}

at::Tensor empty_like_rows(const at::Tensor& like) {
  if (like.dim() == 3) return at::empty_symint(like.sym_sizes(), like.options());
  return at::empty_symint({like.sym_size(0), like.sym_size(2), like.sym_size(1), like.sym_size(3)}, like.options())
      .transpose(1, 2);
}

at::Tensor rows_like(const at::Tensor& rows, const at::TensorOptions& options) {
  const at::Tensor like = at::empty_like(rows, options);
  // If rows overlap, empty_like() may put another dimension innermost.
  return like.sym_size(2) < 2 || like.sym_stride(2) == 1 ? like : at::empty_symint(like.sym_sizes(), options);
}

at::Tensor empty_gradient(const at::Tensor& like) {
  return from_token_rows(rows_like(token_rows(like), like.options()), like);
}

std::vector<kernels::Sequence> sequences_of(const QueryKey& x, const AttentionOptions& options) {
  if (x.q.dim() == 3) return packed_sequences(x, options);
  const Lengths q = lengths_of(options.q_lengths, x.q, "q_lengths");
  const Lengths k = lengths_of(options.k_lengths, x.k, "k_lengths");
  std::vector<kernels::Sequence> all;
  for (int64_t b = 0; b < x.q.size(0); ++b) all.push_back({b * x.q.size(2), q[b], b * x.k.size(2), k[b]});
  return all;
}

std::span<const int64_t> key_tokens_of(const at::Tensor& k, const AttentionOptions& options) {
  if (!options.k_tokens) return {};
  if (k.dim() != 3 || !options.k_begins) throw Error("attention: k_tokens go with k_begins and k_lengths");
  const std::span<const int64_t> tokens = host_integers(*options.k_tokens, "k_tokens");
  int64_t least = 0, greatest = 0;
  for (const int64_t token : tokens) least = std::min(least, token), greatest = std::max(greatest, token);
  if (least < 0 || (!tokens.empty() && greatest >= k.size(0))) {
    throw Error(
        cat("attention: k_tokens hold ", least < 0 ? least : greatest, "; expected rows of k, 0 to ", k.size(0) - 1));
  }
  return tokens;
}

}  // namespace fovea::ops
