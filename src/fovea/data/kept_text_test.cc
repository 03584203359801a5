#include "fovea/data/kept_text.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "fovea/base/file.h"
#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_kills.h"
#include "fovea/base/test_message.h"

namespace fovea::data::kept_text_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct Pair {
  std::vector<int32_t> source, target;
};

// Pairs with lengths and ids up to the limits.
std::vector<Pair> some_pairs(int64_t count, const EncodedShape& shape, uint64_t seed) {
  Rng rng(seed);
  const auto side = [&] {
    const uint64_t longest = rng.below(50) == 0 ? static_cast<uint64_t>(shape.longest) : 9;
    std::vector<int32_t> ids(1 + rng.below(longest));
    for (int32_t& id : ids) id = static_cast<int32_t>(rng.below(static_cast<uint64_t>(shape.vocab)));
    return ids;
  };
  std::vector<Pair> pairs;
  for (int64_t i = 0; i < count; ++i) pairs.push_back({side(), side()});
  pairs.front().source.assign(static_cast<size_t>(shape.longest), static_cast<int32_t>(shape.vocab - 1));
  return pairs;
}

struct Place {
  TestFolder folder;
  KeptText<EncodedShape> text;
  std::vector<Pair> pairs;
  int encoded = 0;  // times

  explicit Place(const EncodedShape& shape = {300, 40}, int64_t count = 1000) : pairs(some_pairs(count, shape, 1)) {
    write_file(folder / "a.txt", "some text\n");
    write_file(folder / "b.txt", "its translation\n");
    text = {.paths = {folder / "a.txt", folder / "b.txt"},
            .folder = folder / "kept",
            .option = "--encoded-text",
            .encoding = "x",
            .shape = shape};
  }
  TextReport encode(PairSink& sink) {
    ++encoded;
    for (const Pair& pair : pairs) sink.add(pair.source, pair.target);
    return {"all of it", {"a warning"}};
  }
  std::unique_ptr<PairSource> open() {
    return keep_text(text, [this](PairSink& sink) { return encode(sink); });
  }
  ParallelCorpus held() {
    HeldPairs held;
    (void)encode(held);
    return held.take();
  }
  fs::path file() const {
    for (const fs::directory_entry& entry : fs::directory_iterator(text.folder)) return entry.path();
    return {};
  }
  int64_t files() const { return std::distance(fs::directory_iterator(text.folder), fs::directory_iterator()); }
  // Without what killed calls leave: a marked folder, which the next call that writes there removes, or an empty lock,
  // which nothing tells from a user's file.
  int64_t encoded_files() const {
    int64_t count = 0;
    for (const auto& entry : fs::directory_iterator(text.folder))
      count += entry.path().extension() == ".encoded" ? 1 : 0;
    return count;
  }
};

void expect_same(const PairSource& kept, const ParallelCorpus& corpus) {
  EXPECT_EQ(kept.fingerprint(), fingerprint(corpus));
  EXPECT_EQ(kept.longest(), longest_side(corpus));
  EXPECT_EQ(kept.lengths().size, corpus.size());
  const BatchOptions options = {.max_target_tokens = 200, .maxi_batch = 5, .section_pairs = 400};
  const std::vector<Batch> batches = batches_of_epoch(kept.lengths(), options, 1);
  EXPECT_EQ(batches, batches_of_epoch(corpus, options, 1));
  for (const Batch& batch : batches) {
    const PackedBatch a = kept.pack(batch, 7), b = pack(corpus, batch, 7);
    EXPECT_EQ(std::tie(a.source, a.source_offsets, a.target_inputs, a.target_outputs, a.target_offsets),
              std::tie(b.source, b.source_offsets, b.target_inputs, b.target_outputs, b.target_offsets));
  }
}

