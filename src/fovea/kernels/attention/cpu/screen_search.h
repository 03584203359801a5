#pragma once
#include <cstdint>
#include <vector>

#include "fovea/base/workspace.h"
#include "fovea/kernels/attention/cpu/screen_guess.h"
#include "fovea/kernels/attention/cpu/screen_select.h"

namespace fovea::kernels {

// One query of a block: the keys that it may see, and the list that screening leaves of them.
struct ScreenedQuery {
  RowKeys keys;
  ScreenTerms terms;
  PackedQuery packed;
  double per_step = 1;       // 1 / packed.step
  RowList list;              // values: lower bounds of scores in normalised units, or as RowList::threshold says
  bool direct = false;       // all competing keys are listed, without screening
  float threshold = 0;       // in normalised units; the final one is at or above it
  float guess = 0;           // what keys are listed from, where it is above the threshold; -infinity: none
  bool settled = false;      // its list is complete
  bool may_guess = false;    // no block has been seen whole yet
  ScoreMoments first_whole;  // of the scores of the first block that the row sees whole
  float widest = 0;          // greatest bound on the error over all blocks of keys
  float of_mean = 0;         // top-k: the score of the keys' mean
  int64_t trigger = 0;       // the length of the list at which the threshold is raised
  int64_t raised = -1;       // the length that raising it left; -1: not raised yet
  float mu = 0;              // entmax's, of the lower bounds in the list, and no more than theirs

  // A lower bound of the mu of exact scores, of which the greatest may be higher by the width of the bounds.
  float least_mu(const EntmaxPower& power) const;
  bool missed() const { return guess > threshold; }
};

// Finds, for a block of queries of one head, lists of all keys that can be selected; of top-k without terms by offset,
// the selected ones themselves. Each worker has one object.
class CandidateSearch {
 public:
  CandidateSearch(int64_t most_keys, int64_t width);
  // Row `row` of [kBlockQueries, width], into which the caller puts a query: head_dim values and zeros.
  float* query(int64_t row) { return queries_.get() + row * width_; }
  // The caller fills `keys` of the first num_queries rows before run(), and reads their lists afterwards.
  ScreenedQuery& row(int64_t row) { return rows_[static_cast<size_t>(row)]; }
  void run(const ScreenSelection& selection, const PackedKeys& keys, float scale, int64_t num_queries);
  // From now on, lists of top-k are left as screening makes them, so that tests see what the bounds let through.
  void leave_candidates() { leaves_candidates_ = true; }
  // Call this before the first run with other keys.
  void forget() { guess_.forget(); }

 private:
  struct Rows {
    int64_t begin, end;
  };
  bool mark_tiles(const PackedKeys& keys);
  void prepare_row(ScreenedQuery& row, int64_t index, float scale);
  void screen(Rows rows);
  void screen_block(int64_t block, Rows rows);
  void screen_missed();
  // Scores candidates of the rows exactly, and leaves the selected ones in the lists.
  void select(Rows rows);
  bool may_select(const ScreenedQuery& row) const;
  RowList find_best(const ScreenedQuery& row, int64_t slot);
  void narrow(int64_t index, RowList best);
  void finish(int64_t index);
  void score(int64_t index, RowList& list) const;
  float normalised(const ScreenedQuery& row, float score) const;
  void fetch(const RowList& list) const;
  bool find_allowed(const ScreenedQuery& row, int64_t block, const uint64_t** allowed);
  void set_threshold(int64_t index, const KeyBlock& block);
  void take_hits(ScreenedQuery& row, ScreenedRow screened);
  // Adds the row's terms by offset, in the same place; returns the row with them.
  ScreenedRow add_terms(int64_t index, const ScreenedRow& screened);
  float start_from(ScreenedQuery& row, const ScreenedRow& screened);
  float threshold_from(ScreenedQuery& row, float* bounds, int64_t count) const;
  void raise_threshold(ScreenedQuery& row);

  int64_t width_, num_queries_ = 0;
  Aligned<float> queries_, bounds_;
  Aligned<int32_t> lists_;
  // The candidates of two rows whose lower bounds reach the threshold.
  Aligned<float> best_bounds_;
  Aligned<int32_t> best_lists_;
  int64_t list_stride_ = 0;
  Aligned<uint32_t> words_, scores_;
  Aligned<uint16_t> hits_;
  std::vector<uint8_t> tiles_;  // that a row of the block sees
  std::vector<ScreenedQuery> rows_;
  uint32_t start_[kBlockQueries] = {}, thresholds_[kBlockQueries] = {};
  uint64_t allowed_[kBlockKeys / 64] = {};
  ThresholdGuess guess_;
  const ScreenSelection* selection_ = nullptr;
  float scale_ = 1;
  bool leaves_candidates_ = false;
  const PackedKeys* keys_ = nullptr;
  const ScreenOps* ops_ = nullptr;
  ScreenProduct product_ = nullptr;
};

}  // namespace fovea::kernels
