#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "fovea/base/file.h"
#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"
#include "fovea/data/corpus.h"

namespace fovea::data::data_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string some_text(int64_t lines, uint64_t seed) {
  Rng rng(seed);
  std::string text;
  for (int64_t i = 0; i < lines; ++i) {
    for (uint64_t w = 1 + rng.below(12); w > 0; --w) text += cat("w", rng.below(40), w > 1 ? " " : "\n");
  }
  return text;
}

struct Files {
  TestFolder folder;
  std::string source = folder / "s.txt", target = folder / "t.txt", vocab_path = folder / "v.spm";
  Files(const std::string& source_text, const std::string& target_text) {
    write_file(source, source_text);
    write_file(target, target_text);
    write_file(folder / "v.txt", some_text(300, 7));
    text::train_vocab({.inputs = {folder / "v.txt"}, .output = vocab_path, .size = 30});
  }
  ParallelCorpus load(const CorpusOptions& options = {}) const {
    const text::Vocab vocab = text::Vocab::load(vocab_path);
    return load_corpus(source, target, vocab, vocab, options);
  }
};

std::vector<int64_t> sentence(const std::vector<int32_t>& ids, const std::vector<int64_t>& offsets, int64_t i) {
  return {ids.begin() + offsets[i], ids.begin() + offsets[i + 1]};
}

TEST(Corpus, HoldsEverySentenceAsTheVocabularyEncodesIt) {
  const Files files(some_text(700, 1), some_text(700, 2));
  const text::Vocab vocab = text::Vocab::load(files.vocab_path);
  const ParallelCorpus corpus = files.load({.threads = 3});
  const std::vector<std::string> lines = read_lines(files.target);
  ASSERT_EQ(corpus.size(), 700);
  for (int64_t i = 0; i < corpus.size(); ++i) {
    std::vector<int64_t> expected = vocab.encode(lines[i]);
    expected.push_back(vocab.eos());
    EXPECT_EQ(sentence(corpus.target, corpus.target_offsets, i), expected);
  }
  EXPECT_EQ(fingerprint(corpus), fingerprint(files.load({.threads = 1})));
}

TEST(Corpus, LeavesOutWhatCannotBeUsed) {
  const Files files("w1\n\nw2 w3\nw1 w2 w3 w4 w5 w6 w7 w8 w9\n \n", "w1\nw1\nw2\nw3\nw4\n");
  const text::Vocab vocab = text::Vocab::load(files.vocab_path);
  EXPECT_EQ(files.load().size(), 3);
  const auto limit = static_cast<int64_t>(vocab.encode("w2 w3").size());
  EXPECT_EQ(files.load({.max_length = limit}).size(), 2);
  const ParallelCorpus cropped = files.load({.max_length = limit, .crop = true});
  ASSERT_EQ(cropped.size(), 3);
  EXPECT_EQ(cropped.source_length(2), limit + 1);
  EXPECT_EQ(cropped.source.back(), vocab.eos());
}

// A vocabulary of characters has units for blanks and for marks without width.
TEST(Corpus, LinesWithoutVisibleTextAreEmptyForAllVocabularies) {
  const Files files("w1\n\u200b\n\u3000 \u00ad\nw2\nw3\n", "w1\nw2\nw3\n\ufeff\n\ufe0f \n");
  for (const char* type : {"unigram", "bpe", "word", "char"}) {
    text::VocabTraining training{.inputs = {files.folder / "v.txt", files.source, files.target},
                                 .output = files.vocab_path,
                                 .size = 0,
                                 .type = type};
    if (training.type == "unigram" || training.type == "bpe") training.size = 40;
    text::train_vocab(training);
    EXPECT_EQ(files.load().size(), 1) << type;
  }
}

TEST(Corpus, SaysWhatIsWrong) {
  const Files unequal("a\nb\nc\n", "a\nb\nc\nd\ne\n");
  EXPECT_THAT(message_of([&] { unequal.load(); }),
              HasSubstr("s.txt' ends after 3 lines, '" + unequal.target + "' has more; parallel files"));
  const Files blank("\n\n", "a\nb\n");
  EXPECT_THAT(message_of([&] { blank.load(); }), HasSubstr("no usable sentence pair: of 2 lines, 2 have an empty"));
  const Files missing("a\n", "a\n");
  std::filesystem::remove(missing.source);
  EXPECT_THAT(message_of([&] { missing.load(); }), HasSubstr("s.txt"));
}

// Lengths alone, without text.
ParallelCorpus corpus_of(int64_t sentences, uint64_t seed) {
  Rng rng(seed);
  ParallelCorpus corpus;
  corpus.source_offsets = corpus.target_offsets = {0};
  for (int64_t i = 0; i < sentences; ++i) {
    for (auto* side : {&corpus.source, &corpus.target}) {
      for (uint64_t w = 1 + rng.below(30); w > 0; --w) side->push_back(static_cast<int32_t>(i));
    }
    corpus.source_offsets.push_back(static_cast<int64_t>(corpus.source.size()));
    corpus.target_offsets.push_back(static_cast<int64_t>(corpus.target.size()));
  }
  return corpus;
}

int64_t target_tokens(const ParallelCorpus& corpus, const Batch& batch) {
  int64_t tokens = 0;
  for (const int64_t i : batch) tokens += corpus.target_length(i);
  return tokens;
}

