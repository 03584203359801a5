#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "fovea/base/rng.h"
#include "fovea/base/test_message.h"
#include "fovea/models/beam_engine.h"
#include "fovea/tasks/translation/test_decoding.h"

namespace fovea::translation::joins_test {
namespace {

using models::SearchModel, models::Ticket;
using Found = std::map<Ticket, std::vector<search::Hypothesis>>;

constexpr int64_t kCount = 300;

// Options that differ from one sentence to the next.
search::BeamOptions options_of(Ticket number) {
  search::BeamOptions options;
  options.beam_size = 1 + number % 4;
  options.num_best = 1 + number % 2 * (options.beam_size - 1);
  options.normalize = number % 3 == 0 ? 0.6 : 1;
  return options;
}

models::BeamRequest request_of(const SearchModel& model, const Sentence& source, Ticket number) {
  return decoding_request(model, source, number, {options_of(number)});
}

// Sentences join by a random plan, and some are cancelled while they wait or run.
Found join_and_leave(SearchModel& model, const std::vector<Sentence>& sources, std::set<Ticket>& cancelled) {
  const c10::InferenceMode guard;
  models::BeamEngine engine(model, {.max_rows = 40, .max_tokens = 150}, 0);
  Found found;
  Rng plan(23);
  Ticket added = 0;
  bool works = true;
  int64_t most_rows = 0;
  while (works || added < std::ssize(sources)) {
    for (uint64_t joins = plan.below(5); joins > 0 && added < std::ssize(sources); --joins, ++added)
      engine.add(request_of(model, sources[static_cast<size_t>(added)], added));
    if (plan.below(4) == 0 && added > 20) {
      const Ticket number = added - 1 - static_cast<Ticket>(plan.below(20));
      if (!found.contains(number)) cancelled.insert(number);
      engine.cancel(number);
    }
    works = engine.step();
    most_rows = std::max(most_rows, engine.counts().rows);
    for (models::BeamEngine::Done& done : engine.take()) {
      EXPECT_FALSE(cancelled.contains(done.ticket));
      found[done.ticket] = std::move(done.best);
    }
  }
  EXPECT_LE(most_rows, 40);
  EXPECT_GT(most_rows, 20);
  EXPECT_EQ(engine.counts().running + engine.counts().waiting, 0);
  return found;
}

void expect_same(const std::vector<search::Hypothesis>& got, const std::vector<search::Hypothesis>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].tokens, expected[i].tokens);
    EXPECT_EQ(got[i].log_prob, expected[i].log_prob);
    EXPECT_EQ(got[i].score, expected[i].score);
  }
}

std::vector<search::Hypothesis> alone(SearchModel& model, const Sentence& source, Ticket number) {
  return decode(model, {&source, 1}, {options_of(number)}, 1).front();
}

TEST(BeamEngine, SentencesThatJoinAndLeaveHaveTheBytesOfEachAlone) {
  const std::vector<Sentence> sources = random_sentences(kCount, 31);
  for (const auto& [attention, cross] : decoding_mechanisms()) {
    SCOPED_TRACE(attention);
    SearchModel model(decoding_model(attention, "sinusoidal", cross));
    std::set<Ticket> cancelled;
    const Found found = join_and_leave(model, sources, cancelled);
    EXPECT_GT(cancelled.size(), 10U);
    EXPECT_EQ(found.size() + cancelled.size(), sources.size());
    for (const auto& [number, best] : found) {
      if (number % 3 == 0) expect_same(best, alone(model, sources[static_cast<size_t>(number)], number));
    }
  }
}

// Positions that are learned or relative, 8-bit layers, a recurrent decoder, and routed heads, whose sentences join
// when a batch ends.
TEST(BeamEngine, ModelsOfOtherKindsToo) {
  const std::vector<Sentence> sources = random_sentences(kCount, 32);
  struct Kind {
    const char *attention, *positions, *cross;
    ops::PrepackedLayer::Format format;
    const char* autoreg = "self-attention";
  };
  constexpr auto kExact = ops::PrepackedLayer::Format::kExact;
  for (const Kind& kind :
       {Kind{"topk(3)", "learned", "", kExact}, Kind{"full", "rotary", "", kExact},
        Kind{"full", "shaw(4)", "full", kExact}, Kind{"full", "sinusoidal", "", ops::PrepackedLayer::Format::kInt8},
        Kind{"full", "sinusoidal", "", kExact, "ssru"},
        Kind{"full", "learned", "", ops::PrepackedLayer::Format::kInt8, "ssru"},
        Kind{"full", "sinusoidal", "1*routed(2,3);3*full", kExact}}) {
    SCOPED_TRACE(cat(kind.attention, ", ", kind.positions, ", ", kind.cross, ", ", kind.autoreg));
    nn::Model live = decoding_model(kind.attention, kind.positions, kind.cross, kind.autoreg);
    if (kind.format == ops::PrepackedLayer::Format::kInt8) live->use_int8();
    SearchModel model(live, kind.format);
    std::set<Ticket> cancelled;
    const Found found = join_and_leave(model, sources, cancelled);
    EXPECT_EQ(found.size() + cancelled.size(), sources.size());
    for (const auto& [number, best] : found) {
      if (number % 5 == 0) expect_same(best, alone(model, sources[static_cast<size_t>(number)], number));
    }
  }
}

// A pass of the encoder for one sentence costs twice as much as its share of a pass for several.
TEST(BeamEngine, SentencesThatHaveNoRoomJoinSeveralTogether) {
  SearchModel model(decoding_model("full"));
  const c10::InferenceMode guard;
  models::BeamEngine engine(model, {.max_rows = 32, .max_tokens = 10000}, 0);
  const std::vector<Sentence> sources = random_sentences(200, 34);
  for (Ticket number = 0; number < std::ssize(sources); ++number)
    engine.add(decoding_request(model, sources[static_cast<size_t>(number)], number, {{.beam_size = 1}}));
  int64_t joins = 0;
  for (;;) {
    const models::EngineCounts before = engine.counts();
    if (!engine.step()) break;
    const int64_t joined = before.waiting - engine.counts().waiting;
    joins += joined > 0 && before.running > 0 ? 1 : 0;
    if (joined == 0 || joined == before.waiting) continue;
    EXPECT_GE(8 * joined, before.running);
  }
  EXPECT_GT(joins, 10);
  EXPECT_EQ(engine.take().size(), sources.size());
}

TEST(BeamEngine, AModelThatDivergedLosesItsRequestsAndGoesOn) {
  SearchModel model(decoding_model("full"));
  model.output = ops::PrepackedLayer(model.model->output_weight() * std::numeric_limits<float>::infinity(), {});
  const c10::InferenceMode guard;
  models::BeamEngine engine(model, {}, 0);
  const std::vector<Sentence> sources = random_sentences(3, 33);
  for (Ticket number = 0; number < 3; ++number)
    engine.add(request_of(model, sources[static_cast<size_t>(number)], number));
  EXPECT_TRUE(message_of([&] { engine.step(); }).starts_with("the model gives scores that are not finite numbers"));
  EXPECT_FALSE(engine.step());
  EXPECT_EQ(engine.counts().running + engine.counts().waiting, 0);
}

}  // namespace
}  // namespace fovea::translation::joins_test
