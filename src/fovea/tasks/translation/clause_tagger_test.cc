#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/base/test_message.h"
#include "fovea/models/source_clauses.h"
#include "fovea/models/tagging/test_tagger.h"
#include "fovea/models/translation/loaded_model.h"
#include "fovea/nn/index_tensor.h"
#include "fovea/tasks/translation/test_task.h"

// Translation models whose clauses a tagger finds.
namespace fovea::translation::clause_tagger_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The tagger says of "coco" that it is a conjunction, unlike any dictionary.
struct TaggedTask : TestTask {
  TaggedTask() {
    tagging::save_test_tagger(tagger, {{"coco", "SCONJ"}});
    model.attention_encoder = "mix(full,clause(2))";
    data.clause_tagger = tagger;
  }
  std::string tagger = folder / "tagger";
};

std::vector<uint8_t> levels_of(const nn::Clauses& clauses, int64_t tokens) {
  std::vector<uint8_t> starts(static_cast<size_t>(tokens) + 1);
  const at::Tensor& offsets = clauses.of_level(2);
  for (int64_t i = 0; i < offsets.numel(); ++i) starts[static_cast<size_t>(offsets[i].item<int64_t>())] = 1;
  return starts;
}

TEST(ClauseTaggers, SplitTheSourceOfTheModelThatHoldsThem) {
  TaggedTask test;
  test.train.after_batches = 2;
  run(test);
  std::filesystem::remove_all(test.tagger);  // the checkpoint holds what it needs
  const nn::Identity identity = nn::load_checkpoint(test.train.model, nn::Load::kModel).identity;
  const text::Vocab vocab = text::Vocab::load(test.data.vocabs[0]);
  models::ClauseSource source = models::clause_source_of(identity);
  int64_t tagged = 0;
  source.tagger->tag = [&tagged, tag = source.tagger->tag](std::span<const text::ClauseTagger::Sentence> sentences) {
    tagged += std::ssize(sentences);
    return tag(sentences);
  };
  const nn::ClauseSplitter by_tagger = models::clause_splitter(vocab, source);
  const nn::ClauseSplitter by_words = models::clause_splitter(vocab, {text::ClauseDictionary::english()});
  std::vector<int64_t> tokens, offsets = {0};
  std::vector<uint8_t> expected;
  // The last line has no words.
  for (const std::string line : {"ama coco bebi", "dada", "coco efe coco coco", ""}) {
    std::string before;
    for (const std::string& word : split_words(line)) {
      const std::string with = before.empty() ? word : cat(before, " ", word);
      const size_t size = vocab.encode(with).size() - vocab.encode(before).size();
      expected.push_back(before.empty() || word == "coco" ? 1 : 0);
      expected.resize(expected.size() + size - 1, 0);
      before = with;
    }
    std::vector<int64_t> pieces = vocab.encode(line);
    pieces.push_back(vocab.eos());
    expected.push_back(line.empty() ? 1 : 0);
    tokens.insert(tokens.end(), pieces.begin(), pieces.end());
    offsets.push_back(std::ssize(tokens));
  }
  expected.push_back(1);  // the end of all
  const at::Tensor ids = nn::index_tensor(tokens), bounds = nn::index_tensor(offsets);
  EXPECT_EQ(levels_of(by_tagger(ids, bounds), ids.numel()), expected);
  EXPECT_EQ(tagged, 3) << "a line without words has no tags";
  EXPECT_EQ(levels_of(by_tagger(ids, bounds), ids.numel()), expected);
  EXPECT_EQ(tagged, 3) << "it remembers them";
  EXPECT_NE(levels_of(by_words(ids, bounds), ids.numel()), expected) << "no signal word of English";
}

// The blocks of documents have several sentences.
TEST(ClauseTaggers, ASentenceOfADocumentHasItsClausesAlone) {
  TaggedTask test;
  test.train.after_batches = 1;
  run(test);
  const nn::Identity identity = nn::load_checkpoint(test.train.model, nn::Load::kModel).identity;
  const text::Vocab vocab = text::Vocab::load(test.data.vocabs[0]);
  models::ClauseSource by_words = models::clause_source_of(identity), by_tagger = by_words;
  by_words.tagger.reset();
  const std::vector<std::string> lines = {"ama coco bebi", "dada ama", "", "coco coco"};
  for (const models::ClauseSource& source : {by_tagger, by_words}) {
    const nn::ClauseSplitter split = models::clause_splitter(vocab, source);
    std::vector<int64_t> tokens, bounds = {0};
    for (const std::string& line : lines) {
      const std::vector<int64_t> pieces = vocab.encode(line);
      tokens.insert(tokens.end(), pieces.begin(), pieces.end());
      tokens.push_back(vocab.eos());
      bounds.push_back(std::ssize(tokens));
    }
    const at::Tensor ids = nn::index_tensor(tokens);
    const nn::Clauses alone = split(ids, nn::index_tensor(bounds));
    const nn::Clauses together = split(ids, nn::index_tensor({0, ids.numel()}));
    EXPECT_EQ(levels_of(together, ids.numel()), levels_of(alone, ids.numel()));
  }
}

TEST(ClauseTaggers, AResumedRunIsTheRunThatNeverStopped) {
  TaggedTask test;
  test.train.after_batches = 16;
  run(test);
  const std::string expected = bytes_of(test.train.model);
  test.train.model = test.folder / "stopped";
  for (const int64_t updates : {3, 14, 16}) {
    test.train.after_batches = updates;
    run(test);
  }
  EXPECT_EQ(bytes_of(test.train.model), expected);
  test.data.clause_tagger = "";
  test.train.model = test.folder / "by words";
  run(test);
  EXPECT_NE(bytes_of(test.train.model), expected);
}

TEST(ClauseTaggers, OthersAreRefused) {
  TaggedTask test;
  test.train.after_batches = 1;
  const auto refusal = [&] { return message_of([&] { run(test); }); };
  test.data.clause_tagger = test.folder / "none";
  EXPECT_THAT(refusal(), HasSubstr("--clause-tagger: no such folder"));
  test.data.clause_tagger = test.tagger;
  test.model.attention_encoder = "full";
  EXPECT_THAT(refusal(), HasSubstr("--clause-tagger: the model has no clauses"));
  test.model.attention_encoder = "clause(1)";
  tagging::save_test_tagger(test.folder / "names", {{"coco", "B-PER"}});
  test.data.clause_tagger = test.folder / "names";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("--clause-tagger: '"), HasSubstr("names' labels names (O, B-PER, I-PER)")));
  TestTask other;
  other.train.after_batches = 1;
  run(other);
  test.data.clause_tagger = other.train.model;
  EXPECT_THAT(refusal(), HasSubstr("is a model of the task translation; expected one of the task tagging"));
}

}  // namespace
}  // namespace fovea::translation::clause_tagger_test