TEST(Batches, HoldEverySentenceOnceWithinTheLimits) {
  for (const int64_t sentences : {1, 2, 97, 1000}) {
    const ParallelCorpus corpus = corpus_of(sentences, 3);
    for (const int64_t maxi : {1, 7, 200}) {
      const BatchOptions options = {.max_target_tokens = 101, .max_sentences = 9, .maxi_batch = maxi};
      std::vector<int64_t> seen;
      for (const Batch& batch : batches_of_epoch(corpus, options, 1)) {
        ASSERT_FALSE(batch.empty());
        EXPECT_LE(batch.size(), 9U);
        EXPECT_LE(target_tokens(corpus, batch), 101);
        seen.insert(seen.end(), batch.begin(), batch.end());
      }
      std::sort(seen.begin(), seen.end());
      std::vector<int64_t> all(static_cast<size_t>(sentences));
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(seen, all);
    }
  }
}

TEST(Batches, ALongerSentenceIsABatchOfItsOwn) {
  const ParallelCorpus corpus = corpus_of(50, 4);
  for (const Batch& batch : batches_of_epoch(corpus, {.max_target_tokens = 5}, 1)) {
    EXPECT_TRUE(batch.size() == 1 || target_tokens(corpus, batch) <= 5);
  }
}

// Lengths of the two sides, sentence after sentence.
ParallelCorpus corpus_of_lengths(const std::vector<std::pair<int64_t, int64_t>>& lengths) {
  ParallelCorpus corpus;
  corpus.source_offsets = corpus.target_offsets = {0};
  for (const auto& [source, target] : lengths) {
    corpus.source.resize(corpus.source.size() + static_cast<size_t>(source));
    corpus.target.resize(corpus.target.size() + static_cast<size_t>(target));
    corpus.source_offsets.push_back(static_cast<int64_t>(corpus.source.size()));
    corpus.target_offsets.push_back(static_cast<int64_t>(corpus.target.size()));
  }
  return corpus;
}

std::vector<size_t> sizes_of(const std::vector<Batch>& batches) {
  std::vector<size_t> sizes;
  for (const Batch& batch : batches) sizes.push_back(batch.size());
  return sizes;
}

// Numbers and headings beside whole paragraphs.
TEST(Batches, EndWhereLongSourcesOfShortTargetsAreFourTimesTheLimit) {
  const ParallelCorpus corpus = corpus_of_lengths(std::vector<std::pair<int64_t, int64_t>>(20, {100, 2}));
  EXPECT_THAT(sizes_of(batches_by_length(corpus, 100)), ElementsAre(4, 4, 4, 4, 4));
  EXPECT_THAT(sizes_of(batches_of_epoch(corpus, {.max_target_tokens = 100}, 1)), ElementsAre(4, 4, 4, 4, 4));
  const ParallelCorpus longer = corpus_of_lengths({{1000, 2}, {1000, 2}});
  EXPECT_THAT(sizes_of(batches_by_length(longer, 100)), ElementsAre(1, 1)) << "no batch is empty";
  const ParallelCorpus ordinary = corpus_of_lengths(std::vector<std::pair<int64_t, int64_t>>(100, {8, 2}));
  EXPECT_THAT(sizes_of(batches_by_length(ordinary, 100)), ElementsAre(50, 50)) << "up to there the target decides";
}

TEST(Batches, AreAFunctionOfSeedAndEpoch) {
  const ParallelCorpus corpus = corpus_of(300, 5);
  const BatchOptions options = {.max_target_tokens = 100, .seed = 8};
  const auto first = batches_of_epoch(corpus, options, 1);
  EXPECT_EQ(first, batches_of_epoch(corpus, options, 1));
  EXPECT_NE(first, batches_of_epoch(corpus, options, 2));
  BatchOptions other = options;
  other.seed = 9;
  EXPECT_NE(first, batches_of_epoch(corpus, other, 1));
}

TEST(Batches, GroupEqualLengthsAndComeInRandomOrder) {
  const ParallelCorpus corpus = corpus_of(1000, 6);
  const auto batches = batches_of_epoch(corpus, {.max_target_tokens = 200}, 1);
  int64_t spread = 0, ascents = 0;
  for (size_t b = 0; b < batches.size(); ++b) {
    spread += corpus.target_length(batches[b].back()) - corpus.target_length(batches[b].front());
    if (b > 0) ascents += corpus.target_length(batches[b][0]) >= corpus.target_length(batches[b - 1][0]);
  }
  // The batches lie in one window: 30 lengths in all, so all batches together span at most 29.
  EXPECT_LE(spread, 29);
  EXPECT_LT(ascents, static_cast<int64_t>(batches.size()) * 3 / 4) << "the batches are still sorted by length";
}

TEST(Batches, ByLengthAreSorted) {
  const ParallelCorpus corpus = corpus_of(100, 7);
  int64_t length = 0;
  for (const Batch& batch : batches_by_length(corpus, 50)) {
    for (const int64_t i : batch) {
      EXPECT_GE(corpus.target_length(i), length);
      length = corpus.target_length(i);
    }
  }
}

TEST(Pack, ShiftsTheTargetByOne) {
  ParallelCorpus corpus;
  corpus.source = {5, 6, 0, 7, 0, 8, 9, 0};
  corpus.source_offsets = {0, 3, 5, 8};
  corpus.target = {15, 0, 16, 17, 18, 0, 19, 0};
  corpus.target_offsets = {0, 2, 6, 8};
  const PackedBatch packed = pack(corpus, {2, 1}, 0);
  EXPECT_THAT(packed.source, ElementsAre(8, 9, 0, 7, 0));
  EXPECT_THAT(packed.source_offsets, ElementsAre(0, 3, 5));
  EXPECT_THAT(packed.target_inputs, ElementsAre(0, 19, 0, 16, 17, 18));
  EXPECT_THAT(packed.target_outputs, ElementsAre(19, 0, 16, 17, 18, 0));
  EXPECT_THAT(packed.target_offsets, ElementsAre(0, 2, 6));
}

}  // namespace
}  // namespace fovea::data::data_test
