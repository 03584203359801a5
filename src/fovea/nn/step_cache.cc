#include "fovea/nn/step_cache.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "fovea/nn/index_tensor.h"

namespace fovea::nn {
namespace {

constexpr int64_t kFirstTokens = 16;      // of a row
constexpr int64_t kLongCapacity = 1024;   // tokens of a row, from which on its heads lie apart
constexpr int64_t kScreenedLength = 512;  // of a row, from which on the copies of keys save more than they cost

// The room of a row: a power of two above its length, so that the step after a prompt finds room.
int64_t capacity_for(int64_t length) {
  return std::max(kFirstTokens, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(length) + 1)));
}

int64_t longest_of(const std::vector<int64_t>& lengths) {
  return lengths.empty() ? 0 : *std::ranges::max_element(lengths);
}

}  // namespace

StepCache::StepCache(Rows kind, int64_t rows, const Shape& shape, const at::TensorOptions& options)
    : kind_(kind),
      shape_(shape),
      options_(options),
      buffers_(static_cast<size_t>(shape.layers)),
      types_(buffers_.size(), CacheType::kModel),
      screens_(static_cast<size_t>(shape.layers)),
      lengths_(static_cast<size_t>(rows), 0) {
  if (kind_ == Rows::kShared) return;
  slots_.resize(lengths_.size());
  std::iota(slots_.begin(), slots_.end(), int64_t{0});
}

void StepCache::append(const at::Tensor& offsets) {
  const auto* bounds = offsets.const_data_ptr<int64_t>();
  if (!buffers_.empty()) append_tokens(bounds);
  for (size_t r = 0; r < lengths_.size(); ++r) lengths_[r] += bounds[r + 1] - bounds[r];
}

void StepCache::append_tokens(const int64_t* bounds) {
  int64_t longest = 0;
  for (size_t r = 0; r < lengths_.size(); ++r) longest = std::max(longest, lengths_[r] + bounds[r + 1] - bounds[r]);
  if (longest >= kScreenedLength && !has_screens_) begin_screens();
  make_room(longest);
  count_ = bounds[lengths_.size()];
  kind_ == Rows::kShared ? append_shared(bounds) : append_apart(bounds);
}

void StepCache::make_room(int64_t length) {
  if (length <= capacity_) return;
  const int64_t capacity = capacity_for(length);
  if (kind_ == Rows::kApart) return move_rows(rows(), capacity);
  at::Tensor lists = at::zeros({rows(), capacity}, at::kLong);
  if (lists_.defined()) lists.narrow(1, 0, capacity_).copy_(lists_);
  lists_ = lists;
  capacity_ = capacity;
}

void StepCache::move_rows(int64_t slots, int64_t capacity) {
  std::vector<TokenMove> moves;
  for (int64_t r = 0; r < rows(); ++r) {
    const auto row = static_cast<size_t>(r);
    moves.push_back({slots_[row] * capacity_, r * capacity, lengths_[row]});
    slots_[row] = r;
  }
  free_slots_.clear();
  for (int64_t slot = rows(); slot < slots; ++slot) free_slots_.push_back(slot);
  capacity_ = capacity;
  move_to_new_buffers(slots * capacity, moves);
}

void StepCache::make_room_for_tokens(int64_t count) {
  if (used_ + count <= room()) return;
  const std::vector<int64_t> live = live_tokens();
  if (2 * std::ssize(live) < used_) {
    return keep_tokens(live, std::max(kFirstTokens * rows(), 2 * (std::ssize(live) + count)));
  }
  move_to_new_buffers(std::max({kFirstTokens * rows(), used_ + count, 2 * room()}), std::array{TokenMove{0, 0, used_}});
}

std::vector<int64_t> StepCache::live_tokens() const {
  std::vector<bool> is_live(static_cast<size_t>(used_));
  const auto* lists = lists_.const_data_ptr<int64_t>();
  for (int64_t r = 0; r < rows(); ++r) {
    const int64_t* list = lists + r * capacity_;
    for (int64_t i = 0; i < lengths_[static_cast<size_t>(r)]; ++i) is_live[static_cast<size_t>(list[i])] = true;
  }
  std::vector<int64_t> live;
  for (size_t token = 0; token < is_live.size(); ++token) {
    if (is_live[token]) live.push_back(static_cast<int64_t>(token));
  }
  return live;
}

void StepCache::keep_tokens(const std::vector<int64_t>& live, int64_t room) {
  const at::Tensor places = index_tensor(live);
  for (size_t layer = 0; layer < buffers_.size(); ++layer) {
    CacheRows kept = new_buffer(layer, room);
    kept.take(buffers_[layer], places);
    buffers_[layer] = std::move(kept);
  }
  rebuild_screens(std::array{TokenRange{0, std::ssize(live)}});
  std::vector<int64_t> place_of(static_cast<size_t>(used_));
  for (size_t i = 0; i < live.size(); ++i) place_of[static_cast<size_t>(live[i])] = static_cast<int64_t>(i);
  auto* lists = lists_.mutable_data_ptr<int64_t>();
  for (int64_t r = 0; r < rows(); ++r) {
    int64_t* list = lists + r * capacity_;
    for (int64_t i = 0; i < lengths_[static_cast<size_t>(r)]; ++i) list[i] = place_of[static_cast<size_t>(list[i])];
  }
  used_ = std::ssize(live);
}

