#include "fovea/tasks/translation/options.h"

#include <gmock/gmock.h>

#include "fovea/base/test_message.h"
#include "fovea/tasks/translation/measures.h"
#include "fovea/train/measure.h"

namespace fovea::translation::options_test {
namespace {
using testing::HasSubstr;

std::string refusal(const Options& options, const std::vector<std::string>& measures_wanted = {}) {
  return message_of([&] {
    Problems problems;
    add_problems(options, problems);
    train::check_measures(measures().known(), measures_wanted, problems);
    problems.throw_if_any();
  });
}

TEST(TranslationOptions, SayWhatIsWrongInOneLine) {
  Options options;
  options.train_sets = {"a", "b"};
  options.vocabs = {"a", "b", "c"};
  options.valid_sets = {"a", "b", "c"};
  options.label_smoothing = 2;
  const std::string message = refusal(options, {"blue"});
  for (const char* part :
       {"--vocabs has 3 files; expected two", "--valid-sets has 3 files", "--label-smoothing: got '2'",
        "got 'blue'; expected some of ce-mean-words, perplexity, accuracy, bleu, chrf, ter; did you mean 'bleu'?"})
    EXPECT_THAT(message, HasSubstr(part));
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

TEST(TranslationOptions, RefuseValidationWithSwappedSides) {
  Options options;
  options.train_sets = {"train.en", "train.fr.gz"};
  options.vocabs = {"a", "b"};
  options.valid_sets = {"valid.en", "valid.fr"};
  EXPECT_EQ(refusal(options), "nothing was thrown");
  options.valid_sets = {"valid.fr", "valid.en"};
  EXPECT_EQ(refusal(options),
            "--valid-sets: got valid.fr valid.en, but --train-sets are train.en train.fr.gz; give the source first in "
            "both");
}

TEST(TranslationOptions, RefuseAMeasureGivenTwice) {
  Options options;
  options.train_sets = options.vocabs = {"a", "b"};
  EXPECT_EQ(refusal(options, {"bleu", "chrf", "bleu"}), "--valid-metrics has 'bleu' twice; give it once");
}

}  // namespace
}  // namespace fovea::translation::options_test
