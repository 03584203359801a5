#include <gmock/gmock.h>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"
#include "fovea/text/corpus.h"

namespace fovea::text::corpus_documents_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct DocumentFiles {
  TestFolder folder;
  CorpusOptions options;
  DocumentFiles(const std::string& source, const std::string& target) {
    write_file(folder / "in.en", source);
    write_file(folder / "in.de", target);
    options.inputs = {folder / "in.en", folder / "in.de"};
    options.output = folder / "out";
    options.documents = true;
    options.valid = options.test = 0;
  }
  std::string part(const std::string& name) const { return read_file(std::filesystem::path(options.output) / name); }
};

TEST(DocumentCorpus, KeepsOrderAndDropsWholeDocuments) {
  const DocumentFiles files("<d>\none cat\ntwo dogs\n<d>\n12\n\n\nthree  birds\nfour\n",
                            "<d>\neine Katze\nzwei Hunde\n<d>\n13\n\n\ndrei Vögel\nvier\n");
  const CorpusReport report = run_corpus(files.options);
  EXPECT_EQ(files.part("train.en"), "<d>\none cat\ntwo dogs\n<d>\nthree birds\nfour\n");
  EXPECT_EQ(files.part("train.de"), "<d>\neine Katze\nzwei Hunde\n<d>\ndrei Vögel\nvier\n");
  EXPECT_EQ(report.read, 5);
  EXPECT_EQ(report.parts[0].pairs, 4);
}

TEST(DocumentCorpus, SetsWholeDocumentsAside) {
  std::string source, target;
  for (int d = 0; d < 10; ++d) {
    source += "<d>\n", target += "<d>\n";
    for (int i = 0; i < 3; ++i)
      source += cat("document ", d, " sentence ", i, "\n"), target += cat("Text ", d, " Satz ", i, "\n");
  }
  DocumentFiles files(source, target);
  files.options.valid = 4, files.options.test = 1;
  const CorpusReport report = run_corpus(files.options);
  EXPECT_EQ(report.parts[0].pairs, 21);
  EXPECT_EQ(report.parts[1].pairs, 6);
  EXPECT_EQ(report.parts[2].pairs, 3);
  EXPECT_THAT(files.part("test.en"), testing::StartsWith("<d>\ndocument "));
  files.options.valid = 100;
  EXPECT_THAT(message_of([&] { run_corpus(files.options); }), HasSubstr("none remains to train on"));
}

TEST(DocumentCorpus, RefusesABoundaryOnOneSideAndOtherOptions) {
  DocumentFiles files("<d>\na b\n\nc d\n", "<d>\nx y\nz\nw v\n");
  EXPECT_THAT(message_of([&] { run_corpus(files.options); }), HasSubstr("line 3: '"));
  files.options.max_words = 50;
  EXPECT_THAT(message_of([&] { run_corpus(files.options); }),
              HasSubstr("--max-words: --documents drops whole documents"));
}

TEST(DocumentCorpus, ATextWithoutABoundaryIsOneDocument) {
  const DocumentFiles files("one cat\ntwo dogs\n", "eine Katze\nzwei Hunde\n");
  run_corpus(files.options);
  EXPECT_EQ(files.part("train.en"), "<d>\none cat\ntwo dogs\n");
}

}  // namespace
}  // namespace fovea::text::corpus_documents_test
