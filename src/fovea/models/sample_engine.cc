#include "fovea/models/sample_engine.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "fovea/kernels/layer/top_n.h"
#include "fovea/models/diverged.h"
#include "fovea/nn/index_tensor.h"
#include "fovea/ops/executor.h"

namespace fovea::models {

void SampleEngine::join() {
  if (state_ && !state_->can_add()) return;
  int64_t tokens = 0;
  for (const Row& row : rows_) tokens += step_tokens(row);
  while (!waiting_.empty()) {
    tokens += std::min(longest_piece(), std::ssize(waiting_.front().prompt));
    if (!rows_.empty() && (std::ssize(rows_) >= limits_.max_rows || tokens > limits_.max_tokens)) return;
    rows_.push_back({std::move(waiting_.front())});
    waiting_.pop_front();
  }
}

int64_t SampleEngine::longest_piece() const {
  return reads_whole_ ? std::numeric_limits<int64_t>::max() : kPromptPiece;
}

int64_t SampleEngine::step_tokens(const Row& row) const {
  if (row.is_gone) return 0;
  return row.reads_prompt() ? std::min(longest_piece(), row.to_read() - row.read) : 1;
}

bool SampleEngine::step() {
  if (std::ranges::all_of(rows_, &Row::is_gone)) rows_.clear(), state_.reset();
  join();
  if (rows_.empty()) return false;
  try {
    compute();
  } catch (...) {
    waiting_.clear(), rows_.clear(), chosen_.clear(), state_.reset();
    throw;
  }
  return true;
}

void SampleEngine::compute() {
  match_state();
  const Read read = read_next();
  keep_prefixes(read);
  score_prompts(read);
  choose(read);
  if (std::ranges::all_of(rows_, &Row::is_gone)) rows_.clear(), state_.reset();
}

// The rows of the model's state become those of the texts.
void SampleEngine::match_state() {
  std::vector<int64_t> kept;
  int64_t added = 0;
  bool any_gone = false;
  for (size_t r = 0; r < rows_.size(); ++r) {
    any_gone |= rows_[r].is_gone;
    if (rows_[r].is_gone) continue;
    if (rows_[r].is_new) {
      ++added;
    } else {
      kept.push_back(static_cast<int64_t>(r));
    }
    rows_[r].is_new = false;
  }
  std::erase_if(rows_, [](const Row& row) { return row.is_gone; });
  if (!state_ || kept.empty()) {
    state_ = model_.model->start(added, model_.decoder, nn::StepRows::kApart, texts_.cut, texts_.cache);
    reads_whole_ = !state_->can_add();
    return paste_prefixes(0);
  }
  if (any_gone) state_->reorder(kept);
  if (added == 0) return;
  state_->add_rows(added);
  paste_prefixes(kept.size());
}

void SampleEngine::paste_prefixes(size_t first) {
  if (reads_whole_ || !prefixes_.keeps_any()) return;
  for (size_t r = first; r < rows_.size(); ++r) {
    Row& row = rows_[r];
    if (row.request.scores_prompt) continue;  // all its units are wanted
    // The last unit is read, because the next one is chosen by its hidden state.
    for (const PrefixCache::Piece& piece : prefixes_.find(row.request.prompt, (row.to_read() - 1) / kPromptPiece)) {
      state_->paste_tokens(static_cast<int64_t>(r), *piece);
      row.read += kPromptPiece;
    }
    row.kept = row.read;
  }
}

void SampleEngine::keep_prefixes(const Read& read) {
  if (reads_whole_ || !prefixes_.keeps_any()) return;
  for (size_t r = 0; r < rows_.size(); ++r) {
    const Row& row = rows_[r];
    const bool is_piece = read.offsets[r + 1] - read.offsets[r] == kPromptPiece && row.made == 0;
    if (!is_piece) continue;
    const std::span<const int64_t> units(row.request.prompt.data(), static_cast<size_t>(row.read));
    if (!prefixes_.wants(units)) continue;
    prefixes_.add(units, state_->copy_tokens(static_cast<int64_t>(r), row.read - kPromptPiece, kPromptPiece));
  }
}

// The model reads the next units of every row.
SampleEngine::Read SampleEngine::read_next() {
  const int64_t most = longest_piece();
  std::vector<int64_t> units, offsets = {0};
  for (Row& row : rows_) {
    if (row.reads_prompt()) {
      const int64_t end = row.read + std::min(most, row.to_read() - row.read);
      units.insert(units.end(), row.request.prompt.begin() + row.read, row.request.prompt.begin() + end);
      row.read = end;
    } else {
      units.push_back(row.last_made);
    }
    offsets.push_back(std::ssize(units));
  }
  const bool one_each = units.size() == rows_.size();
  const at::Tensor tokens = nn::index_tensor(std::move(units)).to(model_.model->output_weight().device());
  return {one_each ? state_->step(tokens) : state_->read(tokens, nn::index_tensor(offsets)), std::move(offsets)};
}

void SampleEngine::score_prompts(const Read& read) {
  for (size_t r = 0; r < rows_.size(); ++r) {
    Row& row = rows_[r];
    if (!row.request.scores_prompt || row.made > 0) continue;
    const int64_t count = read.offsets[r + 1] - read.offsets[r];
    // The hidden states are those of the units before the scored ones; nothing is scored by the prompt's last unit.
    const int64_t first = row.read - count + 1, end = std::min(row.read + 1, std::ssize(row.request.prompt));
    for (int64_t begin = first; begin < end; begin += kPromptPiece) {
      const int64_t size = std::min(kPromptPiece, end - begin);
      score_prompt(row, read.hidden.narrow(0, read.offsets[r] + begin - first, size), begin);
    }
    if (row.reads_prompt() || row.request.max_length > 0) continue;
    row.is_gone = true;
    chosen_.back().end = End::kLength;
  }
}

// The log-probabilities of the prompt's units from `first` on, one for each of the hidden states.
void SampleEngine::score_prompt(Row& row, const at::Tensor& hidden, int64_t first) {
  const at::Tensor logits = model_.output(hidden.to(at::kFloat)).cpu();
  const int64_t count = logits.size(0), vocabulary = logits.size(1);
  const int64_t n = std::clamp<int64_t>(row.request.num_top.value_or(0), 1, vocabulary);
  std::vector<kernels::Candidate> top(static_cast<size_t>(n * count));
  std::vector<float> unused(static_cast<size_t>(count)), log_probs(static_cast<size_t>(count));
  std::vector<int64_t> offsets(static_cast<size_t>(count + 1));
  std::iota(offsets.begin(), offsets.end(), 0);
  const std::vector<int32_t> asked(row.request.prompt.begin() + first, row.request.prompt.begin() + first + count);
  const kernels::TopN wanted{.n = n,
                             .best = top.data(),
                             .eos_log_prob = unused.data(),
                             .asked_offsets = offsets.data(),
                             .asked = asked.data(),
                             .asked_log_probs = log_probs.data()};
  if (kernels::top_n_log_softmax({logits.const_data_ptr<float>(), count, vocabulary}, wanted, ops::torch_executor()) >
      0)
    refuse_diverged();
  const int64_t shown = std::min(row.request.num_top.value_or(0), n);
  for (int64_t i = 0; i < count; ++i) {
    Chosen& given = chosen_.emplace_back(Chosen{row.request.ticket, asked[static_cast<size_t>(i)]});
    given.is_given = true;
    given.log_prob = log_probs[static_cast<size_t>(i)];
    given.top.assign(top.begin() + i * n, top.begin() + i * n + shown);
  }
}

void SampleEngine::choose(const Read& read) {
  std::vector<size_t> choosing;
  std::vector<int64_t> places;
  for (size_t r = 0; r < rows_.size(); ++r) {
    if (rows_[r].reads_prompt() || rows_[r].is_gone) continue;
    choosing.push_back(r);
    places.push_back(read.offsets[r + 1] - 1);
  }
  if (places.empty()) return;
  const bool all = std::ssize(places) == read.hidden.size(0);
  const at::Tensor chosen_rows =
      all ? read.hidden : read.hidden.index_select(0, nn::index_tensor(std::move(places)).to(read.hidden.device()));
  at::Tensor logits = model_.output(chosen_rows.to(at::kFloat)).cpu();
  auto* data = logits.mutable_data_ptr<float>();
  const int64_t vocabulary = logits.size(1);
  std::vector<Chosen> chosen(choosing.size());
  ops::torch_executor().run(std::ssize(choosing), [&](int64_t i, int) {
    const auto place = static_cast<size_t>(i);
    chosen[place] = choose_unit(rows_[choosing[place]], data + i * vocabulary, vocabulary);
  });
  if (std::ranges::find(chosen, search::kNotFinite, &Chosen::unit) != chosen.end()) refuse_diverged();
  for (size_t i = 0; i < choosing.size(); ++i) {
    Row& row = rows_[choosing[i]];
    row.last_made = chosen[i].unit;
    if (++row.made == 1) chosen[i].kept = row.kept;
    if (std::ranges::find(texts_.ends, chosen[i].unit) != texts_.ends.end()) {
      chosen[i].end = End::kLast;
    } else if (row.made == row.request.max_length) {
      chosen[i].end = End::kLength;
    }
    row.is_gone = chosen[i].end != End::kNone;
    chosen_.push_back(std::move(chosen[i]));
  }
}

SampleEngine::Chosen SampleEngine::choose_unit(Row& row, float* logits, int64_t vocabulary) const {
  const SampleRequest& request = row.request;
  std::vector<float> hidden;  // logits of the units that are never chosen
  for (const int64_t unit : request.never)
    hidden.push_back(std::exchange(logits[unit], -std::numeric_limits<float>::infinity()));
  const std::span<const float> all(logits, static_cast<size_t>(vocabulary));
  Chosen chosen{request.ticket, search::sample(all, request.choice, request.seed, static_cast<uint64_t>(row.made))};
  if (!request.num_top || chosen.unit == search::kNotFinite) return chosen;
  for (size_t i = 0; i < hidden.size(); ++i) logits[request.never[i]] = hidden[i];
  const int64_t n = std::clamp<int64_t>(*request.num_top, 1, vocabulary), offsets[] = {0, 1};
  const auto asked = static_cast<int32_t>(chosen.unit);
  float unused = 0;
  chosen.top.resize(static_cast<size_t>(n));
  SerialExecutor one;
  kernels::top_n_log_softmax({logits, 1, vocabulary},
                             {.n = n,
                              .best = chosen.top.data(),
                              .eos_log_prob = &unused,
                              .asked_offsets = offsets,
                              .asked = &asked,
                              .asked_log_probs = &chosen.log_prob},
                             one);
  chosen.top.resize(static_cast<size_t>(std::min(*request.num_top, n)));
  return chosen;
}

void SampleEngine::cancel(Ticket ticket) {
  std::erase_if(waiting_, [&](const SampleRequest& request) { return request.ticket == ticket; });
  std::erase_if(chosen_, [&](const Chosen& chosen) { return chosen.ticket == ticket; });
  std::erase_if(rows_, [&](const Row& row) { return row.is_new && row.request.ticket == ticket; });
  for (Row& row : rows_) row.is_gone |= row.request.ticket == ticket;
}

EngineCounts SampleEngine::counts() const {
  EngineCounts counts;
  for (const Row& row : rows_) {
    if (row.is_gone) continue;
    ++counts.running;
    counts.running_tokens += step_tokens(row);
  }
  counts.rows = counts.running;
  counts.waiting = std::ssize(waiting_);
  for (const SampleRequest& request : waiting_)
    counts.waiting_tokens += std::min(longest_piece(), std::ssize(request.prompt));
  return counts;
}

}  // namespace fovea::models
