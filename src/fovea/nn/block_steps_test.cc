#include "fovea/nn/block_steps.h"

#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <numeric>

#include "fovea/nn/index_tensor.h"
#include "fovea/nn/test_models.h"
#include "fovea/ops/block_choice.h"

// Steps over caches choose the blocks of the full pass: rows that grow apart, are reordered and join, prompts of
// several tokens, and keys in pieces.
namespace fovea::nn::block_steps_test {
namespace {

constexpr int64_t kHeads = 4, kKeyHeads = 2, kWidth = 6;
constexpr const char* kSpec = "1*blocktopk(3,2);2*blocktopk(2,3,bounds);1*full";

std::shared_ptr<Attention> attention_of(const char* spec) {
  const AttentionPlace place{
      .width = kHeads * kWidth, .heads = kHeads, .heads_kv = kKeyHeads, .kind = AttentionKind::kCausal};
  const LayerSpec layer = resolve(parse_layer_spec(spec), kHeads);
  return std::make_shared<Attention>(place, Mechanism{layer, layer}, InitScope(1));
}

// A row's tokens: q and k of each.
struct Row {
  at::Tensor q, k;
};

class Steps {
 public:
  Steps(StepRows kind, int64_t rows)
      : attention_(attention_of(kSpec)),
        cache_(kind, rows, {1, kKeyHeads, kWidth}, at::kFloat),
        blocks_(BlockSteps::of(*attention_, rows, at::kFloat)),
        rows_(static_cast<size_t>(rows), {at::zeros({0, kHeads, kWidth}), at::zeros({0, kKeyHeads, kWidth})}) {}

  // Row r grows by counts[r] random tokens, whose lists must be those of the row's full pass.
  void grow(const std::vector<int64_t>& counts) {
    std::vector<int64_t> bounds = {0};
    for (const int64_t count : counts) bounds.push_back(bounds.back() + count);
    const at::Tensor stacked = at::randn({bounds.back(), kHeads + 2 * kKeyHeads, kWidth});
    const at::Tensor offsets = index_tensor(bounds);
    cache_.append(offsets);
    cache_.write(0, stacked);
    const std::vector<int64_t> first(counts.size(), 0);
    const StepCache::Keys keys = cache_.key_places(first);
    const std::vector<at::Tensor> lists =
        blocks_->choose(stacked.narrow(1, 0, kHeads), cache_.keys(0), {offsets, keys, first});
    ASSERT_EQ(lists.size(), 2U);
    for (size_t r = 0; r < counts.size(); ++r) {
      const at::Tensor own = stacked.narrow(0, bounds[r], counts[r]);
      rows_[r] = {at::cat({rows_[r].q, own.narrow(1, 0, kHeads)}),
                  at::cat({rows_[r].k, own.narrow(1, kHeads, kKeyHeads)})};
      compare(rows_[r], counts[r],
              {lists[0].narrow(0, bounds[r], counts[r]), lists[1].narrow(0, bounds[r], counts[r])});
    }
  }
  void inherit(const std::vector<int64_t>& parents) {
    cache_.inherit(parents);
    blocks_->inherit(parents);
    std::vector<Row> rows;
    for (const int64_t parent : parents) rows.push_back(rows_[static_cast<size_t>(parent)]);
    rows_ = rows;
  }
  void add(int64_t count) {
    cache_.add_rows(count);
    blocks_->add_rows(count);
    rows_.resize(rows_.size() + static_cast<size_t>(count),
                 {at::zeros({0, kHeads, kWidth}), at::zeros({0, kKeyHeads, kWidth})});
  }

 private:
  // The last `count` queries of the full pass of a row.
  static void compare(const Row& row, int64_t count, const std::vector<at::Tensor>& lists) {
    const AttentionLayerPointer layer = resolved_layer(std::string(kSpec), kHeads);
    int64_t head = 0;
    size_t at = 0;
    for (const AttentionLayer::Group& group : layer->groups) {
      if (const BlockChoice* choice = group.spec.blocks()) {
        ops::AttentionOptions options;
        options.kind = AttentionKind::kCausal, options.q_offsets = index_tensor(std::vector<int64_t>{0, row.q.size(0)});
        ops::LayerCall call;
        static_cast<ops::AttentionOptions&>(call) = options;
        call.first_head = head, call.heads_per_key = kHeads / kKeyHeads;
        const int64_t first = head / 2, keys = (head + group.num_heads - 1) / 2 + 1 - first;
        const at::Tensor q = row.q.narrow(1, head, group.num_heads), k = row.k.narrow(1, first, keys);
        const at::Tensor all = ops::chosen_blocks({q, k}, call, *choice).narrow(0, row.q.size(0) - count, count);
        EXPECT_TRUE(sets_of(all).equal(sets_of(lists[at]))) << "group " << at << " of " << row.q.size(0) << " tokens";
        ++at;
      }
      head += group.num_heads;
    }
  }
  // Lists without their length: a block per place.
  static at::Tensor sets_of(const at::Tensor& lists) {
    const at::Tensor marks = at::zeros({lists.size(0), lists.size(1), 101}, at::kBool);
    marks.scatter_(2, lists.to(at::kLong).masked_fill(lists < 0, 100), true);
    return marks.narrow(2, 0, 100);
  }

  std::shared_ptr<Attention> attention_;
  StepCache cache_;
  std::unique_ptr<BlockSteps> blocks_;
  std::vector<Row> rows_;
};

void run(StepRows kind) {
  at::manual_seed(4);
  Steps steps(kind, 2);
  steps.grow({7, 4});
  for (int step = 0; step < 5; ++step) steps.grow({1, 1});
  steps.inherit({1, 0, 1});
  for (int step = 0; step < 4; ++step) steps.grow({1, 1, 1});
  steps.inherit({2, 2});
  steps.add(1);
  steps.grow({1, 2, 9});
  for (int step = 0; step < 40; ++step) steps.grow({1, 1, 1});
}

TEST(BlockSteps, ChooseWhatTheFullPassChooses) { run(StepRows::kApart); }
TEST(BlockSteps, RowsShareWhatTheyHaveInCommon) { run(StepRows::kShared); }

TEST(BlockSteps, AreForHeadsThatChooseAndTypesThatKernelsRead) {
  EXPECT_EQ(BlockSteps::of(*attention_of("full"), 1, at::kFloat), nullptr);
  EXPECT_EQ(BlockSteps::of(*attention_of(kSpec), 1, at::kDouble), nullptr);
  EXPECT_NE(BlockSteps::of(*attention_of(kSpec), 1, at::kBFloat16), nullptr);
}

}  // namespace
}  // namespace fovea::nn::block_steps_test
