#include "fovea/train/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/base/test_message.h"

namespace fovea::train {
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
  const TrainState back = from_map(to_map(state), "x");
  EXPECT_EQ(to_map(back), to_map(state));
  EXPECT_EQ(back.seconds, state.seconds);
  EXPECT_EQ(back.best.at("bleu").value, state.best.at("bleu").value);
  EXPECT_EQ(back.best.at("ce-mean-words").value, std::nullopt);
  EXPECT_EQ(back.validated, 1000);
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
  EXPECT_EQ(message("epoch", "1x"), "origin: epoch: got '1x'; expected a number");
  EXPECT_EQ(message("seconds", ""), "origin: seconds: got ''; expected a number");
}

}  // namespace
}  // namespace fovea::train
