#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "fovea/base/test_message.h"
#include "fovea/models/clause_tagger.h"
#include "fovea/models/tagging/loaded_tagger.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/nn/index_tensor.h"
#include "fovea/tasks/tagging/score.h"
#include "fovea/tasks/tagging/tag.h"
#include "fovea/tasks/tagging/test_run.h"

namespace fovea::tagging::clauses_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kMixture = "mix(full,clause(1),clause(2))";

// Columns of a word, its tag and its label. The tag of "ama" says whether it opens a clause: the dictionary has it as a
// conjunction with the tag C.
std::string clause_columns(int64_t sentences, uint64_t seed) {
  static constexpr const char* kLines[] = {"ama C O\n", "ama W O\n", "bebi W O\n", "Amax N I-PER\n", ", , O\n"};
  Rng rng(seed);
  std::string text;
  for (int64_t i = 0; i < sentences; ++i) {
    for (uint64_t w = 2 + rng.below(9); w > 0; --w) text += kLines[rng.below(5)];
    text += "\n";
  }
  return text;
}

struct ClauseRun : TestRun {
  ClauseRun() {
    write_file(folder / "train", clause_columns(40, 3));
    write_file(folder / "valid", clause_columns(10, 4));
    write_file(folder / "words", "ama bebi Amax ,\n");
    write_file(folder / "d.txt", "punctuation\t,\nconjunction\tama\tC\n");
    text::train_vocab({.inputs = {folder / "words"}, .output = folder / "v.spm", .type = "word"});
    data.clause_dictionary = folder / "d.txt";
    model.attention_encoder = kMixture;
    model.clause_tag_column = 2;
    train.after_batches = 3;
  }
};

TrainedModelOptions options_of(const TestRun& test) {
  TrainedModelOptions options;
  options.model = test.train.model;
  return options;
}

TEST(TaggingClauses, AreThoseOfTheWordsInEachPart) {
  const TestFolder folder;
  write_file(folder / "words", "a b , and\n");
  text::train_vocab({.inputs = {folder / "words"}, .output = folder / "v.spm", .type = "char"});
  const text::EncoderVocab vocab = text::EncoderVocab::load(folder / "v.spm");
  const std::vector<std::string> words = {"ab", ",", "and", "b"};
  const ClauseFinder finder(&text::ClauseDictionary::english());
  const std::vector<uint8_t> levels = finder.levels(words, {});
  EXPECT_THAT(levels, ElementsAre(0, 0, 1, 0));
  const std::vector<Part> whole = SentenceEncoder(vocab, 0).encode(words, levels);
  ASSERT_EQ(whole.size(), 1U);
  EXPECT_THAT(whole[0].levels, ElementsAre(1, 0, 0, 1, 0, 0, 0, 0)) << "a b , a n d b </s>";
  const std::vector<Part> parts = SentenceEncoder(vocab, 5).encode(words, levels);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_THAT(parts[0].levels, ElementsAre(1, 0, 0, 0)) << "a b , </s>";
  EXPECT_THAT(parts[1].levels, ElementsAre(1, 0, 0, 0, 0)) << "a n d b </s>";
  EXPECT_THAT(SentenceEncoder(vocab, 0).encode(words).front().levels, IsEmpty());
  EXPECT_THAT(ClauseFinder(nullptr).levels(words, {}), IsEmpty());
}

TEST(TaggingClauses, TheTokenBeforeASentenceIsOfItsFirstClause) {
  const std::string list = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n,\nand\n";
  const text::EncoderVocab vocab = text::EncoderVocab::word_pieces({.pieces = list}, "list");
  const std::vector<std::string> words = {"a", ",", "and"};
  const ClauseFinder finder(&text::ClauseDictionary::english());
  const std::vector<Part> parts = SentenceEncoder(vocab, 0).encode(words, finder.levels(words, {}));
  EXPECT_THAT(parts.front().levels, ElementsAre(1, 0, 0, 1, 0)) << "[CLS] a , and [SEP]";
}

