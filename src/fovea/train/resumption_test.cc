#include "fovea/train/resumption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/base/file.h"
#include "fovea/base/test_folder.h"

namespace fovea::train::resumption_test {
namespace {

TEST(Resumption, TheOptionsSoFarAreThoseOfTheProcessThatSaved) {
  const TestFolder run;
  const auto seed_after = [&](int64_t updates) { return options_so_far(run.path(), updates)["seed"]; };
  EXPECT_TRUE(options_so_far(run.path(), 10).empty());
  write_file(run / "train.yml", "seed: 9\ntrain_sets: [a, b]\nvalid-sets: []\nodd: {a: b}\n");
  EXPECT_EQ(options_so_far(run.path(), 10), (OptionValues{{"seed", "9"}, {"train-sets", "a b"}, {"valid-sets", ""}}));
  // If the file lacks some options, and if there are no records, the file still counts.
  write_file(run / "log.jsonl", "x\n[1]\n{\"event\":1}\n{\"event\":\"start\",\"options\":{\"seed\":\"8\"}}\n");
  EXPECT_EQ(seed_after(10), "9");
  write_file(run / "log.jsonl", R"({"event":"start","options":{"seed":"1"},"defaults":{"lr-decay":"none"}}
{"event":"save","updates":10}
{"event":"start","options":{"seed":"2"},"defaults":{}}
{"event":"save","updates":20}
{"event":"start","options":{"seed":"3"},"defaults":{}}
)");
  EXPECT_EQ(seed_after(10), "1");
  EXPECT_EQ(options_so_far(run.path(), 10)["lr-decay"], "none");
  EXPECT_EQ(seed_after(20), "2");
  EXPECT_EQ(seed_after(15), "3") << "a process was killed before it recorded the save";
  write_file(run / "log.jsonl", "");
  write_file(run / "train.yml", "- no: map\n: :\n");
  EXPECT_TRUE(options_so_far(run.path(), 10).empty());
}

TEST(Resumption, ChangesAreListedOnce) {
  const RunOptions now = {.text = "",
                          .changed = {{"model", "b"}, {"seed", "2"}, {"new", "1"}, {"bytes", "\xff"}},
                          .defaults = {{"lr-decay", "none"}, {"valid-sets", ""}, {"younger", "5"}}};
  const OptionValues before = {{"model", "a"},         {"seed", "1"},       {"bytes", "\xef\xbf\xbd"},
                               {"lr-decay", "linear"}, {"valid-sets", "x"}, {"older", "1"}};
  EXPECT_EQ(text_of(changes_since(before, now)),
            "seed: 1 -> 2, new: none -> 1, lr-decay: linear -> none, valid-sets: x -> none");
  EXPECT_EQ(text_of({}), "");
}

TEST(Resumption, TheScheduleIsThatOfTheRunSoFar) {
  TrainConfig now;
  now.model = "m";
  now.learn_rate = 2;
  const TrainConfig before =
      schedule_so_far(now, {{"learn-rate", "0.5"}, {"lr-decay", "cosine"}, {"lr-warmup", "x"}, {"model", "other"}});
  EXPECT_EQ(before.learn_rate, 0.5);
  EXPECT_EQ(before.lr_decay, "cosine");
  EXPECT_EQ(before.lr_warmup, now.lr_warmup);
  EXPECT_EQ(before.model, "m");
}

TEST(Resumption, OnlyWhatTheScheduleDoesNotExplainIsAJump) {
  EXPECT_TRUE(jumps({.last = 1e-5, .planned = 0, .next = 0.5}, 1));
  EXPECT_TRUE(jumps({.last = 0.5, .planned = 0.5, .next = 0.2}, 1));
  EXPECT_FALSE(jumps({.last = 0.5, .planned = 0.5, .next = 0.52}, 1));
  EXPECT_FALSE(jumps({.last = 0.5, .planned = 1, .next = 1}, 1)) << "the second update of a warm-up";
  EXPECT_FALSE(jumps({.last = 0.002, .planned = 0.001, .next = 0.001}, 1)) << "the end of a linear schedule";
  EXPECT_FALSE(jumps({.last = 1e-6, .planned = 0, .next = 1e-5}, 1)) << "next to nothing";
}

}  // namespace
}  // namespace fovea::train::resumption_test
