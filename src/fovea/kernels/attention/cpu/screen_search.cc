#include "fovea/kernels/attention/cpu/screen_search.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "fovea/kernels/attention/cpu/screen_copy.h"

namespace fovea::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Scoring a tile for a row costs about as much as this number of exact scores.
constexpr int64_t kExactPerTile = 4;
// About how much too low a threshold may be, in scores: a few more candidates cost less than another round.
constexpr float kMuTolerance = 0x1p-7F;
// The slack for the rounding of mu, relative to c.
constexpr float kMuSlack = 1e-4F;
// A guess lies close to the final threshold, so its list is pruned at this multiple of the usual length.
constexpr int64_t kLongerLists = 2;

// The rows of a product, with the rows that a product by tiles touches beyond its own.
constexpr int64_t kProductRows = kBlockQueries + kTileQueries;

int64_t round_up(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }

// Sets bits [begin, end) of a block's 512.
void set_bits(uint64_t* words, int64_t begin, int64_t end) {
  while (begin < end) {
    const int64_t word = begin / 64, stop = std::min(end, (word + 1) * 64), length = stop - begin;
    words[word] |= (length == 64 ? ~uint64_t{0} : (uint64_t{1} << length) - 1) << (begin % 64);
    begin = stop;
  }
}

}  // namespace

float ScreenedQuery::least_mu(const EntmaxPower& power) const {
  return std::max(0.0F, mu - 2 * widest * packed.factor - kMuSlack * power.c);
}

CandidateSearch::CandidateSearch(int64_t most_keys, int64_t width)
    : width_(width),
      queries_(aligned<float>(kBlockQueries * width)),
      words_(aligned<uint32_t>(kProductRows * width)),
      scores_(aligned<uint32_t>(kProductRows * kScoreStride)),
      hits_(aligned<uint16_t>(kProductRows * kBlockGroups)),
      tiles_(static_cast<size_t>(round_up(most_keys, kBlockKeys) / kTileKeys)),
      rows_(kBlockQueries) {
  // A list may grow by a block before it is pruned, and vectors write 16 past its end.
  list_stride_ = round_up(most_keys, 16) + kBlockKeys + 32;
  bounds_ = aligned<float>(kBlockQueries * list_stride_);
  lists_ = aligned<int32_t>(kBlockQueries * list_stride_);
  best_bounds_ = aligned<float>(2 * list_stride_);
  best_lists_ = aligned<int32_t>(2 * list_stride_);
  for (int64_t i = 0; i < kBlockQueries; ++i) {
    rows_[static_cast<size_t>(i)].list = {lists_.get() + i * list_stride_, bounds_.get() + i * list_stride_, 0};
  }
}

// Marks the tiles that the rows see. Returns whether screening pays: scattered pairs are scored exactly one by one.
bool CandidateSearch::mark_tiles(const PackedKeys& keys) {
  std::fill(tiles_.begin(), tiles_.end(), uint8_t{0});
  int64_t pairs = 0;
  for (int64_t i = 0; i < num_queries_; ++i) {
    for (const Span& span : row(i).keys.compete) {
      pairs += span.end - span.begin;
      const auto first = static_cast<size_t>(span.begin / kTileKeys);
      const auto last = static_cast<size_t>((span.end - 1) / kTileKeys);
      std::fill(tiles_.begin() + static_cast<int64_t>(first), tiles_.begin() + static_cast<int64_t>(last) + 1,
                uint8_t{1});
    }
  }
  const int64_t tiles = std::count(tiles_.begin(), tiles_.end(), uint8_t{1});
  return keys.finite && pairs > tiles * num_queries_ * kExactPerTile;
}

void CandidateSearch::prepare_row(ScreenedQuery& row, int64_t index, float scale) {
  row.threshold = row.guess = -kInfinity;
  // Terms change what one block says of the others. Entmax's threshold soon comes as high by itself.
  row.may_guess = selection_->k > 0 && !row.terms.any();
  row.first_whole = {};
  if (selection_->k > 0) {
    constexpr int32_t kFirst = 0;
    float scores[16 + 1];
    ops_->dots({keys_->mean, width_, &kFirst, 1}, query(index), scale, scores);
    row.of_mean = scores[0];
  }
  row.packed = ops_->pack_query(*keys_, query(index), scale, words_.get() + index * keys_->steps);
  start_[index] = row.packed.start;
  row.per_step = 1 / double{row.packed.step};
  if (row.terms.any()) {
    // The rounding of the terms and of the sums with them, in the screened and in the exact score.
    constexpr float kRoundings = 16 * 0x1p-24F;
    row.packed.tiny += kRoundings * (row.terms.most / row.packed.factor + 2 * row.packed.norm * keys_->plain);
  }
  row.widest = 0;
  const int64_t blocks = (keys_->num_keys + kBlockKeys - 1) / kBlockKeys;
  for (int64_t b = 0; b < blocks; ++b) row.widest = std::max(row.widest, row.packed.bound(keys_->blocks[b]));
  const int64_t competing = row.keys.num_compete();
  row.direct = !row.packed.finite || !(row.widest < kInfinity) || competing <= std::max<int64_t>(selection_->k, 32);
  row.settled = row.direct;
  row.raised = -1;
  row.trigger = selection_->k > 0 ? 2 * selection_->k + 32 : 64;
}