TEST(TaggingClauses, ATagDecidesWhetherAWordOpensAClause) {
  const text::ClauseDictionary dictionary = text::ClauseDictionary::parse("conjunction\tama\tC\n", "d");
  const std::vector<std::string> words = {"bebi", "ama", "ama"}, tags = {"W", "W", "C"};
  EXPECT_THAT(ClauseFinder(&dictionary).levels(words, tags), ElementsAre(0, 0, 2));
  EXPECT_THAT(ClauseFinder(&dictionary).levels(words, {}), ElementsAre(0, 2, 2));
}

// Attention within clauses is attention to each clause as a text of its own, if the model has no positions.
TEST(TaggingClauses, ClauseAttentionIsThatOfEachClauseAlone) {
  ClauseRun test;
  test.model.attention_encoder = "clause(2)";
  test.model.transformer_positions = "none";
  run(test);
  LoadedTagger loaded = load_tagger(options_of(test));
  const std::vector<int64_t> tokens = {2, 3, 4, 2, 2, 5, 3, 0, 4, 2, 0};
  const std::vector<uint8_t> levels = {1, 0, 0, 2, 0, 1, 0, 0, 1, 2, 0};
  const std::vector<int64_t> offsets = {0, 8, 11}, clauses = {0, 3, 5, 8, 9, 11}, firsts = {0, 1, 2, 3, 4, 5, 6, 8, 9};
  const c10::InferenceMode guard;
  TagBatch batch;
  batch.levels = levels;
  batch.offsets = offsets;
  const at::Tensor within = loaded.model->words({nn::index_tensor(tokens), nn::index_tensor(offsets)},
                                                nn::index_tensor(firsts), {.clauses = batch.clauses()});
  AttentionOverride full;
  full.attention_encoder = "full";
  loaded.model->encoder->override_attention(full);
  const at::Tensor alone =
      loaded.model->words({nn::index_tensor(tokens), nn::index_tensor(clauses)}, nn::index_tensor(firsts), {});
  EXPECT_TRUE(within.allclose(alone, 1e-5, 1e-6)) << (within - alone).abs().max().item<float>();
  const at::Tensor whole =
      loaded.model->words({nn::index_tensor(tokens), nn::index_tensor(offsets)}, nn::index_tensor(firsts), {});
  EXPECT_FALSE(whole.allclose(alone, 1e-2, 1e-2)) << "the clauses matter";
}

TEST(TaggingClauses, AModelWithOneClauseIsFull) {
  ClauseRun test;
  run(test);
  LoadedTagger loaded = load_tagger(options_of(test));
  const std::vector<std::vector<std::string>> words = {{"ama", "bebi", "ama"}}, tags = {{"W", "W", "W"}};
  EXPECT_THAT(loaded.parts(100).clauses.levels(words[0], tags[0]), ElementsAre(0, 0, 0));
  const c10::InferenceMode guard;
  TagBatch batch;
  batch.levels = {1, 0, 0, 0};
  batch.offsets = {0, 4};
  const nn::EncoderInput input = {nn::index_tensor(std::vector<int64_t>{2, 3, 4, 0}), nn::index_tensor(batch.offsets)};
  const at::Tensor firsts = nn::index_tensor(std::vector<int64_t>{0, 1, 2});
  const at::Tensor mixed = loaded.model->words(input, firsts, {.clauses = batch.clauses()});
  AttentionOverride full;
  full.attention_encoder = "full";
  loaded.model->encoder->override_attention(full);
  EXPECT_TRUE(mixed.allclose(loaded.model->words(input, firsts, {}), 1e-5, 1e-6));
}

