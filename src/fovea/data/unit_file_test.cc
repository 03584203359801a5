#include "fovea/data/unit_file.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "fovea/base/file.h"
#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"
#include "fovea/data/kept_text.h"
#include "fovea/data/streams.h"
#include "fovea/data/token_text.h"

namespace fovea::data::unit_file_test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

// Units below `vocab`; a document begins at each place with a probability of 1 / `document`.
TokenText some_text(int64_t size, int64_t vocab, uint64_t document, uint64_t seed = 1) {
  TokenText text;
  Rng rng(seed);
  for (int64_t i = 0; i < size; ++i) {
    if (i == 0 || rng.below(document) == 0) text.documents.push_back(i);
    text.ids.push_back(static_cast<int32_t>(rng.below(static_cast<uint64_t>(vocab))));
  }
  text.ids.front() = static_cast<int32_t>(vocab - 1);
  return text;
}

// In parts, as a loader gives them.
TextReport feed(const TokenText& text, UnitSink& sink) {
  Rng rng(2);
  for (size_t d = 0; d < text.documents.size(); ++d) {
    sink.begin_document();
    for (int64_t at = text.documents[d]; at < text.document_end(d);) {
      const int64_t end = std::min(text.document_end(d), at + static_cast<int64_t>(rng.below(40'000)));
      sink.add(std::span(text.ids).subspan(static_cast<size_t>(at), static_cast<size_t>(end - at)));
      at = end;
    }
  }
  return {"all of it", {"a warning"}};
}

struct Place {
  explicit Place(int64_t vocab) : shape{vocab} {}
  TestFolder folder;
  UnitShape shape;
  fs::path path = folder / "units";
  UnitFile file(const TokenText& text) const {
    UnitFileWriter writer(path, shape);
    const TextReport report = feed(text, writer);
    writer.commit(report, "origin");
    return {path, shape};
  }
};

void expect_same(const UnitSource& kept, const TokenText& text) {
  EXPECT_EQ(kept.size(), text.size());
  EXPECT_EQ(kept.fingerprint(), text.fingerprint());
  const auto of = [](const UnitSource& source, int64_t begin, int64_t end) {
    std::vector<int64_t> units;
    source.read(begin, end, units);
    return std::pair(units, source.documents_in(begin, end));
  };
  EXPECT_EQ(of(kept, 0, text.size()), of(text, 0, text.size()));
  Rng rng(3);
  for (int i = 0; i < 100; ++i) {
    const auto begin = static_cast<int64_t>(rng.below(static_cast<uint64_t>(text.size())));
    const int64_t end = std::min(text.size(), begin + static_cast<int64_t>(rng.below(2000)));
    EXPECT_EQ(of(kept, begin, end), of(text, begin, end));
  }
}

TEST(UnitFile, IsTheHeldText) {
  for (const int64_t vocab : {2, 256, 257, 65'536, 65'537, 1'000'000})
    for (const int64_t size : {int64_t{1}, int64_t{77}, kBlockUnits - 1, kBlockUnits, kBlockUnits + 1, 3 * kBlockUnits})
      for (const uint64_t document : {1, 7, 40'000}) {
        const Place place(vocab);
        const TokenText text = some_text(size, vocab, document);
        const UnitFile file = place.file(text);
        expect_same(file, text);
        EXPECT_EQ(file.origin(), "origin");
        EXPECT_EQ(file.report().line, "all of it");
        EXPECT_THAT(file.report().warnings, ElementsAre("a warning"));
      }
}

TEST(UnitFile, AUnitTakesAsManyBytesAsItNeeds) {
  const TokenText text = some_text(100'000, 256, 1'000'000);
  const auto size_of = [&](int64_t vocab) {
    const Place place(vocab);
    (void)place.file(text);
    return fs::file_size(place.path);
  };
  EXPECT_EQ(size_of(257) - size_of(256), 100'000U);
  EXPECT_EQ(size_of(65'537) - size_of(65'536), 200'000U);
}

TEST(UnitFile, TheBatchesAreThoseOfTextInMemory) {
  for (const uint64_t document : {5, 300, 1'000'000})
    for (const SegmentOrder order : {SegmentOrder::kStream, SegmentOrder::kShuffled})
      for (const int64_t sections : {1, 3}) {
        const Place place(300);
        const TokenText text = some_text(2 * kBlockUnits + 9, 300, document);
        const UnitFile file = place.file(text);
        const SegmentOptions options = {.order = order,
                                        .mini_batch = 5,
                                        .segment_length = 100,
                                        .shards = 2,
                                        .section_segments = text.size() / 100 / sections};
        SegmentBatches kept(file, 300, options, 2), held(text, 300, options, 2);
        ASSERT_EQ(kept.items(), held.items());
        for (int64_t batch = 0; batch < kept.size(); ++batch) {
          const Segments a = kept.at(batch), b = held.at(batch);
          EXPECT_EQ(std::tie(a.inputs, a.outputs, a.offsets, a.streams, a.fresh),
                    std::tie(b.inputs, b.outputs, b.offsets, b.streams, b.fresh));
        }
      }
}

// Without a sync, which takes long for a thousand files.
void write_at_once(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

std::string error_of_reading(const Place& place) {
  return message_of([&] {
    const UnitFile file(place.path, place.shape);
    std::vector<int64_t> units;
    file.read(0, file.size(), units);
    (void)file.documents_in(0, file.size());
  });
}

// Every byte of a small file, and every length.
TEST(UnitFile, DamageIsNoticed) {
  const Place place(300);
  (void)place.file(some_text(90, 300, 10));
  const std::string whole = read_file(place.path);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    write_at_once(place.path, bytes);
    const std::string message = error_of_reading(place);
    EXPECT_THAT(message, HasSubstr("' is damaged: ")) << at;
    EXPECT_EQ(message.find('\n'), std::string::npos) << at;
  }
  for (size_t size = 0; size < whole.size(); size += 3) {
    write_at_once(place.path, whole.substr(0, size));
    EXPECT_THAT(error_of_reading(place), HasSubstr(size == 0 ? "the file is empty" : "' is damaged: ")) << size;
  }
}

TEST(UnitFile, DamageThatShowsLateSaysWhatToDo) {
  const Place place(300);
  (void)place.file(some_text(90, 300, 10));
  std::string bytes = read_file(place.path);
  bytes[7] = static_cast<char>(bytes[7] ^ 1);
  write_at_once(place.path, bytes);
  EXPECT_THAT(error_of_reading(place),
              testing::AllOf(HasSubstr("the units from 1 on have another checksum; remove it, and the same command")));
}

TEST(UnitFile, ForeignFilesAreRefused) {
  const Place place(300);
  write_file(place.path, "some text that somebody wrote, longer than the end of an encoded file\n");
  EXPECT_THAT(error_of_reading(place), HasSubstr("it does not end as files of this version of Fovea do"));
  (void)place.file(some_text(90, 300, 10));
  EXPECT_THAT(message_of([&] { UnitFile(place.path, {70'000}); }), HasSubstr("another width than the vocabulary asks"));
  EXPECT_THAT(message_of([&] { UnitFile(place.path, {280}).size(); }), "nothing was thrown");
  std::vector<int64_t> units;
  EXPECT_THAT(message_of([&] { UnitFile(place.path, {280}).read(0, 90, units); }),
              HasSubstr("it has a unit that the vocabulary lacks"));
  EXPECT_THAT(message_of([&] { EncodedFile(place.path, {300, 40}); }), HasSubstr("it does not end as files of this"));
}

TEST(KeptUnits, AreEncodedOnceAndAgainIfTheTextChanges) {
  const TestFolder folder;
  write_file(folder / "a.txt", "some text\n");
  const TokenText text = some_text(1000, 300, 10);
  const KeptText<UnitShape> kept = {.paths = {folder / "a.txt"},
                                    .folder = folder / "kept",
                                    .option = "--encoded-text",
                                    .encoding = "x",
                                    .shape = {300}};
  int encoded = 0;
  const auto open = [&] {
    return keep_text(kept, [&](UnitSink& sink) {
      ++encoded;
      return feed(text, sink);
    });
  };
  for (const int expected : {1, 1}) {
    expect_same(*open(), text);
    EXPECT_EQ(encoded, expected);
  }
  write_file(folder / "a.txt", "another text\n");
  expect_same(*open(), text);
  EXPECT_EQ(encoded, 2);
  const fs::path file = fs::directory_iterator(folder / "kept")->path();
  write_at_once(file, "rubbish");
  expect_same(*open(), text);
  EXPECT_EQ(encoded, 3);
}

TEST(KeptUnits, StandardInputIsRefused) {
  const TestFolder folder;
  const KeptText<UnitShape> kept = {
      .paths = {"-"}, .folder = folder / "kept", .option = "--encoded-text", .encoding = "x", .shape = {300}};
  EXPECT_THAT(message_of([&] { (void)keep_text(kept, [](UnitSink&) { return TextReport{}; }); }),
              HasSubstr("--encoded-text: '-' is not a regular file"));
}

}  // namespace
}  // namespace fovea::data::unit_file_test
