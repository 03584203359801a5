#include "fovea/search/bank_shares.h"

#include <algorithm>
#include <map>

namespace fovea::search {
namespace {

struct Bank {
  int64_t share = 0, seen = 0;  // rows, and candidates so far, ends too
};

}  // namespace

int64_t rows_for_banks(int64_t beam_size, int64_t banks) { return std::max(beam_size, std::min(banks, 2 * beam_size)); }

void choose_by_banks(std::span<BankCandidate> candidates, int64_t rows) {
  std::map<int64_t, Bank> banks;
  for (const BankCandidate& candidate : candidates) {
    if (candidate.bank != BankCandidate::kNoBank) banks[candidate.bank];
  }
  if (banks.empty()) {
    // No candidate can say everything in time: they go on as they are, and their ends do not say everything.
    for (BankCandidate& candidate : candidates) candidate.is_chosen = !candidate.ends && rows-- > 0;
    return;
  }
  const auto count = std::ssize(banks);
  int64_t extra = rows % count;
  for (auto& [missing, bank] : banks) bank.share = rows / count + (extra-- > 0 ? 1 : 0);
  int64_t left = rows;
  for (BankCandidate& candidate : candidates) {
    if (candidate.bank == BankCandidate::kNoBank) continue;
    Bank& bank = banks[candidate.bank];
    candidate.is_chosen = bank.seen++ < bank.share;
    if (candidate.is_chosen && !candidate.ends) --left;
  }
  // Rows that are left, because of banks with few candidates and of ends, go to the best of the others.
  for (BankCandidate& candidate : candidates) {
    if (left == 0) return;
    if (candidate.is_chosen || candidate.ends || candidate.bank == BankCandidate::kNoBank) continue;
    candidate.is_chosen = true;
    --left;
  }
}

}  // namespace fovea::search