TEST(TaggingClauses, TrainingScoreAndTagReadTheSameTags) {
  ClauseRun test;
  test.with_validation();
  run(test);
  EXPECT_EQ(read_file(cat(test.train.model, "/last/clauses.txt")), read_file(test.folder / "d.txt"));
  const auto score_of = [&](int64_t column) {
    ScoreOptions score;
    score.model = test.train.model;
    score.train_sets = {test.folder / "valid"};
    score.output = test.folder / "report";
    score.clause_tag_column = column;
    run_score(score);
    return read_file(score.output);
  };
  EXPECT_EQ(score_of(-1), score_of(2));
  LoadedTagger loaded = load_tagger(options_of(test));
  const data::LabelledText text = data::load_columns({test.folder / "valid"}, {.tags = 2});
  const std::vector<Labels> expected = tag_sentences(loaded.parts(4096), text.words, text.tags);
  TagOptions tag;
  tag.model = test.train.model;
  tag.input = test.folder / "valid";
  tag.output = test.folder / "out";
  for (const int64_t window : {10000, 3}) {
    tag.window = window;
    run_tag(tag);
    const data::LabelledText out = data::load_columns({test.folder / "out"}, {});
    EXPECT_EQ(out.labels, expected) << "lines in a window: " << window;
  }
}

TEST(TaggingClauses, ResumedIsBitForBitTheRunThatNeverStopped) {
  train::expect_exact_resume<ClauseRun>(
      {{"checkpointing", [](ClauseRun& run) { run.train.gradient_checkpointing = true; }}}, {3, 8});
}

TEST(TaggingClauses, NewMixturesStartWhereLittleChanges) {
  ClauseRun plain;
  plain.model.attention_encoder = "";
  plain.model.clause_tag_column = 0;
  plain.data.clause_dictionary = "";
  run(plain);
  for (const char* spec : {kMixture, "mix(full,clause(1),token)"}) {
    ClauseRun grown;
    grown.train.pretrained_model = plain.train.model;
    grown.data.vocabs = "";
    grown.model = {};
    grown.model.attention_encoder = spec;
    grown.model.clause_tag_column = 2;
    grown.train.after_batches = 1;
    grown.train.learn_rate = 1e-30;  // the weights stay as they are
    testing::internal::CaptureStderr();
    run(grown);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("start with little weight on the clauses"));
    const nn::NamedTensors weights = nn::load_checkpoint(grown.train.model, nn::Load::kModel).model;
    const at::Tensor mix = weights.at("encoder.layers.1.self_attention.clause_mix");
    EXPECT_TRUE(mix.eq(-3).all().item<bool>());
    const auto by_token = weights.find("encoder.layers.1.self_attention.clause_mix_weight");
    if (by_token != weights.end()) {
      EXPECT_LT(by_token->second.abs().max().item<double>(), 1e-20) << "one update at such a rate moves it by little";
    }
    // A tagger that starts from it finds clauses as it does.
    ClauseRun next;
    next.train.pretrained_model = grown.train.model;
    next.data.vocabs = "";
    next.data.clause_dictionary = "";
    next.model = {};
    run(next);
    const LoadedTagger loaded = load_tagger(options_of(next));
    EXPECT_EQ(loaded.config.attention_encoder, spec);
    EXPECT_EQ(loaded.config.clause_tag_column, 2);
    EXPECT_EQ(loaded.clauses->bytes(), read_file(grown.folder / "d.txt"));
  }
}

// A model of another task keeps the tagger's checkpoint as files.
TEST(TaggingClauses, ATaggerWithinAnotherModelTagsAsByItself) {
  TestRun test;
  test.train.after_batches = 3;
  test.data.label_column = {2};
  run(test);
  nn::Identity other;
  other.files = models::clause_tagger_files(test.train.model, "--clause-tagger");
  other.files["clauses.txt"] = "the other model's own";
  const std::vector<std::vector<std::string>> words = {{"ama", "bebi"}, {"dada"}, {"coco", "Amax", "ama"}};
  const LoadedTagger loaded = load_tagger(options_of(test));
  EXPECT_EQ(models::clause_tagger_of(other)->tag(words), tag_sentences(loaded.parts(4096), words));
  EXPECT_FALSE(models::clause_tagger_of({}).has_value());
  other.files.erase("clause-tagger.model.safetensors");
  EXPECT_EQ(message_of([&] { models::clause_tagger_of(other); }),
            "clause-tagger.model.safetensors: damaged: the file is missing");
  test.data.label_column = {};
  test.train.model = test.folder / "names";
  run(test);
  EXPECT_THAT(message_of([&] { models::clause_tagger_files(test.train.model, "--clause-tagger"); }),
              HasSubstr("--clause-tagger: '"));
}