void CandidateSearch::set_threshold(int64_t index, const KeyBlock& block) {
  const ScreenedQuery& query = row(index);
  const float least = std::max(query.threshold, query.guess) - query.packed.bound(block);
  if (!is_integer(keys_->format)) {
    thresholds_[index] = std::bit_cast<uint32_t>(query.settled ? kInfinity : least);
    return;
  }
  // Sums stay below 2^30, or below 0x7fff in magnitude. The limit is lower by two units, because the product rounds,
  // and the conversion towards zero.
  constexpr double kLower = 2;
  const bool shorts = score_type(keys_->format) == ScoreType::kInt16;
  const double most = shorts ? 0x7fff : 0x1p30, units = double{least} * query.per_step / block.step;
  const double lower = query.settled ? most : std::clamp(units, kLower - most, most) - kLower;
  const auto limit = static_cast<uint32_t>(static_cast<int32_t>(lower));
  thresholds_[index] = shorts ? in_both_halves(limit) : limit;
}

// Whether the row sees any key of the block; *allowed is left null when it sees all.
bool CandidateSearch::find_allowed(const ScreenedQuery& row, int64_t block, const uint64_t** allowed) {
  const int64_t begin = block * kBlockKeys, end = begin + kBlockKeys;
  *allowed = nullptr;
  bool any = false;
  for (const Span& span : row.keys.compete) {
    if (span.begin <= begin && end <= span.end) return true;
    if (span.end <= begin || end <= span.begin) continue;
    if (!any) std::memset(allowed_, 0, sizeof allowed_);
    any = true;
    *allowed = allowed_;
    set_bits(allowed_, std::max(span.begin, begin) - begin, std::min(span.end, end) - begin);
  }
  return any;
}

// A threshold from lower bounds of some of the row's scores; it stays valid, as more keys only raise the final one.
float CandidateSearch::threshold_from(ScreenedQuery& row, float* bounds, int64_t count) const {
  if (selection_->k > 0) return ops_->reached_by(bounds, count, selection_->k, selection_->k / 16);
  if (count == 0) return -kInfinity;
  const float unit = row.packed.factor, c = selection_->power.c, top = ops_->greatest(bounds, count);
  // center + mu is at least what it was for fewer keys.
  const float start = std::max(0.0F, (row.threshold - top) * unit + c);
  const EntmaxPower& power = selection_->power;
  row.mu = power.mu_of(ops_->entmax_root(power, {bounds, count, top, unit, start, kMuTolerance}));
  // The support lies less than c below center + mu.
  return top + (row.mu - c * (1 + kMuSlack)) / unit;
}

void CandidateSearch::raise_threshold(ScreenedQuery& row) {
  RowList& list = row.list;
  row.threshold = std::max(row.threshold, threshold_from(row, list.values, list.count));
  list.count = ops_->prune(std::max(row.threshold, row.guess) - 2 * row.widest, list.values, list.keys, list.count);
  row.trigger = std::max(2 * list.count, row.trigger);
  row.raised = list.count;
}

// The score from which keys of the first block that a row sees whole are listed. -infinity: unknown.
float CandidateSearch::start_from(ScreenedQuery& row, const ScreenedRow& screened) {
  if (row.may_guess) {
    row.may_guess = false;
    row.first_whole = ops_->moments(screened);
    row.guess = guess_.of(row.first_whole);
    if (row.guess > -kInfinity) {
      row.trigger *= kLongerLists;
      return row.guess;
    }
  }
  if (selection_->k > kSampled / 2) return -kInfinity;
  float sampled[kSampled + 16];
  ops_->sample(screened, sampled);
  row.threshold = threshold_from(row, sampled, kSampled);
  return row.threshold;
}

void CandidateSearch::take_hits(ScreenedQuery& row, ScreenedRow screened) {
  uint16_t hits[kBlockGroups];
  if (row.threshold == -kInfinity && row.guess == -kInfinity && screened.allowed == nullptr) {
    const float start = start_from(row, screened);
    if (start > -kInfinity) {
      ops_->mark(screened, start - 2 * row.widest, hits);
      screened.hits = hits;
    }
  }
  row.list.count = ops_->append(screened, row.list.values, row.list.keys, row.list.count);
  if (row.list.count >= row.trigger) raise_threshold(row);
}