TEST(KeptText, IsTheHeldText) {
  for (const EncodedShape& shape : {EncodedShape{300, 40}, {65'536, 65'535}, {65'537, 70'000}})
    for (const int64_t count : {1, 64, 65, 1000}) {
      Place place(shape, count);
      const ParallelCorpus held = place.held();
      expect_same(*place.open(), held);
      EXPECT_EQ(place.encoded, 2);
      expect_same(*place.open(), held);
      EXPECT_EQ(place.encoded, 2) << "it is encoded once";
    }
}

TEST(KeptText, OfSeveralSegments) {
  Place place;
  place.pairs.clear();
  Rng rng(2);
  for (int64_t i = 0; i < 2 * kSegmentPairs + 3; ++i)
    place.pairs.push_back({{static_cast<int32_t>(i % 299)}, {static_cast<int32_t>(rng.below(300)), 1}});
  const auto kept = place.open();
  for (const int64_t at : {int64_t{0}, kSegmentPairs - 1, kSegmentPairs, 2 * kSegmentPairs, 2 * kSegmentPairs + 2})
    EXPECT_EQ(kept->pack({at}, 7).source, std::vector<int64_t>{at % 299});
  std::vector<PairLength> lengths(3);
  kept->lengths().read(1, kSegmentPairs, lengths);
  for (const PairLength& length : lengths) EXPECT_EQ(std::pair(length.source, length.target), std::pair(1U, 2U));
}

TEST(KeptText, IsEncodedAgainIfTheTextOrTheEncodingChanges) {
  Place place;
  (void)place.open();
  fs::last_write_time(place.text.paths[0], fs::last_write_time(place.text.paths[0]) + std::chrono::seconds(1));
  (void)place.open();
  EXPECT_EQ(place.encoded, 2);
  write_file(place.text.paths[1], "another one\n");
  (void)place.open();
  EXPECT_EQ(place.encoded, 3);
  const auto time = fs::last_write_time(place.text.paths[1]);
  write_file(place.text.paths[1], "ANOTHER ONE\n");
  fs::last_write_time(place.text.paths[1], time);
  (void)place.open();
  EXPECT_EQ(place.encoded, 4) << "size and time of the content are those from before, as after cp -p";
  EXPECT_EQ(place.files(), 1) << "it replaces the earlier one";
  place.text.encoding = "y";
  (void)place.open();
  place.text.encoding = "x";
  (void)place.open();
  EXPECT_EQ(place.encoded, 5) << "two vocabularies have a file each";
  EXPECT_EQ(place.files(), 2);
}

TEST(KeptText, TextThatChangesWhileItIsReadIsToldOf) {
  Place place;
  const auto change = [&](PairSink& sink) {
    write_file(place.text.paths[0], "more text than before\n");
    return place.encode(sink);
  };
  EXPECT_THAT(message_of([&] { (void)keep_text(place.text, change); }), HasSubstr("was changed while it was read"));
  EXPECT_EQ(place.files(), 0);
}

// Without a sync, which takes long for a thousand files.
void write_at_once(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

// Every byte of a small file: it is encoded again, or the damage shows when its sentences are read.
TEST(KeptText, DamageIsNoticed) {
  Place place({300, 40}, 70);
  (void)place.open();
  const fs::path path = place.file();
  const std::string whole = read_file(path);
  const ParallelCorpus held = place.held();
  for (size_t at = 0; at < whole.size(); at += 5) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    write_at_once(path, bytes);
    place.encoded = 0;
    const std::string message = message_of([&] {
      const auto kept = place.open();
      for (int64_t i = 0; i < 70; ++i) (void)kept->pack({i}, 7);
    });
    if (place.encoded == 0) {
      EXPECT_THAT(message, HasSubstr("is damaged: the sentences from "));
      EXPECT_THAT(message, HasSubstr("; remove it, and the same command"));
    } else {
      EXPECT_EQ(read_file(path), whole);
    }
  }
  for (const size_t size : {size_t{0}, size_t{10}, whole.size() / 2, whole.size() - 1}) {
    write_at_once(path, whole.substr(0, size));
    expect_same(*place.open(), held);
  }
}

