#include "fovea/text/vocab.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/text/code_points.h"
#include "fovea/text/library_pieces.h"
#include "fovea/text/long_lines.h"
#include "fovea/text/sentencepiece_check.h"
#include "fovea/text/sentencepiece_log.h"
#include "fovea/text/sentencepiece_model.h"
#include "fovea/text/unicode.h"
#include "fovea/text/unit_split.h"

namespace fovea::text {

// Encodes with models of words and characters that are as write_counted_model() writes them, ten times as fast as the
// library and with the same result.
class UnitTable {
 public:
  explicit UnitTable(VocabType type) : type_(type) {}
  void add(std::string_view piece, int32_t id) { ids_.emplace(piece, id); }
  // Appends the units of a line, which is UTF-8.
  void encode(std::string_view line, int32_t unk, std::vector<int32_t>& ids) const;

 private:
  VocabType type_;
  std::unordered_map<std::string, int32_t, TextHash, std::equal_to<>> ids_;
};

void UnitTable::encode(std::string_view line, int32_t unk, std::vector<int32_t>& ids) const {
  const auto append = [&](std::string_view piece) {
    const auto known = ids_.find(piece);
    ids.push_back(known == ids_.end() ? unk : known->second);
  };
  if (type_ == VocabType::kChar) {
    each_character_unit(line, append);
    return;
  }
  std::string piece(kBlankSign);
  each_word(line, [&](std::string_view word) {
    piece.resize(kBlankSign.size());
    append(piece += word);
  });
}

namespace {

// False for a damaged model. The library throws at a piece that begins with a zero byte.
bool load_into(sentencepiece::SentencePieceProcessor& processor, std::string_view model) {
  if (!has_sound_charsmaps(model) || !has_sound_user_pieces(model)) return false;
  try {
    return processor.LoadFromSerializedProto(absl::string_view(model.data(), model.size())).ok();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {
    return false;
  }
}

std::string with_blanks(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (;;) {
    const size_t end = text.find(kBlankSign);
    result += text.substr(0, end);
    if (end == std::string_view::npos) return result;
    result += ' ';
    text.remove_prefix(end + kBlankSign.size());
  }
}

// The size of the first word, with its sign of a blank, or of the first character.
size_t unit_size(std::string_view text, VocabType type) {
  return type == VocabType::kChar ? first_character(text).size : std::min(text.find(kBlankSign, 1), text.size());
}

// The end in `text` of the first of several unknown units, the part of the line that they stand for. The blanks before
// a word are its own.
size_t end_of_unit(std::string_view text, VocabType type) {
  if (text.empty()) return 0;
  if (type == VocabType::kChar) return first_character(text).size;
  size_t end = 0;
  while (end < text.size() && blank_size(text.substr(end)) > 0) end += blank_size(text.substr(end));
  while (end < text.size() && blank_size(text.substr(end)) == 0) ++end;
  return end;
}

// Shows `visit` the text and the number of each piece. The library joins unknown words, and unknown characters, that
// follow each other; here they come one by one.
template <class Visit>
void each_unit(const std::vector<LibraryPiece>& pieces, int64_t unk, VocabType type, const Visit& visit) {
  for (const LibraryPiece& found : pieces) {
    std::string_view piece = found.text;
    while (found.id == unk && piece.size() > unit_size(piece, type)) {
      visit(piece.substr(0, unit_size(piece, type)), found.id);
      piece.remove_prefix(unit_size(piece, type));
    }
    visit(piece, found.id);
  }
}

}  // namespace

struct Vocab::Model {
  sentencepiece::SentencePieceProcessor processor;
  std::string bytes, unk_surface;
  ModelSpec spec;
  std::optional<UnitTable> table;                     // of a model that write_counted_model() may have written
  bool has_blanks_inside = false;                     // pieces with a blank behind another character
  bool has_blank_runs = false;                        // pieces that begin with several blanks
  std::map<std::string, int64_t, std::less<>> marks;  // the numbers of ModelSpec::marks
  // The mark at the beginning of a line, before which its training put no blank: the line's text begins behind it.
  std::optional<PieceSpan> mark_before(std::string_view line) const {
    if (marks.empty()) return std::nullopt;
    const std::string_view mark = leading_language_mark(line);
    const auto found = marks.find(mark);
    if (found == marks.end()) return std::nullopt;
    const auto begin = static_cast<size_t>(mark.data() - line.data());
    return PieceSpan{found->second, begin, begin + mark.size()};
  }
  bool has_units() const { return spec.type == VocabType::kWord || spec.type == VocabType::kChar; }
  void read_pieces() {
    if (spec.is_counted) table.emplace(spec.type);
    for (int id = 0; id < processor.GetPieceSize(); ++id) {
      const std::string& piece = processor.IdToPiece(id);
      size_t word = 0;
      while (piece.compare(word, kBlankSign.size(), kBlankSign) == 0) word += kBlankSign.size();
      has_blank_runs |= word > kBlankSign.size();
      has_blanks_inside |= piece.find(kBlankSign, word) != std::string::npos;
      if (table) table->add(piece, id);
    }
  }
};

Vocab::Vocab() : model_(std::make_shared<Model>()) {}

Vocab Vocab::load(const std::string& path) {
  require_file(path, "vocabulary");
  return from_bytes(read_file(path), path);
}

Vocab Vocab::from_bytes(const std::string& bytes, const std::string& name) {
  silence_sentencepiece();
  const auto refuse = [&](std::string_view why) -> void {
    throw Error(cat("vocabulary: '", name, "' is not a SentencePiece model (", why,
                    "); expected a file that `fovea vocab` or spm_train wrote"));
  };
  if (bytes.empty()) refuse("it is empty");
  // A serialised model starts with its list of pieces: field 1, length-delimited. Other files rarely get past this, and
  // the library's parser is spared them.
  if (bytes[0] != '\x0a') refuse("its first byte is not a model's");
  Vocab vocab;
  vocab.model_->bytes = bytes;
  auto& processor = vocab.model_->processor;
  if (!load_into(processor, bytes)) refuse("damaged or cut short");
  if (processor.GetPieceSize() <= 0) refuse("it has no pieces");
  if (processor.eos_id() < 0)
    throw Error(cat("vocabulary: '", name, "' has no </s>; got a model trained without one; train it with an eos_id"));
  vocab.model_->spec = read_model_spec(bytes);
  (void)processor.Decode(std::vector<int>{processor.unk_id()}, &vocab.model_->unk_surface);
  vocab.model_->read_pieces();
  for (const std::string& mark : vocab.model_->spec.marks) vocab.model_->marks[mark] = processor.PieceToId(mark);
  return vocab;
}

int64_t Vocab::size() const { return model_->processor.GetPieceSize(); }
int64_t Vocab::eos() const { return model_->processor.eos_id(); }
int64_t Vocab::unk() const { return model_->processor.unk_id(); }
const std::string& Vocab::bytes() const { return model_->bytes; }

VocabType Vocab::type() const { return model_->spec.type; }

void Vocab::clean_lines() {
  const auto characters = std::make_shared<std::set<int32_t>>();
  for (int id = 0; id < model_->processor.GetPieceSize(); ++id)
    each_character(model_->processor.IdToPiece(id), [&](int32_t character) { characters->insert(character); });
  characters_ = characters;
}

bool Vocab::has_character(int32_t character) const {
  if (character == ' ' || characters_->contains(character)) return true;
  if (!model_->spec.has_charsmap) return false;
  std::string text;
  append_character(text, character);
  std::vector<int> ids;
  require_encoded(model_->processor.Encode(text, &ids));
  return std::ranges::none_of(ids, [&](int id) { return id == unk() || is_byte(id); });
}

std::optional<CleanLine> Vocab::cleaned(std::string_view line) const {
  if (!characters_) return std::nullopt;
  return clean_line(line, [this](int32_t character) { return has_character(character); });
}

void Vocab::encode(std::string_view given, std::vector<int32_t>& ids) const {
  const std::optional<CleanLine> clean = cleaned(given);
  std::string_view line = clean ? clean->text : given;
  if (adder_) {
    for (const PieceSpan& span : spans_as_given(line)) ids.push_back(static_cast<int32_t>(span.id));
    return;
  }
  if (const std::optional<PieceSpan> mark = model_->mark_before(line)) {
    ids.push_back(static_cast<int32_t>(mark->id));
    line.remove_prefix(mark->end);
  }
  if (model_->table && is_valid_utf8(line)) {
    model_->table->encode(line, static_cast<int32_t>(unk()), ids);
    return;
  }
  if (model_->has_units()) {
    each_unit(library_pieces(model_->processor, model_->spec, line), unk(), type(),
              [&](std::string_view, int id) { ids.push_back(id); });
    return;
  }
  if (line.size() > kLongLine) {
    for (const LibraryPiece& piece : library_pieces(model_->processor, model_->spec, line)) ids.push_back(piece.id);
    return;
  }
  std::vector<int> found;
  require_encoded(model_->processor.Encode(absl::string_view(line.data(), line.size()), &found));
  ids.insert(ids.end(), found.begin(), found.end());
}

std::vector<int64_t> Vocab::encode(std::string_view line) const {
  std::vector<int32_t> ids;
  encode(line, ids);
  return {ids.begin(), ids.end()};
}

// Calls add(AddedPiece, the piece before which it stands) and keep(i) for all pieces of a line in their order.
template <class Add, class Keep>
void Vocab::merge_added(std::string_view line, const std::vector<PieceSpan>& own, const Add& add,
                        const Keep& keep) const {
  const std::vector<AddedPiece> added = adder_ ? adder_(line) : std::vector<AddedPiece>();
  auto next = added.begin();
  for (size_t i = 0; i < own.size(); ++i) {
    for (; next != added.end() && next->at < own[i].end; ++next) add(*next, own[i]);
    keep(i);
  }
}

std::vector<std::string> Vocab::pieces(std::string_view given) const {
  const std::optional<CleanLine> clean = cleaned(given);
  const std::string_view line = clean ? clean->text : given;
  std::vector<std::string> own, behind;
  std::string_view rest = line;
  if (const std::optional<PieceSpan> mark = model_->mark_before(line)) {
    own.push_back(piece(mark->id));
    rest.remove_prefix(mark->end);
  }
  if (model_->has_units()) {
    each_unit(library_pieces(model_->processor, model_->spec, rest), unk(), type(),
              [&](std::string_view piece, int) { behind.emplace_back(piece); });
  } else {
    for (LibraryPiece& piece : library_pieces(model_->processor, model_->spec, rest))
      behind.push_back(std::move(piece.text));
  }
  std::ranges::move(behind, std::back_inserter(own));
  if (!adder_) return own;
  std::vector<std::string> pieces;
  merge_added(
      line, own_spans(line), [&](const AddedPiece& added, const PieceSpan&) { pieces.push_back(piece(added.id)); },
      [&](size_t i) { pieces.push_back(std::move(own.at(i))); });
  return pieces;
}

std::vector<PieceSpan> Vocab::encode_spans(std::string_view line) const {
  const std::optional<CleanLine> clean = cleaned(line);
  if (!clean) return spans_as_given(line);
  std::vector<PieceSpan> spans = spans_as_given(clean->text);
  for (PieceSpan& span : spans) {
    const size_t end = clean->line_end(span.end);
    span.begin = clean->line_begin(span.begin);
    span.end = std::max(span.begin, end);
  }
  return spans;
}

// The spans of a line that is not cleaned.
std::vector<PieceSpan> Vocab::spans_as_given(std::string_view line) const {
  std::vector<PieceSpan> own = own_spans(line);
  if (!adder_) return own;
  std::vector<PieceSpan> spans;
  merge_added(
      line, own,
      [&](const AddedPiece& added, const PieceSpan& before) {
        spans.push_back({added.id, before.begin, before.begin});
      },
      [&](size_t i) { spans.push_back(own[i]); });
  return spans;
}

std::vector<PieceSpan> Vocab::own_spans(std::string_view line) const {
  std::vector<PieceSpan> spans;
  const std::optional<PieceSpan> mark = model_->mark_before(line);
  if (mark) spans.push_back(*mark);
  const size_t first = mark ? mark->end : 0;
  for (const LibraryPiece& found : library_pieces(model_->processor, model_->spec, line.substr(first))) {
    const int64_t id = found.id;
    size_t begin = first + found.begin;
    const size_t last = first + found.end;
    std::string_view piece = found.text;
    while (model_->has_units() && id == unk() && piece.size() > unit_size(piece, type())) {
      const size_t end = begin + end_of_unit(line.substr(begin, last - begin), type());
      spans.push_back({id, begin, end});
      begin = end;
      piece.remove_prefix(unit_size(piece, type()));
    }
    spans.push_back({id, begin, last});
  }
  return spans;
}

std::string Vocab::spelt(std::string_view line) const {
  if (keeps_text()) return std::string(line);
  std::string text;
  for (const LibraryPiece& piece : library_pieces(model_->processor, model_->spec, line))
    text += is_byte(piece.id) ? surface(piece.id) : piece.text;
  text = with_blanks(text);
  if (model_->spec.add_dummy_prefix && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

bool Vocab::keeps_text() const { return !model_->spec.has_charsmap && !model_->spec.remove_extra_whitespaces; }

const std::string& Vocab::normalization() const { return model_->spec.normalization; }

bool Vocab::is_counted() const { return model_->spec.is_counted; }

std::string Vocab::decode(const std::vector<int64_t>& ids) const {
  std::vector<int> known;
  known.reserve(ids.size());
  for (const int64_t id : ids) known.push_back(checked(id));
  std::string text;
  const auto status = model_->processor.Decode(known, &text);
  if (!status.ok()) throw Error(cat("vocabulary: pieces cannot be joined into text: ", status.ToString()));
  // The library drops the blank before the first word, except before an unknown one.
  if (type() == VocabType::kWord && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

int Vocab::checked(int64_t id) const {
  if (id < 0 || id >= size()) throw Error(cat("vocabulary: got piece ", id, "; expected 0 to ", size() - 1));
  return static_cast<int>(id);
}

std::optional<int64_t> Vocab::find(std::string_view piece) const {
  const int id = model_->processor.PieceToId(absl::string_view(piece.data(), piece.size()));
  if (id < 0 || id >= size() || model_->processor.IdToPiece(id) != piece) return std::nullopt;
  return id;
}

std::vector<std::string> Vocab::language_codes() const {
  std::vector<std::string> codes;
  for (const auto& [mark, id] : model_->marks) codes.push_back(code_of_mark(mark));
  return codes;
}

std::optional<int64_t> Vocab::language_piece(std::string_view code) const {
  const auto found = model_->marks.find(language_mark(code));
  return found == model_->marks.end() ? std::nullopt : std::optional(found->second);
}

std::string Vocab::piece(int64_t id) const { return model_->processor.IdToPiece(checked(id)); }

bool Vocab::is_byte(int64_t id) const { return model_->processor.IsByte(checked(id)); }

std::string Vocab::surface(int64_t id) const {
  const auto& processor = model_->processor;
  if (processor.IsControl(checked(id))) return "";
  if (processor.IsUnknown(checked(id))) return model_->unk_surface;
  std::string text = piece(id);
  if (is_byte(id)) {  // "<0x41>"
    constexpr size_t kDigits = 3;
    uint8_t byte = 0;
    std::from_chars(text.data() + std::min(kDigits, text.size()), text.data() + text.size(), byte, 16);
    return {static_cast<char>(byte)};
  }
  return with_blanks(text);
}

LeadingBlanks Vocab::leading_blanks() const {
  if (model_->spec.remove_extra_whitespaces) return LeadingBlanks::kAllDropped;
  return model_->spec.add_dummy_prefix ? LeadingBlanks::kFirstDropped : LeadingBlanks::kKept;
}

bool Vocab::splits_at_blanks() const {
  const ModelSpec& spec = model_->spec;
  // Rules of normalisation may make a run of blanks of other white space, which a cut does not look for.
  return !adder_ && !characters_ && model_->marks.empty() && spec.add_dummy_prefix && !model_->has_blanks_inside &&
         !(model_->has_blank_runs && spec.has_charsmap);
}

bool Vocab::has_blank_runs() const { return model_->has_blank_runs; }

bool Vocab::splits_anywhere() const {
  const ModelSpec& spec = model_->spec;
  return type() == VocabType::kChar && !characters_ && !spec.add_dummy_prefix && !spec.remove_extra_whitespaces &&
         !spec.has_charsmap;
}

}  // namespace fovea::text