void CandidateSearch::screen_block(int64_t block, Rows rows) {
  const int64_t first_tile = block * (kBlockKeys / kTileKeys);
  const int64_t num_tiles = std::min<int64_t>(kBlockKeys / kTileKeys, static_cast<int64_t>(tiles_.size()) - first_tile);
  const uint8_t* tiles = tiles_.data() + first_tile;
  if (std::find(tiles, tiles + num_tiles, 1) == tiles + num_tiles) return;
  const KeyBlock& bounds = keys_->blocks[block];
  for (int64_t i = rows.begin; i < rows.end; ++i) set_threshold(i, bounds);
  for (int64_t tile = 0; tile < num_tiles;) {
    int64_t end = tile;
    while (end < num_tiles && tiles[end] != 0) ++end;
    if (end > tile) {
      const int64_t groups = kTileKeys / kGroupKeys;
      product_({words_.get() + rows.begin * keys_->steps, start_ + rows.begin, thresholds_ + rows.begin,
                keys_->words + (first_tile + tile) * tile_words(keys_->format, keys_->steps),
                scores_.get() + rows.begin * kScoreStride + tile * kTileKeys / scores_per_word(keys_->format),
                hits_.get() + rows.begin * kBlockGroups + tile * groups, keys_->steps,
                round_up(rows.end - rows.begin, kProductQueries), end - tile});
    }
    tile = std::max(end, tile + 1);
  }
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    ScreenedQuery& query = row(i);
    const uint64_t* allowed = nullptr;
    if (query.settled || !find_allowed(query, block, &allowed)) continue;
    const bool integers = is_integer(keys_->format);
    const ScreenedRow screened = {scores_.get() + i * kScoreStride,
                                  hits_.get() + i * kBlockGroups,
                                  allowed,
                                  integers ? bounds.step * query.packed.step : 1.0F,
                                  query.packed.bound(bounds),
                                  static_cast<int32_t>(block * kBlockKeys),
                                  score_type(keys_->format)};
    take_hits(query, query.terms.any() ? add_terms(i, screened) : screened);
  }
}

ScreenedRow CandidateSearch::add_terms(int64_t index, const ScreenedRow& screened) {
  const ScreenedQuery& query = row(index);
  const ScreenTerms& terms = query.terms;
  auto* scores = reinterpret_cast<float*>(scores_.get() + index * kScoreStride);
  uint16_t* hits = hits_.get() + index * kBlockGroups;
  ops_->add_terms(
      screened,
      {terms.by_head, terms.by_query, terms.by_head_range, terms.by_query_range, screened.first_key - terms.position,
       1 / query.packed.factor, std::max(query.threshold, query.guess) - screened.bound},
      scores, hits);
  ScreenedRow with_terms = screened;
  with_terms.factor = 1;
  with_terms.type = ScoreType::kFloat32;
  return with_terms;
}

// Makes the lists of the rows.
void CandidateSearch::screen(Rows rows) {
  const int64_t blocks = (keys_->num_keys + kBlockKeys - 1) / kBlockKeys;
  for (int64_t block = 0; block < blocks; ++block) screen_block(block, rows);
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    ScreenedQuery& query = row(i);
    if (!query.settled && query.list.count != query.raised) raise_threshold(query);
  }
}

// Screens again the rows whose threshold stayed below the guess, since keys that reach only the threshold are not
// listed.
void CandidateSearch::screen_missed() {
  for (int64_t first = 0; first < num_queries_; first += kProductQueries) {
    const Rows rows = {first, std::min<int64_t>(first + kProductQueries, num_queries_)};
    bool any = false;
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      ScreenedQuery& query = row(i);
      query.settled = query.settled || !query.missed();
      if (query.settled) continue;
      any = true;
      query.guess = -kInfinity;
      query.list.count = 0;
      query.list.threshold.reset();
      query.raised = -1;
    }
    if (!any) continue;
    screen(rows);
    select(rows);
  }
}

// ---- exact scores ----

// A lower bound of the k-th greatest score that comes from bounds is too low by the width of a bound. The exact scores
// of the k keys with the greatest lower bounds give one that is hardly ever too low at all, and half as many of the
// other candidates have to be scored.

// Rows in which every score that a selection compares is a product, and whose list holds the best k keys.
bool CandidateSearch::may_select(const ScreenedQuery& row) const {
  return selection_->k > 0 && !leaves_candidates_ && !row.settled && !row.terms.any() &&
         row.list.count >= selection_->k && row.threshold > -std::numeric_limits<float>::infinity();
}

void CandidateSearch::score(int64_t index, RowList& list) const {
  ops_->dots({keys_->rows, width_, list.keys, list.count}, queries_.get() + index * width_, scale_, list.values);
}

