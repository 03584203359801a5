#pragma once
#include <cstdint>
#include <limits>
#include <span>

// Dynamic beam allocation (Post and Vilar 2018): the rows of a sentence are shared out among banks of hypotheses that
// have as many demanded tokens still to say.
namespace fovea::search {

// The rows of a sentence with `banks` banks: one for each bank, at least the beam and at most twice the beam.
int64_t rows_for_banks(int64_t beam_size, int64_t banks);

struct BankCandidate {
  static constexpr int64_t kNoBank = std::numeric_limits<int64_t>::max();
  int64_t bank = 0;   // tokens still to say; kNoBank: never chosen, unless no candidate has a bank
  bool ends = false;  // it finishes a hypothesis and takes no row
  bool is_chosen = false;
};

// Chooses among candidates, best first, so that at most `rows` of them go on. Every bank that has candidates gets an
// equal share, the banks with the least to say first; what a bank does not need goes to the best of the others. An end
// is chosen if it is as good as the continuations that its bank's share lets go on.
void choose_by_banks(std::span<BankCandidate> candidates, int64_t rows);

}  // namespace fovea::search
