#include "fovea/models/prefix_cache.h"

#include <algorithm>

#include "fovea/models/engine_counts.h"

namespace fovea::models {
namespace {

std::vector<int64_t> piece_of(std::span<const int64_t> units, int64_t piece) {
  const auto own = units.subspan(static_cast<size_t>(piece * kPromptPiece), static_cast<size_t>(kPromptPiece));
  return {own.begin(), own.end()};
}

}  // namespace

std::vector<PrefixCache::Piece> PrefixCache::find(std::span<const int64_t> prompt, int64_t most) {
  std::vector<Piece> pieces;
  ++now_;
  int64_t before = 0;
  for (int64_t piece = 0; piece < std::min(most, std::ssize(prompt) / kPromptPiece); ++piece) {
    const auto found = nodes_.find({before, piece_of(prompt, piece)});
    if (found == nodes_.end()) break;
    found->second.used = now_;
    before = found->second.number;
    pieces.push_back(found->second.piece);
  }
  return pieces;
}

std::pair<bool, int64_t> PrefixCache::number_of(std::span<const int64_t> units) const {
  int64_t number = 0;
  for (int64_t piece = 0; piece < std::ssize(units) / kPromptPiece; ++piece) {
    const auto found = nodes_.find({number, piece_of(units, piece)});
    if (found == nodes_.end()) return {false, 0};
    number = found->second.number;
  }
  return {true, number};
}

bool PrefixCache::wants(std::span<const int64_t> units) const {
  return keeps_any() && number_of(units.first(units.size() - kPromptPiece)).first && !number_of(units).first;
}

void PrefixCache::add(std::span<const int64_t> units, Piece piece) {
  if (!wants(units)) return;
  const int64_t before = number_of(units.first(units.size() - kPromptPiece)).second;
  const int64_t bytes = piece->bytes() + 2 * kPromptPiece * static_cast<int64_t>(sizeof(int64_t));
  if (bytes > most_bytes_) return;
  Key key{before, piece_of(units, std::ssize(units) / kPromptPiece - 1)};
  const int64_t number = next_number_++;
  if (before > 0) ++nodes_.at(keys_.at(before)).followers;
  keys_.emplace(number, key);
  nodes_.emplace(std::move(key), Node{number, std::move(piece), bytes, now_, 0});
  bytes_ += bytes;
  while (bytes_ > most_bytes_) drop_oldest();
}

// A piece leaves after the pieces behind it, which need it.
void PrefixCache::drop_oldest() {
  auto oldest = nodes_.end();
  for (auto node = nodes_.begin(); node != nodes_.end(); ++node) {
    if (node->second.followers > 0) continue;
    if (oldest == nodes_.end() || node->second.used < oldest->second.used) oldest = node;
  }
  if (oldest->first.first > 0) --nodes_.at(keys_.at(oldest->first.first)).followers;
  bytes_ -= oldest->second.bytes;
  keys_.erase(oldest->second.number);
  nodes_.erase(oldest);
}

}  // namespace fovea::models