void CandidateSearch::fetch(const RowList& list) const {
  constexpr int64_t kMost = 256;  // more would push one another out
  if (is_near(keys_->num_keys, width_)) return;
  ops_->fetch({keys_->rows, width_, list.keys, std::min(list.count, kMost)});
}

// The candidates whose lower bounds reach the threshold; none if they say little about the others: where they are
// nearly all, and in a row that was screened twice, whose threshold is exact already and reached by less than k lower
// bounds.
RowList CandidateSearch::find_best(const ScreenedQuery& row, int64_t slot) {
  RowList best = {best_lists_.get() + slot * list_stride_, best_bounds_.get() + slot * list_stride_, row.list.count};
  std::memcpy(best.keys, row.list.keys, static_cast<size_t>(best.count) * sizeof *best.keys);
  std::memcpy(best.values, row.list.values, static_cast<size_t>(best.count) * sizeof *best.values);
  best.count = ops_->prune(row.threshold, best.values, best.keys, best.count);
  if (best.count < selection_->k || row.list.count * 4 <= best.count * 5) best.count = 0;
  return best;
}

// Raises the threshold to the k-th greatest score of the best keys, and drops what is surely below it.
void CandidateSearch::narrow(int64_t index, RowList best) {
  ScreenedQuery& query = row(index);
  score(index, best);
  const float exact = ops_->kth_greatest(best.values, best.count, selection_->k);
  query.threshold = std::max(query.threshold, normalised(query, exact));
  query.list.count =
      ops_->prune(query.threshold - 2 * query.widest, query.list.values, query.list.keys, query.list.count);
}

// A score is f (x . y) + scale q . m, so this is x . y for an exact score, less what its rounding may add: that of the
// last term, which is a score of the mean, and of the difference. The bound of a block contains the rounding of exact
// scores themselves.
float CandidateSearch::normalised(const ScreenedQuery& row, float score) const {
  const PackedQuery& packed = row.packed;
  const double value = (double{score} - row.of_mean) / packed.factor;
  return static_cast<float>(value - 0x1p-20 * std::abs(value) - (1 + 0x1p-10) * packed.exact * keys_->plain);
}

void CandidateSearch::finish(int64_t index) {
  ScreenedQuery& query = row(index);
  RowList& list = query.list;
  score(index, list);
  list.threshold = ops_->kth_greatest(list.values, list.count, selection_->k);
  query.threshold = std::max(query.threshold, normalised(query, *list.threshold));
  list.count = ops_->prune(*list.threshold, list.values, list.keys, list.count);
}

// Each row's keys are prefetched while the other rows around it are worked on.
void CandidateSearch::select(Rows rows) {
  RowList best[2];
  bool may[3] = {};
  for (int64_t i = rows.begin; i < rows.end + 2; ++i) {
    if (i - 2 >= rows.begin && may[(i - 2) % 3]) finish(i - 2);
    may[i % 3] = i < rows.end && may_select(row(i));
    if (may[i % 3]) {
      best[i % 2] = find_best(row(i), i % 2);
      fetch(best[i % 2].count > 0 ? best[i % 2] : row(i).list);
    }
    if (i - 1 >= rows.begin && may[(i - 1) % 3] && best[(i - 1) % 2].count > 0) {
      narrow(i - 1, best[(i - 1) % 2]);
      fetch(row(i - 1).list);
    }
  }
}

// ---- a block of queries ----

void CandidateSearch::run(const ScreenSelection& selection, const PackedKeys& keys, float scale, int64_t num_queries) {
  selection_ = &selection;
  scale_ = scale;
  keys_ = &keys;
  num_queries_ = num_queries;
  ops_ = &screen_ops();
  product_ = screen_product(keys.format);
  const bool screening = mark_tiles(keys);
  bool all_direct = true;
  for (int64_t i = 0; i < num_queries; ++i) {
    ScreenedQuery& query = row(i);
    query.list.count = 0;
    query.list.threshold.reset();
    query.mu = 0;
    query.direct = !screening;
    if (screening) prepare_row(query, i, scale);
    if (query.direct) query.list.count = list_keys(query.keys.compete, query.list.keys, 0);
    all_direct = all_direct && query.direct;
  }
  if (all_direct) return;
  for (int64_t i = num_queries; i < round_up(num_queries, kProductQueries); ++i) {
    std::memset(words_.get() + i * keys.steps, 0, static_cast<size_t>(keys.steps) * sizeof(uint32_t));
    start_[i] = 0;
    thresholds_[i] = is_integer(keys.format) ? 0x7fffffffU : std::bit_cast<uint32_t>(kInfinity);
  }
  screen({0, num_queries});
  select({0, num_queries});
  screen_missed();
  for (int64_t i = 0; i < num_queries; ++i) guess_.add(row(i).first_whole, row(i).threshold);
  guess_.learn();
}

}  // namespace fovea::kernels
