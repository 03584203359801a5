#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "fovea/base/file.h"
#include "fovea/base/test_message.h"
#include "fovea/tasks/language/test_run.h"

// Trainings that read the encoded text from a file.
namespace fovea::language::encoded_text_test {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;

fs::path encoded_file(const TestRun& test) {
  for (const fs::directory_entry& entry : fs::directory_iterator(test.data.encoded_text)) return entry.path();
  return {};
}

void train_to(TestRun& test, int64_t updates) {
  test.train.after_batches = updates;
  run(test);
}

TEST(EncodedText, GivesTheBytesOfTextInMemory) {
  const std::function<void(TestRun&)> variants[] = {[](TestRun&) {},
                                                    [](TestRun& test) {
                                                      test.with_pieces();
                                                      test.with_validation();
                                                    },
                                                    [](TestRun& test) {
                                                      test.data.order = "shuffled";
                                                      test.model.documents = "blank";
                                                    },
                                                    [](TestRun& test) {
                                                      test.model.documents = "file";
                                                      test.data.train_sets.push_back(test.folder / "valid");
                                                      test.train.optimizer_delay = 2;
                                                    },
                                                    [](TestRun& test) {
                                                      test.model.memory_length = 11;
                                                      test.model.documents = "blank";
                                                    }};
  for (const auto& change : variants) {
    TestRun held, kept;
    change(held), change(kept);
    train_to(held, 23);  // more than an epoch
    kept.data.encoded_text = kept.folder / "kept";
    train_to(kept, 4);
    train_to(kept, 17);  // resumes, and reads what the first one encoded
    kept.data.encoded_text = "";
    train_to(kept, 20);
    kept.data.encoded_text = kept.folder / "kept";
    train_to(kept, 23);
    EXPECT_EQ(bytes_of(held.train.model), bytes_of(kept.train.model));
    EXPECT_EQ(std::distance(fs::directory_iterator(kept.folder / "kept"), fs::directory_iterator()), 1);
  }
}

// Bytes and pieces, documents or none: a file for each in one folder.
TEST(EncodedText, OfOtherUnitsIsAFileOfItsOwn) {
  TestRun test;
  test.data.encoded_text = test.folder / "kept";
  (void)test.task();
  test.model.documents = "blank";
  (void)test.task();
  test.with_pieces();
  (void)test.task();
  EXPECT_EQ(std::distance(fs::directory_iterator(test.folder / "kept"), fs::directory_iterator()), 3);
}

TEST(EncodedText, ThatIsDamagedEndsTheRunWithACheckpoint) {
  TestRun test, straight;
  test.data.encoded_text = test.folder / "kept";
  train_to(test, 4);
  const fs::path file = encoded_file(test);
  std::string bytes = read_file(file);
  bytes[5] ^= 1;
  std::ofstream(file, std::ios::binary) << bytes;
  const std::string message = message_of([&] { train_to(test, 8); });
  EXPECT_THAT(message, HasSubstr("is damaged: the units from 1 on have another checksum; remove it, and the same"));
  EXPECT_EQ(message.find('\n'), std::string::npos);
  fs::remove(file);
  train_to(test, 8);
  train_to(straight, 8);
  EXPECT_EQ(bytes_of(straight.train.model), bytes_of(test.train.model));
}

}  // namespace
}  // namespace fovea::language::encoded_text_test
