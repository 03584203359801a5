#include "fovea/models/tagging/labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"

namespace fovea::tagging::labels_test {
namespace {

using metrics::LabelDialect;
using testing::ElementsAre;
using testing::HasSubstr;

LabelSet set_of(const std::vector<std::string>& sentences) {
  std::vector<Labels> all;
  for (const std::string& sentence : sentences) all.push_back(split_words(sentence));
  return LabelSet::of(all);
}

TEST(LabelSet, HasBothLabelsOfEachName) {
  const LabelSet set = set_of({"I-PER O", "I-LOC PUNCT"});
  EXPECT_EQ(set.contents(), "O\nB-LOC\nI-LOC\nB-PER\nI-PER\nPUNCT\n");
  EXPECT_THAT(set.encode({"I-PER", "I-PER", "B-PER", "O", "PUNCT", "S-LOC"}), ElementsAre(3, 4, 3, 0, 5, 1));
  EXPECT_THAT(set.encode({"I-ORG", "ADP"}), ElementsAre(-1, -1));
  EXPECT_THAT(set.decode(std::vector<int64_t>{3, 4, 3, 0, 5}, LabelDialect::kIob1),
              ElementsAre("I-PER", "I-PER", "B-PER", "O", "PUNCT"));
  EXPECT_TRUE(set.has_chunks());
  EXPECT_EQ(LabelSet::from_contents(set.contents(), "x").contents(), set.contents());
}

TEST(LabelSet, OfWordsHasNoMore) {
  const LabelSet set = set_of({"NNP VB", "NNP ,"});
  EXPECT_EQ(set.contents(), ",\nNNP\nVB\n");
  EXPECT_FALSE(set.has_chunks());
}

TEST(LabelSet, KeepsTheForm) {
  const metrics::LabelForm bare = metrics::parse_label_form("B", ""), small = metrics::parse_label_form("b_TYPE", "");
  const std::vector<Labels> sentences = {{"B", "I", "O", "B-PER"}}, typed = {{"b_x", "e_x", "o", "O"}};
  const LabelSet letters = LabelSet::of(sentences, bare), types = LabelSet::of(typed, small);
  EXPECT_EQ(letters.contents(), "O\nB\nI\nB-PER\n");
  EXPECT_EQ(types.contents(), "o\nb_x\ni_x\nO\n");
  EXPECT_THAT(types.encode(typed.front()), ElementsAre(1, 2, 0, 3));
  EXPECT_THAT(types.encode({"B-x", "I-x", "O"}, {}), ElementsAre(1, 2, 0)) << "labels of another form";
  EXPECT_THAT(types.decode(std::vector<int64_t>{1, 2, 0}, LabelDialect::kBmewo), ElementsAre("b_x", "e_x", "o"));
  EXPECT_THAT(letters.continued(2), testing::Pair(1, 2));
  EXPECT_TRUE(letters.marks_chunk("I"));
  EXPECT_FALSE(letters.marks_chunk("B-PER"));
  EXPECT_EQ(LabelSet::from_contents(letters.contents(), "x", bare).contents(), letters.contents());
  EXPECT_EQ(message_of([&] { LabelSet::from_contents("O\nB\n", "x", bare); }),
            "x: damaged: expected different labels, one per line, I with each B");
  EXPECT_FALSE(LabelSet::of(sentences, metrics::kWordsAlone).has_chunks());
}

TEST(LabelSet, SaysWhatIsDamaged) {
  for (const char* contents : {"", "\n", "O\nO\n", "O\nI-X\n", "O\nB-X\n", "B-X\nI-X\n", "O\nS-X\n", "O\n\nX\n",
                               "O\r\n", "O\na b\n", "O\n\xff\n", "\tO\n"})
    EXPECT_EQ(message_of([&] { LabelSet::from_contents(contents, "labels.txt"); }),
              "labels.txt: damaged: expected different labels, one per line, I-TYPE with each B-TYPE")
        << contents;
}

// All sequences, one by one.
std::vector<int64_t> best_by_search(const std::vector<double>& scores, const LabelSet& set, const Labels& names) {
  const auto count = static_cast<size_t>(set.size());
  const size_t words = scores.size() / count;
  size_t all = 1;
  for (size_t w = 0; w < words; ++w) all *= count;
  double most = -INFINITY;
  std::vector<int64_t> best;
  for (size_t number = 0; number < all; ++number) {
    std::vector<int64_t> way;
    double sum = 0;
    bool is_possible = true;
    std::string before = "O";
    for (size_t w = 0, rest = number; w < words; ++w, rest /= count) {
      const std::string& name = names[rest % count];
      way.push_back(static_cast<int64_t>(rest % count));
      sum += scores[w * count + rest % count];
      if (name[0] == 'I') is_possible = is_possible && before.size() > 2 && before.substr(1) == name.substr(1);
      before = name;
    }
    if (is_possible && sum > most) {
      most = sum;
      best = way;
    }
  }
  return best;
}

TEST(BestLabels, EqualASearchOfAllSequences) {
  const LabelSet set = set_of({"B-A B-B O"});
  const Labels names = {"O", "B-A", "I-A", "B-B", "I-B"};
  Rng rng(1);
  for (int trial = 0; trial < 60; ++trial) {
    std::vector<double> scores(static_cast<size_t>(1 + trial % 5) * names.size());
    for (double& score : scores) score = rng.normal();
    EXPECT_EQ(best_labels(scores, set), best_by_search(scores, set, names)) << trial;
  }
}

TEST(BestLabels, ForbidsAnInsideAtTheBeginning) {
  const LabelSet set = set_of({"B-A O"});  // O, B-A, I-A
  EXPECT_THAT(best_labels(std::vector<double>{-2, -3, -0.1}, set), ElementsAre(0));
  EXPECT_THAT(best_labels(std::vector<double>{-2, -3, -0.1, -5, -5, -0.1}, set), ElementsAre(1, 2));
  EXPECT_TRUE(best_labels(std::vector<double>{}, set).empty());
}

}  // namespace
}  // namespace fovea::tagging::labels_test