TEST(KeptText, AFileThatIsCutWhileItIsReadIsToldOf) {
  Place place;
  const auto kept = place.open();
  fs::resize_file(place.file(), 100);
  EXPECT_THAT(message_of([&] { (void)kept->pack({999}, 7); }), HasSubstr("was cut while it was in use"));
}

TEST(KeptText, PlacesThatDoNotWorkAreRefused) {
  Place place;
  place.text.folder = place.folder / "none/kept";
  EXPECT_THAT(message_of([&] { (void)place.open(); }), HasSubstr("--encoded-text: cannot make the folder '"));
  place.text.folder = place.folder / "a.txt";
  EXPECT_THAT(message_of([&] { (void)place.open(); }), HasSubstr("--encoded-text: cannot make the folder '"));
  place.text.folder = place.folder / "kept";
  place.text.paths[0] = "/dev/null";
  EXPECT_THAT(message_of([&] { (void)place.open(); }), HasSubstr("'/dev/null' is not a regular file"));
}

TEST(KeptText, FullDisk) {
  Place place;
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {3000, 3000};
    (void)setrlimit(RLIMIT_FSIZE, &limit);
    const std::string message = message_of([&] { (void)place.open(); });
    _exit(message.find("cannot write '") == 0 && message.find('\n') == std::string::npos ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(place.files(), 0) << "nothing is left";
  expect_same(*place.open(), place.held());
}

// Killed before each system call: the next one has the same pairs, and leaves the encoded file alone.
TEST(KeptText, SurvivesKills) {
  for (int64_t call = 0;; ++call) {
    Place place({300, 40}, 70);
    const Killed killed = kill_at_call(call, Exchange::kAsTheSystemDoes, [&] { (void)place.open(); });
    if (killed == Killed::kCannotTrace) GTEST_SKIP() << "processes cannot be traced here";
    expect_same(*place.open(), place.held());
    EXPECT_EQ(place.encoded_files(), 1) << "call " << call;
    if (killed == Killed::kEndedBefore) break;
  }
}

TEST(KeptText, SeveralProcessesEncodeOnce) {
  Place place;
  const std::string count = place.folder / "count";
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    const auto encode = [&](PairSink& sink) {
      usleep(300'000);
      write_file(cat(count, getpid()), "");
      return place.encode(sink);
    };
    const std::string message = message_of([&] { (void)keep_text(place.text, encode); });
    _exit(message == "nothing was thrown" ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(place.files(), 1);
  int64_t times = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(count).parent_path()))
    times += entry.path().filename().string().starts_with("count") ? 1 : 0;
  EXPECT_EQ(times, 1);
}

TEST(ExpectedBytes, CountsCompressedFilesMoreOftenAndNoPipes) {
  const TestFolder folder;
  write_file(folder / "a", "0123456789");
  fs::copy(folder / "a", folder / "b.gz");
  EXPECT_EQ(expected_bytes({folder / "a", folder / "b.gz"}), 50);
  EXPECT_EQ(expected_bytes({folder / "a", "/dev/null"}), 0);
}

TEST(FolderOfEncoded, IsThatOfALargeTextUnlessItIsNamed) {
  const TestFolder folder;
  write_file(folder / "a", "0123456789");
  const std::vector<std::string> paths = {folder / "a"};
  // Bytes of tokens for one of text, so that ten bytes are a large text or a small one.
  const int64_t large = kMostHeldBytes / 9, small = kMostHeldBytes / 10;
  EXPECT_EQ(folder_of_encoded("", paths, large), fs::path(folder / "a").parent_path().string());
  EXPECT_EQ(folder_of_encoded("", paths, small), "");
  EXPECT_EQ(folder_of_encoded("named", paths, small), "named");
  EXPECT_EQ(folder_of_encoded("", {"/dev/null"}, large), "") << "a pipe tells no size";
}

}  // namespace
}  // namespace fovea::data::kept_text_test