CacheRows StepCache::new_buffer(size_t layer, int64_t tokens) const {
  const bool is_long = kind_ == Rows::kApart && capacity_ >= kLongCapacity && options_.device().is_cpu();
  const CacheLayout layout = is_long ? CacheLayout::kHeadsFirst : CacheLayout::kTokensFirst;
  return {{shape_.heads, shape_.head_dim, options_, types_[layer], layout}, tokens};
}

void StepCache::move_to_new_buffers(int64_t tokens, std::span<const TokenMove> moves) {
  for (size_t layer = 0; layer < buffers_.size(); ++layer) {
    CacheRows grown = new_buffer(layer, tokens);
    grown.take(buffers_[layer], moves);
    buffers_[layer] = std::move(grown);
  }
  std::vector<TokenRange> used;
  for (const TokenMove& move : moves) used.push_back({move.to, move.count});
  rebuild_screens(used);
}

void StepCache::append_shared(const int64_t* bounds) {
  make_room_for_tokens(count_);
  first_ = used_;
  auto* lists = lists_.mutable_data_ptr<int64_t>();
  for (size_t r = 0; r < lengths_.size(); ++r) {
    int64_t* list = lists + static_cast<int64_t>(r) * capacity_ + lengths_[r];
    std::iota(list, list + bounds[r + 1] - bounds[r], first_ + bounds[r]);
  }
  used_ += count_;
}

void StepCache::append_apart(const int64_t* bounds) {
  places_.reset();
  first_ = slots_.empty() ? 0 : slots_[0] * capacity_ + lengths_[0];
  if (lengths_.size() <= 1) return;
  places_ = at::empty({count_}, at::kLong);
  auto* places = places_.mutable_data_ptr<int64_t>();
  for (size_t r = 0; r < lengths_.size(); ++r) {
    std::iota(places + bounds[r], places + bounds[r + 1], slots_[r] * capacity_ + lengths_[r]);
  }
  places_ = places_.to(options_.device());
}

void StepCache::write(size_t layer, const at::Tensor& stacked) {
  const int64_t both = 2 * shape_.heads;
  const at::Tensor kept =
      stacked.narrow(1, stacked.size(1) - both, both).view({stacked.size(0), 2, shape_.heads, shape_.head_dim});
  buffers_[layer].write(kept, places_, first_);
  if (has_screens_ && screens_[layer]) screens_[layer]->write(kept.select(1, 0), places_, first_);
}

void StepCache::inherit(std::span<const int64_t> parents) {
  if (!buffers_.empty()) kind_ == Rows::kShared ? inherit_shared(parents) : inherit_apart(parents);
  std::vector<int64_t> lengths;
  for (const int64_t parent : parents) lengths.push_back(lengths_.at(static_cast<size_t>(parent)));
  lengths_.swap(lengths);
  if (!buffers_.empty() && kind_ == Rows::kApart) shrink();
}

void StepCache::shrink() {
  const int64_t capacity = capacity_for(longest_of(lengths_)), slots = std::ssize(slots_) + std::ssize(free_slots_);
  if (rows() == 0 || slots * capacity_ <= 8 * rows() * capacity) return;
  move_rows(rows(), std::min(capacity, capacity_));
}

void StepCache::add_rows(int64_t count) {
  const int64_t all = rows() + count;
  if (buffers_.empty()) {
    // Before the first keys the cache has lengths alone.
  } else if (kind_ == Rows::kShared) {
    if (lists_.defined()) {
      const at::Tensor lists = at::zeros({all, capacity_}, at::kLong);
      lists.narrow(0, 0, rows()).copy_(lists_);
      lists_ = lists;
    }
  } else {
    // More slots than rows, so that rows that come one by one do not move the others each time.
    if (std::ssize(free_slots_) < count) move_rows(all + all / 2, capacity_);
    for (int64_t i = 0; i < count; ++i) {
      slots_.push_back(free_slots_.back());
      free_slots_.pop_back();
    }
  }
  lengths_.resize(static_cast<size_t>(all), 0);
}

std::vector<CacheRows> StepCache::copy_tokens(int64_t row, const TokenRange& range) const {
  TORCH_CHECK(kind_ == Rows::kApart && range.first + range.count <= lengths_.at(static_cast<size_t>(row)),
              "a row that is apart has the tokens");
  const int64_t from = slots_[static_cast<size_t>(row)] * capacity_ + range.first;
  std::vector<CacheRows> copies;
  for (size_t layer = 0; layer < buffers_.size(); ++layer) {
    copies.push_back(new_buffer(layer, range.count));
    copies.back().take(buffers_[layer], std::array{TokenMove{from, 0, range.count}});
  }
  return copies;
}

