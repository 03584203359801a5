#include "fovea/data/document_corpus.h"

#include <gmock/gmock.h>

#include "fovea/base/file.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"

namespace fovea::data::document_corpus_test {
namespace {

using testing::HasSubstr;

struct DocumentVocab {
  TestFolder folder;
  text::Vocab vocab = make();
  text::Vocab make() const {
    write_file(folder / "t", "a b c d e f g\n");
    text::train_vocab({.inputs = {folder / "t"}, .output = folder / "v.spm", .type = "word"});
    return text::Vocab::load(folder / "v.spm");
  }
  // Tokens of sentences, `ends` times </s> at the end of all.
  std::vector<int32_t> tokens(const std::vector<std::string>& sentences, int ends) const {
    std::vector<int32_t> ids;
    for (const std::string& sentence : sentences) {
      vocab.encode(sentence, ids);
      ids.push_back(static_cast<int32_t>(vocab.eos()));
    }
    for (int i = 1; i < ends; ++i) ids.push_back(static_cast<int32_t>(vocab.eos()));
    return ids;
  }
};

std::vector<int32_t> block(const std::vector<int32_t>& ids, const std::vector<int64_t>& offsets, int64_t i) {
  return {ids.begin() + offsets[static_cast<size_t>(i)], ids.begin() + offsets[static_cast<size_t>(i) + 1]};
}

TEST(DocumentCorpus, CutsDocumentsIntoBlocksOfWholeSentences) {
  const DocumentVocab v;
  const ParallelText text{"s", "t", {"<d>", "a b", "c", "d", "", "e"}, {"<d>", "a", "b c", "d e", "", "f"}};
  const ParallelCorpus corpus = load_documents(text, v.vocab, v.vocab, {.block_tokens = 5});
  ASSERT_EQ(corpus.size(), 3);  // 3 + 2 source tokens; then the target would have 5 + 3; then another document
  EXPECT_EQ(block(corpus.source, corpus.source_offsets, 0), v.tokens({"a b", "c"}, 1));
  EXPECT_EQ(block(corpus.target, corpus.target_offsets, 0), v.tokens({"a", "b c"}, 2));
  EXPECT_EQ(block(corpus.source, corpus.source_offsets, 1), v.tokens({"d"}, 1));
  EXPECT_EQ(block(corpus.target, corpus.target_offsets, 2), v.tokens({"f"}, 2));
  EXPECT_EQ(fingerprint(corpus),
            fingerprint(load_documents(text, v.vocab, v.vocab, {.block_tokens = 5, .threads = 3})));
}

TEST(DocumentCorpus, CutsASentenceThatIsLongerThanABlock) {
  const DocumentVocab v;
  const ParallelCorpus corpus =
      load_documents({"s", "t", {"a", "a b c d e", "f"}, {"a", "b", "c"}}, v.vocab, v.vocab, {.block_tokens = 4});
  ASSERT_EQ(corpus.size(), 3);
  EXPECT_EQ(block(corpus.source, corpus.source_offsets, 1), v.tokens({"a b c"}, 1));
}

TEST(DocumentCorpus, RefusesWhatIsNoDocuments) {
  const DocumentVocab v;
  const auto refusal = [&](const std::vector<std::string>& source, const std::vector<std::string>& target) {
    return message_of([&] { load_documents({"s", "t", source, target}, v.vocab, v.vocab, {}); });
  };
  EXPECT_THAT(refusal({"a", "<d>"}, {"a", "b"}),
              HasSubstr("line 2: 's' begins a document there (<d>), but 't' has a sentence"));
  EXPECT_THAT(refusal({"<d>", ""}, {"<d>", ""}), HasSubstr("have no sentence"));
}

}  // namespace
}  // namespace fovea::data::document_corpus_test
