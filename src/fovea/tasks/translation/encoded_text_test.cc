#include <gmock/gmock.h>

#include <filesystem>
#include <functional>
#include <string>

#include "fovea/base/file.h"
#include "fovea/base/test_message.h"
#include "fovea/tasks/translation/test_task.h"

// Trainings that read the encoded text from a file.
namespace fovea::translation::encoded_text_test {
namespace {
namespace fs = std::filesystem;
using testing::HasSubstr;

fs::path encoded_file(const TestTask& task) {
  for (const fs::directory_entry& entry : fs::directory_iterator(task.data.encoded_text)) return entry.path();
  return {};
}

TEST(EncodedText, GivesTheBytesOfTextInMemory) {
  const std::function<void(TestTask&)> variants[] = {[](TestTask&) {},
                                                     [](TestTask& t) {
                                                       t.data.max_length = 6;
                                                       t.data.max_length_crop = true;
                                                     },
                                                     [](TestTask& t) {
                                                       t.data.documents = true;
                                                       t.data.document_length = 30;
                                                     },
                                                     [](TestTask& t) { t.with_validation(); }};
  for (const auto& change : variants) {
    TestTask held;
    change(held);
    held.train.after_batches = 30;  // more than an epoch
    run(held);
    TestTask kept;
    change(kept);
    kept.data.encoded_text = kept.folder / "kept";
    kept.train.after_batches = 14;
    run(kept);
    kept.train.after_batches = 30;
    run(kept);  // resumes, and reads what the first one encoded
    EXPECT_EQ(bytes_of(held.train.model), bytes_of(kept.train.model));
  }
}

TEST(EncodedText, ARunGoesOnWithTheOtherPlace) {
  TestTask straight, changed;
  straight.train.after_batches = changed.train.after_batches = 20;
  run(straight);
  changed.train.after_batches = 7;
  run(changed);
  changed.data.encoded_text = changed.folder / "kept";
  changed.train.after_batches = 14;
  run(changed);
  changed.data.encoded_text = "";
  changed.train.after_batches = 20;
  run(changed);
  EXPECT_EQ(bytes_of(straight.train.model), bytes_of(changed.train.model));
}

TEST(EncodedText, ThatIsCutWhileItIsReadEndsTheRunWithACheckpoint) {
  TestTask task;
  task.data.encoded_text = task.folder / "kept";
  task.train.after_batches = 20;
  Hooks hooks;
  hooks.on_update = [&](const train::UpdateReport& report) {
    if (report.updates == 5) fs::resize_file(encoded_file(task), 10);
  };
  EXPECT_THAT(message_of([&] { run(task, hooks); }), HasSubstr("was cut while it was in use"));
  EXPECT_THAT(checkpoints_of(task.train.model), HasSubstr("update-00000005"));
  run(task);  // encodes the text again
  TestTask straight;
  straight.train.after_batches = 20;
  run(straight);
  EXPECT_EQ(bytes_of(straight.train.model), bytes_of(task.train.model));
}

}  // namespace
}  // namespace fovea::translation::encoded_text_test
