#include "fovea/spec/foreign_names.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace fovea::foreign_names_test {
namespace {

const std::vector<std::string> kTrain = {"--after-batches", "--enc-depth",  "--dec-depth", "--mini-batch-words",
                                         "--mini-batch",    "--max-length", "--lr-decay",  "--precision",
                                         "--learn-rate",    "--max-tokens"};
const std::vector<std::string> kGenerate = {"--max-length", "--top-p", "--count"};

std::string hint(const std::string& name, const std::vector<std::string>& known) {
  return did_you_mean_field(name, known, "--");
}

TEST(ForeignNames, LeadToOurs) {
  EXPECT_EQ(hint("--max_update", kTrain), "; did you mean '--after-batches'?");
  EXPECT_EQ(hint("--fp16", kTrain), "; did you mean '--precision'? Its fast type is bfloat16");
  EXPECT_EQ(hint("-w", kTrain), "; did you mean '--mini-batch-words'? Fovea reserves no memory");
  EXPECT_EQ(did_you_mean_field("learning_rate", std::vector<std::string>{"learn-rate"}, ""),
            "; did you mean 'learn-rate'?");
}

TEST(ForeignNames, SayWhatToDoWithoutOne) {
  EXPECT_EQ(hint("--type", kTrain), "; every model of Fovea is a Transformer; leave it out");
  EXPECT_EQ(hint("--train_from", kTrain),
            "; the same command continues the run in the folder of --model; leave it out");
}

TEST(ForeignNames, GuessNothingThatMeansSomethingElse) {
  EXPECT_EQ(hint("--max-new-tokens", kTrain), "") << "neither --max-tokens, a batch, nor --max-length, of the data";
  EXPECT_EQ(hint("--max-new-tokens", kGenerate),
            "; did you mean '--max-length'? It counts the units of a text, without those of the prompt");
  EXPECT_EQ(hint("--num-return-sequences", kGenerate), "; did you mean '--count'?");
  EXPECT_EQ(hint("--dropout", kGenerate), "") << "this command has nothing of the kind";
}

TEST(ForeignNames, MisspeltOnesOfOursAreStillFound) {
  EXPECT_EQ(hint("--lern-rate", kTrain), "; did you mean '--learn-rate'?");
  EXPECT_EQ(hint("--zebra", kTrain), "");
}

}  // namespace
}  // namespace fovea::foreign_names_test
