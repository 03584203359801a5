#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fovea::text {

struct CleanLine;

// The origin of a model's pieces, numbered as in SentencePiece's files.
enum class VocabType : uint8_t { kUnigram = 1, kBpe, kWord, kChar };

// The treatment in decoding of the blanks with which the pieces at the beginning of a line begin.
enum class LeadingBlanks : uint8_t { kKept, kFirstDropped, kAllDropped };

// A piece of a line and the bytes [begin, end) of the line that it stands for.
struct PieceSpan {
  int64_t id = 0;
  size_t begin = 0, end = 0;
};

// A piece that encoding adds to a line: before the piece in which byte `at` of the line lies.
struct AddedPiece {
  size_t at = 0;
  int64_t id = 0;
};
// Returns what encoding adds to a line; the places never fall.
using PieceAdder = std::function<std::vector<AddedPiece>(std::string_view line)>;

// A SentencePiece model; copies share it. </s> is 0, <unk> is 1 in models that `fovea vocab` trains; other models' ids
// are read from them.
class Vocab {
 public:
  // Throws an Error that names the path if the file is missing or not a SentencePiece model.
  static Vocab load(const std::string& path);
  static Vocab from_bytes(const std::string& bytes, const std::string& name);

  // Makes encode(), encode_spans() and pieces() read a line as `fovea corpus` cleans text (clean_line() in unicode.h),
  // except for characters that the vocabulary has: the characters of its pieces, and characters that its rules of
  // normalisation change. The places of spans are those of the line as it is.
  void clean_lines();

  // Makes encode(), encode_spans() and pieces() add the pieces of `adder` too, which stand for no bytes. The adder is
  // called by several threads at once.
  void add_pieces(PieceAdder adder) { adder_ = std::move(adder); }

  int64_t size() const;
  int64_t eos() const;
  int64_t unk() const;
  VocabType type() const;
  // Encodes a line without </s>; invalid UTF-8 becomes U+FFFD. Each unknown word or character is one <unk> with the
  // types kWord and kChar; with the others, neighbouring unknown pieces are one.
  std::vector<int64_t> encode(std::string_view line) const;
  void encode(std::string_view line, std::vector<int32_t>& ids) const;  // appends
  // The pieces of encode() with their places in the line. A piece may stand for no bytes.
  std::vector<PieceSpan> encode_spans(std::string_view line) const;
  std::string decode(const std::vector<int64_t>& ids) const;
  std::vector<std::string> pieces(std::string_view line) const;
  // The text that the pieces of a line spell: after normalisation, with unknown text as it is. It is what the best
  // model can write for the line.
  std::string spelt(std::string_view line) const;
  // Whether spelt() gives every line back, except that U+2581 is a blank.
  bool keeps_text() const;
  const std::string& normalization() const;  // the name of the model's rules; may be empty
  bool is_counted() const;                   // write_counted_model() may have written the model
  std::string piece(int64_t id) const;
  std::optional<int64_t> find(std::string_view piece) const;  // none if the model does not have it
  // The text of a piece behind others in a line: with blanks for U+2581, nothing for control pieces, a single byte for
  // a piece of --byte-fallback.
  std::string surface(int64_t id) const;
  bool is_byte(int64_t id) const;
  LeadingBlanks leading_blanks() const;
  // Whether a line that is cut at a blank between two words, or anywhere between characters, has the pieces of its two
  // parts. The blank itself belongs to neither part: encoding puts one before each line. With has_blank_runs(), pieces
  // may begin with several blanks, so that the blank must stand alone.
  bool splits_at_blanks() const;
  bool splits_anywhere() const;
  bool has_blank_runs() const;
  // The codes of the marks of languages, such as "de" for the piece ">>de<<", in the order of the alphabet, and the
  // piece of a code. Encoding reads a mark at the beginning of a line as that piece (piece_order.h).
  std::vector<std::string> language_codes() const;
  std::optional<int64_t> language_piece(std::string_view code) const;
  const std::string& bytes() const;  // the serialised model, as the file has it

 private:
  Vocab();
  int checked(int64_t id) const;
  bool has_character(int32_t character) const;
  std::optional<CleanLine> cleaned(std::string_view line) const;  // none if nothing changes
  std::vector<PieceSpan> own_spans(std::string_view line) const;  // without those of the adder
  std::vector<PieceSpan> spans_as_given(std::string_view line) const;
  template <class Add, class Keep>
  void merge_added(std::string_view line, const std::vector<PieceSpan>& own, const Add& add, const Keep& keep) const;
  struct Model;
  std::shared_ptr<Model> model_;
  PieceAdder adder_;
  std::shared_ptr<const std::set<int32_t>> characters_;  // in the pieces; null: lines are not cleaned
};

inline constexpr double kMinCharacterCoverage = 0.98;  // SentencePiece's
inline constexpr int64_t kDefaultVocabSize = 8000, kDefaultVocabSample = 2'000'000;

inline constexpr std::string_view kVocabTypeNames = "unigram|bpe|word|char";

// SentencePiece's names. identity keeps the text as it is, its blanks too; all others also join blanks.
inline constexpr std::string_view kNormalizationNames = "identity|nfkc|nmt_nfkc|nfkc_cf|nmt_nfkc_cf";
inline constexpr const char* kIdentity = "identity";

struct VocabTraining {
  std::vector<std::string> inputs;  // text files, may be packed
  std::string output;               // .spm
  int64_t size = 0;                 // 0: kDefaultVocabSize; all characters of char. Of word and char, the most pieces
  std::string type = "unigram";     // of kVocabTypeNames
  // Only unigram and bpe use these fields; the others count the whole text as it is.
  std::string normalization = kIdentity;  // of kNormalizationNames
  double character_coverage = 1.0;
  bool byte_fallback = false;
  int64_t max_sentences = kDefaultVocabSample;
  int64_t seed = 1, threads = 1;
  std::vector<std::string> control_pieces = {};  // behind <unk>; no text is encoded as one of them, or printed for it
};
// Learns pieces with SentencePiece, or counts the words or characters of the text. Returns the number of pieces. The
// same input and seed give the same file; for unigram, the same number of threads too. Throws if `size` is impossible
// for the text, saying what is possible.
int64_t train_vocab(const VocabTraining& options);

}  // namespace fovea::text