std::string refusal(const TestRun& test) {
  return message_of([&] { test.task(); });
}

TEST(TaggingClauses, SaysWhatIsWrong) {
  ClauseRun test;
  test.data.label_column = {2};
  EXPECT_THAT(refusal(test), HasSubstr("column 2 is the --clause-tag-column and holds the labels"));
  test.data.label_column = {};
  test.model.clause_tag_column = 4;
  EXPECT_THAT(refusal(test), HasSubstr("line 1: got 3 columns; expected at least 4, the --clause-tag-column"));
  test.model.attention_encoder = "";
  test.data.clause_dictionary = "";
  EXPECT_THAT(refusal(test), HasSubstr("--clause-tag-column: the model has no clauses; give --attention-encoder some"));
  test.model.clause_tag_column = 0;
  test.data.clause_dictionary = test.folder / "d.txt";
  EXPECT_THAT(refusal(test), HasSubstr("--clause-dictionary: the model has no clauses"));
  test.model.clause_tag_column = 1;
  EXPECT_THAT(message_of([&] { validate(test.model); }), HasSubstr("expected 0 or a number from 2"));
}

TEST(TaggingClauses, TagSaysWhatIsWrong) {
  ClauseRun test;
  run(test);
  TagOptions tag;
  tag.model = test.train.model;
  tag.output = test.folder / "out";
  tag.input = test.folder / "in";
  const auto tag_refusal = [&] { return message_of([&] { run_tag(tag); }); };
  write_file(test.folder / "in", "ama W\n\nbebi\n");
  EXPECT_THAT(tag_refusal(), HasSubstr("line 3: got 1 column; expected at least 2, the --clause-tag-column"));
  tag.input_format = "text";
  EXPECT_THAT(tag_refusal(), HasSubstr("text has no tags; give --clause-tag-column 0 to find them by words alone"));
  tag.clause_tag_column = 0;
  EXPECT_EQ(tag_refusal(), "nothing was thrown");
  tag.clause_tag_column = 1;
  EXPECT_THAT(tag_refusal(), HasSubstr("expected -1, 0 or a number from 2"));
  tag.attention_encoder = "full";
  tag.clause_tag_column = 0;
  EXPECT_THAT(tag_refusal(), HasSubstr("the model has no clauses; leave the option out"));
  const auto tagger_refusal = [&] {
    return message_of([&] { models::load_clause_tagger(test.train.model, {}, 4096); });
  };
  EXPECT_THAT(tagger_refusal(), HasSubstr("labels names (O, B-PER, I-PER); expected a model of part-of-speech tags"));
}

TEST(TaggingClauses, ATaggerGivesTagsOrLabels) {
  TestRun tags;
  tags.data.label_column = {2};
  tags.train.after_batches = 200;
  tags.model.transformer_dropout = 0;
  run(tags);
  const text::ClauseTagger tagger = models::load_clause_tagger(tags.train.model, {}, 4096);
  EXPECT_FALSE(tagger.gives_labels);
  const std::vector<text::ClauseTagger::Sentence> sentences = {{"ama", "to", "Amax"}, {"coco"}};
  EXPECT_THAT(tagger.tag(sentences), ElementsAre(ElementsAre("W", "T", "N"), ElementsAre("W")));
  TestRun labels;
  labels.train.after_batches = 3;
  std::string text = read_file(labels.folder / "train");
  for (size_t at = 0; (at = text.find("to T O", at)) != std::string::npos; ++at) text.replace(at, 6, "to T ADP");
  write_file(labels.folder / "train", text);
  run(labels);
  EXPECT_TRUE(models::load_clause_tagger(labels.train.model, {}, 4096).gives_labels) << "names and signal words";
}

}  // namespace
}  // namespace fovea::tagging::clauses_test
