#include <algorithm>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/data/streams.h"
#include "fovea/data/token_text.h"
#include "fovea/text/unit_split.h"
#include "fovea/text/vocab_count.h"
#include "loaders/loaders.h"

// Text of language models, and vocabularies that are counted in it.
namespace fovea::fuzz {
namespace {

using data::Documents;
using text::Units;
using text::VocabType;

const MemoryFile& text_file() {
  static const MemoryFile file;
  return file;
}

Units counted_units(const std::string& path, VocabType type) {
  const std::vector<text::CountedPiece> pieces = text::count_units({path}, type).units;
  return must_load([&] { return Units::from_file("units.spm", text::write_counted_model(type, pieces)); });
}

std::string decoded(const Units& units, const data::TokenText& text) {
  return units.decode(std::vector<int64_t>(text.ids.begin(), text.ids.end()));
}

// All units are in the segments once, and in the windows.
void check_segments(const data::TokenText& text, const Units& units, data::SegmentOrder order) {
  data::SegmentBatches batches(text, units.eos(), {.order = order, .mini_batch = 3, .segment_length = 5}, 1);
  int64_t size = 0;
  for (int64_t i = 0; i < batches.size(); ++i) {
    const data::Segments batch = batches.at(i);
    require(std::ssize(batch.fresh) == batches.items()[static_cast<size_t>(i)], "sequences are counted wrongly");
    size += std::ssize(batch.outputs);
  }
  require(size == text.size(), "segments have other units than the text");
  const data::ScoringWindows windows(text, units.eos(), {.context = 4, .stride = 3});
  int64_t scored = 0;
  for (int64_t i = 0; i < windows.size(); ++i) {
    const data::Window window = windows.at(i);
    scored += std::ssize(window.outputs) - window.first_scored;
  }
  require(scored == text.size(), "windows score other units than the text has");
}

data::TokenText load(const Units& units, Documents documents) {
  data::TokenText text = data::load_token_text({text_file().path()}, units, {.documents = documents});
  require(!text.documents.empty() && text.documents[0] == 0, "the first document does not begin with the text");
  for (size_t d = 0; d < text.documents.size(); ++d)
    require(text.documents[d] < text.document_end(d), "a document has no units");
  check_segments(text, units, data::SegmentOrder::kStream);
  check_segments(text, units, data::SegmentOrder::kShuffled);
  return text;
}

// Line ends become "\n", and U+2581 a blank.
std::string as_characters(std::string_view text) {
  std::string out;
  text::each_line(text, [&](std::string_view line, bool has_end) {
    out += line;
    if (has_end) out += '\n';
  });
  std::string with_blanks;
  for (std::string_view rest = out;;) {
    const size_t end = rest.find(text::kBlankSign);
    with_blanks += rest.substr(0, end);
    if (end == std::string_view::npos) return with_blanks;
    with_blanks += ' ';
    rest.remove_prefix(end + text::kBlankSign.size());
  }
}

}  // namespace

void load_byte_text(std::string_view bytes) {
  const std::string text = read_unpacked(text_file().put(bytes), Content::kBytes);
  const Units units = Units::bytes();
  for (const Documents documents : {Documents::kNo, Documents::kBlank, Documents::kFile}) {
    const data::TokenText loaded = load(units, documents);
    require(decoded(units, loaded) == text, "bytes change as they are read");
    require(loaded.bytes == std::ssize(text), "bytes are counted wrongly");
  }
}

void load_counted_text(std::string_view bytes) {
  const std::string& path = text_file().put(bytes);
  const Units characters = counted_units(path, VocabType::kChar);
  const data::TokenText text = load(characters, Documents::kBlank);
  require(decoded(characters, text) == as_characters(read_unpacked(path)), "characters do not give the text back");
  require(std::ranges::count(text.ids, *characters.unk()) == 0, "a character of the text is unknown");
  const Units words = counted_units(path, VocabType::kWord);
  const data::TokenText in_words = load(words, Documents::kNo);
  require(in_words.words == text.words, "words are counted in two ways");
}

void load_units(std::string_view bytes) {
  const Units units = Units::from_file("units.txt", std::string(bytes));
  require(units.is_bytes() && units.contents().starts_with("bytes"), "the units are not bytes");
}

}  // namespace fovea::fuzz