void StepCache::paste_tokens(int64_t row, const std::vector<CacheRows>& tokens) {
  TORCH_CHECK(kind_ == Rows::kApart && tokens.size() == buffers_.size(), "the tokens are of another model");
  const int64_t count = tokens.empty() ? 0 : tokens.front().tokens();
  std::vector<int64_t> bounds(lengths_.size() + 1, 0);
  std::fill(bounds.begin() + row + 1, bounds.end(), count);
  append(index_tensor(std::move(bounds)));
  const auto own = static_cast<size_t>(row);
  const int64_t to = slots_[own] * capacity_ + lengths_[own] - count;
  for (size_t layer = 0; layer < buffers_.size(); ++layer) {
    buffers_[layer].take(tokens[layer], std::array{TokenMove{0, to, count}});
    if (has_screens_ && screens_[layer]) screens_[layer]->write(buffers_[layer].half(0).narrow(0, to, count), {}, to);
  }
}

void StepCache::inherit_shared(std::span<const int64_t> parents) {
  if (!lists_.defined()) return;
  int64_t longest = 0;
  for (const int64_t parent : parents) longest = std::max(longest, lengths_.at(static_cast<size_t>(parent)));
  const int64_t capacity = std::min(capacity_, capacity_for(longest));
  at::Tensor lists = at::zeros({static_cast<int64_t>(parents.size()), capacity}, at::kLong);
  auto* to = lists.mutable_data_ptr<int64_t>();
  const auto* from = lists_.const_data_ptr<int64_t>();
  for (const int64_t parent : parents) {
    std::copy_n(from + parent * capacity_, lengths_[static_cast<size_t>(parent)], to);
    to += capacity;
  }
  lists_ = lists;
  capacity_ = capacity;
}

void StepCache::inherit_apart(std::span<const int64_t> parents) {
  if (parents.size() > slots_.size() + free_slots_.size()) move_rows(std::ssize(parents), capacity_);
  // The first row that continues a row takes over its range.
  std::vector<int64_t> slots(parents.size(), -1);
  std::vector<bool> taken(slots_.size());
  for (size_t r = 0; r < parents.size(); ++r) {
    const auto parent = static_cast<size_t>(parents[r]);
    if (taken.at(parent)) continue;
    taken[parent] = true;
    slots[r] = slots_[parent];
  }
  for (size_t p = 0; p < taken.size(); ++p) {
    if (!taken[p]) free_slots_.push_back(slots_[p]);
  }
  for (size_t r = 0; r < parents.size(); ++r) {
    if (slots[r] >= 0) continue;
    slots[r] = free_slots_.back();
    free_slots_.pop_back();
    const int64_t length = lengths_[static_cast<size_t>(parents[r])];
    const int64_t from = slots_[static_cast<size_t>(parents[r])] * capacity_;
    if (length == 0) continue;
    for (CacheRows& buffer : buffers_) buffer.copy({from, slots[r] * capacity_, length});
    for (std::optional<ScreenedKeys>& screen : screens_) {
      if (has_screens_ && screen) screen->copy(from, slots[r] * capacity_, length);
    }
  }
  slots_.swap(slots);
}

void StepCache::screen_keys(size_t layer) {
  const at::ScalarType type = c10::typeMetaToScalarType(options_.dtype());
  if (options_.device().is_cpu() && (type == at::kFloat || type == at::kBFloat16)) screens_[layer].emplace();
}

void StepCache::narrow(size_t layer, CacheType type) {
  TORCH_CHECK(kind_ == Rows::kApart && !buffers_[layer].is_defined(), "narrow rows are apart from the beginning");
  types_[layer] = type;
}

void StepCache::begin_screens() {
  has_screens_ = true;
  if (!buffers_[0].is_defined()) return;
  if (kind_ == Rows::kShared) return rebuild_screens(std::array{TokenRange{0, used_}});
  std::vector<TokenRange> used;
  for (size_t r = 0; r < lengths_.size(); ++r) used.push_back({slots_[r] * capacity_, lengths_[r]});
  rebuild_screens(used);
}

void StepCache::rebuild_screens(std::span<const TokenRange> used) {
  for (size_t layer = 0; layer < screens_.size(); ++layer) {
    if (has_screens_ && screens_[layer]) screens_[layer]->rebuild(buffers_[layer].half(0), used);
  }
}

ops::KeyScreen StepCache::key_screen(size_t layer) const {
  return has_screens_ && screens_[layer] ? screens_[layer]->get() : ops::KeyScreen{};
}

at::Tensor StepCache::half(size_t layer, int64_t which) const {
  const at::Tensor tokens = buffers_[layer].half(which);
  return kind_ == Rows::kShared ? tokens.narrow(0, 0, used_) : tokens;
}

StepCache::Keys StepCache::key_places(std::span<const int64_t> first) const {
  std::vector<int64_t> begins, lengths;
  for (int64_t r = 0; r < rows(); ++r) {
    const auto row = static_cast<size_t>(r);
    begins.push_back(capacity_ * (kind_ == Rows::kShared ? r : slots_[row]) + first[row]);
    lengths.push_back(lengths_[row] - first[row]);
  }
  Keys keys{index_tensor(std::move(begins)), index_tensor(std::move(lengths)), {}};
  if (kind_ == Rows::kShared) keys.tokens = lists_.flatten();
  return keys;
}

}  // namespace fovea::nn
