#include "fovea/models/sample_engine.h"

#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/models/sampler.h"
#include "fovea/models/test_models.h"

namespace fovea::models::sample_engine_test {
namespace {

constexpr int64_t kBegin = 16, kVocabulary = 17;
using Texts = std::map<Ticket, std::vector<int64_t>>;

// Rules, seeds and prompts that differ from one text to the next; `longest` is that of a prompt.
SampleRequest request_of(Ticket number, int64_t longest) {
  Rng rng(41, static_cast<uint64_t>(number));
  SampleRequest request;
  request.ticket = number;
  request.prompt = {kBegin};
  const uint64_t most = static_cast<uint64_t>(number % 20 == 0 ? longest : std::min<int64_t>(longest, 12));
  for (uint64_t i = rng.below(most); i > 0; --i) request.prompt.push_back(static_cast<int64_t>(rng.below(kBegin)));
  request.choice = {.temperature = 0.5 * static_cast<double>(rng.below(4)),
                    .top_k = static_cast<int64_t>(rng.below(3)) * 4,
                    .top_p = rng.below(2) == 0 ? 1 : 0.9};
  request.max_length = 1 + static_cast<int64_t>(rng.below(25));
  if (rng.below(2) == 0) request.never = {kBegin, 3};
  request.seed = rng();
  return request;
}

// The text that the sampler makes of the request alone.
std::vector<int64_t> alone(const nn::Model& model, const SampleRequest& request, const SampleEngine::Texts& texts) {
  SamplingRules rules{request.choice, request.max_length, request.never, texts.ends, texts.cut};
  std::vector<int64_t> text;
  const std::vector<Draft> draft = {{request.prompt, request.seed}};
  Sampler(model, rules, ops::PrepackedLayer::Format::kExact).run(draft, [&](size_t, int64_t unit) {
    text.push_back(unit);
  });
  return text;
}

void expect_the_texts_of_each_alone(const nn::Model& model, int64_t longest, const SampleEngine::Texts& texts) {
  const c10::InferenceMode guard;
  constexpr Ticket kCount = 300;
  SearchModel laid_out(model);
  SampleEngine engine(laid_out, {.max_rows = 24, .max_tokens = 2000}, texts);
  Texts found;
  std::set<Ticket> cancelled, done;
  Rng plan(29);
  Ticket added = 0;
  while (engine.step() || added < kCount) {
    for (const SampleEngine::Chosen& chosen : engine.take()) {
      EXPECT_FALSE(cancelled.contains(chosen.ticket));
      if (chosen.end != SampleEngine::End::kLast) found[chosen.ticket].push_back(chosen.unit);
      if (chosen.end != SampleEngine::End::kNone) done.insert(chosen.ticket);
    }
    for (uint64_t joins = plan.below(5); joins > 0 && added < kCount; --joins) engine.add(request_of(added++, longest));
    if (plan.below(4) == 0 && added > 20) {
      const Ticket number = added - 1 - static_cast<Ticket>(plan.below(20));
      if (!done.contains(number)) cancelled.insert(number);
      engine.cancel(number);
    }
  }
  EXPECT_GT(cancelled.size(), 10U);
  EXPECT_EQ(done.size() + cancelled.size(), static_cast<size_t>(kCount));
  for (const Ticket number : done) {
    if (number % 4 != 0) continue;
    EXPECT_EQ(found[number], alone(model, request_of(number, longest), texts)) << number;
  }
}

TEST(SampleEngine, TextsThatJoinAndLeaveAreThoseOfEachAlone) {
  for (const char* attention :
       {"full", "topk(4)", "window(5)", "entmax(1.5)", "blocks(4,1)", "random(3)", "2*local(4);1*strided(3)",
        "relu+rmsnorm", "relu+gated-rmsnorm", "window(4)|global(2)", "dilated(3,2)", "fixed(3,1)"}) {
    SCOPED_TRACE(attention);
    expect_the_texts_of_each_alone(test_model(attention), 600, {.ends = {5}});
  }
}

TEST(SampleEngine, PositionsMemoryAndRoutesToo) {
  expect_the_texts_of_each_alone(test_model("full", "learned"), 60, {});
  expect_the_texts_of_each_alone(test_model("topk(4)", "rotary"), 600, {.ends = {5}});
  expect_the_texts_of_each_alone(test_model("full"), 600, {.ends = {5}, .cut = {.segment = 100, .memory = 30}});
  expect_the_texts_of_each_alone(test_model("1*routed(3,4,causal);2*full"), 60, {.ends = {5}});
}

// The units of `prompt` that lie in whole pieces with which an earlier one begins too. The last unit is always read.
int64_t units_kept(const std::vector<std::vector<int64_t>>& earlier, const std::vector<int64_t>& prompt) {
  int64_t most = 0;
  for (const std::vector<int64_t>& one : earlier) {
    const auto [end, other] = std::ranges::mismatch(one, prompt);
    most = std::max<int64_t>(most, end - one.begin());
  }
  return std::min(most, std::ssize(prompt) - 1) / kPromptPiece * kPromptPiece;
}

// Prompts that begin alike, one after the other and together, with room for few states and for many.
TEST(SampleEngine, KeptPrefixesChangeNoBit) {
  const c10::InferenceMode guard;
  for (const char* attention : {"full", "topk(4)", "window(5)", "entmax(1.5)"}) {
    for (const nn::CacheType cache : {nn::CacheType::kModel, nn::CacheType::kInt8}) {
      SCOPED_TRACE(attention);
      const nn::Model model = test_model(attention, "rotary");
      const SearchModel laid_out(model);
      SampleEngine plain(laid_out, kNoLimits, {.cache = cache}),
          keeping(laid_out, kNoLimits, {.cache = cache, .prefix_bytes = 1 << 24});
      SampleEngine narrow(laid_out, kNoLimits, {.cache = cache, .prefix_bytes = 100'000});
      int64_t kept = 0, expected = 0;
      std::vector<std::vector<int64_t>> earlier;
      for (Ticket number = 0; number < 12; ++number) {
        SampleRequest request = request_of(number, 2);
        const int64_t length = kPromptPiece * (number % 4) + 17 * (number % 3);
        for (int64_t i = 0; i < length; ++i)
          request.prompt.push_back((i * i + (number % 5 == 0 ? i / 300 : 0)) % kBegin);
        request.num_top = 2;
        expected += units_kept(earlier, request.prompt);
        earlier.push_back(request.prompt);
        Texts texts[3];
        std::vector<float> scores[3];
        SampleEngine* const engines[] = {&plain, &keeping, &narrow};
        for (size_t e = 0; e < 3; ++e) {
          engines[e]->add(request);
          while (engines[e]->step()) {
            for (const SampleEngine::Chosen& chosen : engines[e]->take()) {
              texts[e][chosen.ticket].push_back(chosen.unit);
              scores[e].push_back(chosen.log_prob);
              if (e == 1) kept += chosen.kept;
            }
          }
        }
        EXPECT_EQ(texts[0], texts[1]);
        EXPECT_EQ(scores[0], scores[1]);
        EXPECT_EQ(texts[0], texts[2]);
        EXPECT_EQ(scores[0], scores[2]);
      }
      EXPECT_EQ(kept, expected);
      EXPECT_GT(kept, 0);
    }
  }
}

TEST(PrefixCache, KeepsTheBytesThatItMay) {
  struct State : nn::StepTokens {
    int64_t bytes() const override { return 10'000; }
  };
  const auto units = [](int64_t pieces, int64_t first) {
    std::vector<int64_t> all(static_cast<size_t>(pieces * kPromptPiece), 1);
    all.front() = first;
    return all;
  };
  PrefixCache cache(50'000);
  EXPECT_FALSE(cache.wants(units(2, 1)));  // the piece before it is missing
  for (int64_t first = 1; first < 9; ++first) {
    for (int64_t pieces = 1; pieces <= 2; ++pieces) {
      EXPECT_TRUE(cache.wants(units(pieces, first)));
      cache.add(units(pieces, first), std::make_shared<State>());
      EXPECT_LE(cache.bytes(), 50'000);
    }
    EXPECT_FALSE(cache.wants(units(2, first)));
    EXPECT_EQ(cache.find(units(3, first), 9).size(), 2U);
    EXPECT_EQ(cache.find(units(3, first), 1).size(), 1U);
    EXPECT_EQ(cache.find(units(1, 1), 1).size(), 1U);  // used again and again, it stays
  }
  EXPECT_EQ(cache.find(units(2, 3), 9).size(), 0U);
  PrefixCache none(0);
  EXPECT_FALSE(none.wants(units(1, 1)));
  PrefixCache small(9'000);
  small.add(units(1, 1), std::make_shared<State>());
  EXPECT_EQ(small.bytes(), 0);
}

// A prompt of three pieces, against one full pass.
TEST(SampleEngine, ALongPromptIsReadInPieces) {
  const nn::Model model = test_model("topk(4)");
  SampleRequest request = request_of(1, 2);
  for (int64_t i = 0; i < 2 * kPromptPiece + 30; ++i) request.prompt.push_back(i * i % kBegin);
  request.choice = {.temperature = 0};
  request.max_length = 1, request.never = {}, request.num_top = 3;
  const c10::InferenceMode guard;
  SearchModel laid_out(model);
  SampleEngine engine(laid_out, {}, {});
  engine.add(request);
  for (int piece = 0; piece < 2; ++piece) {
    EXPECT_TRUE(engine.step());
    EXPECT_TRUE(engine.take().empty());
  }
  EXPECT_TRUE(engine.step());
  const auto chosen = engine.take();
  EXPECT_FALSE(engine.step());
  ASSERT_EQ(chosen.size(), 1U);
  EXPECT_EQ(chosen[0].end, SampleEngine::End::kLength);
  const at::Tensor expected = next_log_probs(model, request.prompt);
  EXPECT_EQ(chosen[0].unit, expected.argmax().item<int64_t>());
  // Sums of float32 over some tens of terms.
  EXPECT_NEAR(chosen[0].log_prob, expected.max().item<double>(), 1e-4);
  ASSERT_EQ(chosen[0].top.size(), 3U);
  const auto [best, index] = expected.topk(3);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(chosen[0].top[static_cast<size_t>(i)].token, index[i].item<int64_t>());
    EXPECT_NEAR(chosen[0].top[static_cast<size_t>(i)].log_prob, best[i].item<double>(), 1e-4);
  }
}

// The log-probabilities of a prompt of several pieces, each against a choice behind the units before it; and no unit
// behind the prompt.
TEST(SampleEngine, ScoresThePromptBesideOtherTexts) {
  const c10::InferenceMode guard;
  const nn::Model model = test_model("topk(4)");
  SearchModel laid_out(model);
  for (const SampleEngine::Texts& texts : {SampleEngine::Texts{.ends = {5}}, {.ends = {5}, .cut = {100, 30}}}) {
    SampleRequest request = request_of(1000, 2);
    request.prompt = {kBegin};
    for (int64_t i = 0; i < 2 * kPromptPiece; ++i) request.prompt.push_back(i * i % kBegin);
    request.max_length = 0, request.num_top = 2, request.scores_prompt = true;
    SampleEngine engine(laid_out, {}, texts);
    for (Ticket other = 0; other < 4; ++other) engine.add(request_of(other, 30));
    engine.add(request);
    std::vector<SampleEngine::Chosen> given;
    Texts others;
    while (engine.step()) {
      for (SampleEngine::Chosen& chosen : engine.take()) {
        if (chosen.ticket == request.ticket) {
          given.push_back(std::move(chosen));
        } else if (chosen.end != SampleEngine::End::kLast) {
          others[chosen.ticket].push_back(chosen.unit);
        }
      }
    }
    for (Ticket other = 0; other < 4; ++other) EXPECT_EQ(others[other], alone(model, request_of(other, 30), texts));
    ASSERT_EQ(given.size(), request.prompt.size() - 1);
    for (size_t i = 0; i < given.size(); ++i) {
      EXPECT_TRUE(given[i].is_given);
      EXPECT_EQ(given[i].unit, request.prompt[i + 1]);
      EXPECT_EQ(given[i].end, i + 1 == given.size() ? SampleEngine::End::kLength : SampleEngine::End::kNone);
    }
    for (const size_t i : {0, 1, 70, 99, 100, 255, 256, 511}) {
      SampleRequest behind = request;
      behind.prompt.resize(i + 1);
      behind.max_length = 1, behind.scores_prompt = false, behind.choice = {.temperature = 0}, behind.never = {};
      engine.add(behind);
      std::vector<SampleEngine::Chosen> chosen;
      while (chosen.empty() && engine.step()) chosen = engine.take();
      ASSERT_EQ(chosen.size(), 1U);
      // Prompts of other lengths: float32 sums of other blocks.
      for (size_t t = 0; t < 2; ++t) {
        EXPECT_EQ(given[i].top[t].token, chosen[0].top[t].token) << i;
        EXPECT_NEAR(given[i].top[t].log_prob, chosen[0].top[t].log_prob, 1e-5) << i;
      }
      if (texts.cut.segment > 0) continue;
      const at::Tensor expected = next_log_probs(model, behind.prompt);
      EXPECT_NEAR(given[i].log_prob, expected[given[i].unit].item<double>(), 1e-4) << i;
    }
  }
}

// Excluded units have no part in the choice, but keep their share of the probability.
TEST(SampleEngine, LogProbabilitiesAreTheModelsOwn) {
  const nn::Model model = test_model("full");
  const at::Tensor expected = next_log_probs(model, {kBegin, 2});
  const int64_t best = expected.argmax().item<int64_t>();
  SampleRequest request{.prompt = {kBegin, 2}, .choice = {.temperature = 0}, .never = {best}, .num_top = 0};
  const c10::InferenceMode guard;
  SearchModel laid_out(model);
  SampleEngine engine(laid_out, {}, {});
  engine.add(request);
  EXPECT_TRUE(engine.step());
  const auto chosen = engine.take();
  ASSERT_EQ(chosen.size(), 1U);
  EXPECT_NE(chosen[0].unit, best);
  EXPECT_TRUE(chosen[0].top.empty());
  EXPECT_NEAR(chosen[0].log_prob, expected[chosen[0].unit].item<double>(), 1e-5);
}

}  // namespace
}  // namespace fovea::models::sample_engine_test
