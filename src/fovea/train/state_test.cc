#include "fovea/train/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/base/test_message.h"

namespace fovea::train::state_test {
namespace {

TEST(TrainState, ReadsBackToTheLastBit) {
  TrainState state;
  state.updates = 123456789012;
  state.epoch = 3;
  state.batch = 17;
  state.skipped = 2;
  state.skipped_in_a_row = 1;
  state.validated = 1000;
  state.learn_rate = 0.1 * 0.3;
  state.seconds = 0.1 + 0.2;
  state.data = "0123456789abcdef";
  state.valid_data = "fedcba9876543210";
  state.best["bleu"] = {25.0 / 3, 500, 4};
  state.best["ce-mean-words"] = {std::nullopt, 0, 1};
  state.former_best = {1400, 900};
  const TrainState back = from_map(to_map(state), "x");
  EXPECT_EQ(to_map(back), to_map(state));
  EXPECT_EQ(back.seconds, state.seconds);
  EXPECT_EQ(back.best.at("bleu").value, state.best.at("bleu").value);
  EXPECT_EQ(back.best.at("ce-mean-words").value, std::nullopt);
  EXPECT_EQ(back.validated, 1000);
  EXPECT_EQ(back.former_best, state.former_best);
  EXPECT_EQ(back.learn_rate, state.learn_rate);
  std::map<std::string, std::string> older = to_map(state);
  older.erase("learn-rate");
  EXPECT_EQ(from_map(older, "x").learn_rate, std::nullopt);
  EXPECT_EQ(back.skipped_in_a_row, 1);
}

TEST(TrainState, SaysWhatIsMissingOrMalformed) {
  const auto message = [](const std::string& key, const char* value) -> std::string {
    std::map<std::string, std::string> map = to_map({});
    map.erase(key);
    if (value != nullptr) map[key] = value;
    return message_of([&] { from_map(map, "origin"); });
  };
  EXPECT_EQ(message("epoch", nullptr), "origin: no 'epoch'");
  EXPECT_EQ(message("valid-data", nullptr), "origin: no 'valid-data'");
  EXPECT_EQ(message("epoch", "1x"), "origin: epoch: got '1x'; expected a whole number from 1 to 1");
  EXPECT_EQ(message("former-best", "7 x"),
            "origin: former-best: got 'x'; expected whole numbers from 0 to 1000000000000000");
  EXPECT_EQ(message("seconds", ""), "origin: seconds: got ''; expected a number from 0 to 1e+10");
}

// A stranger's run, or a damaged disk.
TEST(TrainState, RefusesNumbersThatNoRunReaches) {
  TrainState state;
  state.updates = 100;
  state.epoch = 3;
  state.best["bleu"] = {25, 50, 4};
  const std::map<std::string, std::string> map = to_map(state);
  const auto is_refused = [&](const std::string& key, const char* value) {
    std::map<std::string, std::string> changed = map;
    changed[key] = value;
    const std::string message = message_of([&] { from_map(changed, "origin"); });
    return message.starts_with("origin: ") && message.find(value) != std::string::npos;
  };
  for (const char* key :
       {"updates", "epoch", "batch", "skipped", "skipped-in-a-row", "validated", "best-updates.bleu", "stalled.bleu"}) {
    for (const char* value : {"-5", "9223372036854775807", "9223372036854775808", "1e3", "0x1", "nan", "+1"})
      EXPECT_TRUE(is_refused(key, value)) << key << " " << value;
  }
  for (const auto& [key, value] : {std::pair("epoch", "0"),
                                   {"epoch", "102"},
                                   {"validated", "101"},
                                   {"stalled.bleu", "101"},
                                   {"best-updates.bleu", "101"},
                                   {"skipped-in-a-row", "1"}})
    EXPECT_TRUE(is_refused(key, value)) << key << " " << value;
  for (const char* value : {"-1", "1e300", "inf", "nan", "1e999"}) EXPECT_TRUE(is_refused("seconds", value)) << value;
  for (const char* value : {"inf", "nan", "1e999"}) EXPECT_TRUE(is_refused("best.bleu", value)) << value;
  std::map<std::string, std::string> half = map;
  half.erase("stalled.bleu");
  EXPECT_EQ(message_of([&] { from_map(half, "origin"); }), "origin: no 'stalled.bleu'");
  EXPECT_EQ(to_map(from_map(map, "origin")), map);
}

}  // namespace
}  // namespace fovea::train::state_test
