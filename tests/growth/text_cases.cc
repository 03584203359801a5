#include <array>
#include <memory>
#include <optional>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/text/byte_pairs.h"
#include "fovea/text/byte_pairs_json.h"
#include "fovea/text/clauses.h"
#include "fovea/text/corpus_clean.h"
#include "fovea/text/csv.h"
#include "fovea/text/entities.h"
#include "fovea/text/plural_forms.h"
#include "fovea/text/sentencepiece_json.h"
#include "fovea/text/sentencepiece_model.h"
#include "fovea/text/spreadsheet_lines.h"
#include "fovea/text/terms.h"
#include "fovea/text/tokenizer_json.h"
#include "fovea/text/unicode.h"
#include "fovea/text/vocab.h"
#include "fovea/text/wordpiece.h"
#include "growth.h"

// Text, terms, dictionaries and vocabularies.
namespace fovea::growth {
namespace {

using text::Vocab;
using text::VocabType;

void read_terms(const std::string& text) {
  const text::TermList terms = text::TermList::from_text(text, "terms");
  (void)terms.find(text);
}

void clean(const std::string& text) {
  (void)text::clean_line(text, [](int32_t c) { return c == 0xa0; });
  (void)text::normalise(text);
  (void)text::folded_words(text);
}

// A pair that `fovea corpus` cleans.
void clean_pair(const std::string& text) {
  const text::CorpusOptions options;
  text::Rewriter rewriter(options);
  text::Pair pair = {text, text};
  rewriter.rewrite(pair, text::Kind::kInterface);
  text::Pair prose = {text, text + " x"};
  rewriter.rewrite(prose, text::Kind::kProse);
}

void read_clauses(const std::string& text) {
  const auto dictionary = text::ClauseDictionary::parse(text, "clauses");
  (void)text::clause_starts(repeated("if 1 2 x ", text.size()), dictionary);
}

}  // namespace

std::vector<Case> text_cases() {
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, Make make, Read read) {
    cases.push_back(on_text(name, 1 << 15, std::move(make), std::move(read)));
  };
  add("terms of one first word", number("dog #\tx#\n"), read_terms);
  add("terms of one source", number("dog\tx#\n"), read_terms);
  cases.back().refusal = "more than 100 translations of one source";
  add("the same term", repeat("dog\tHund\n"), read_terms);
  add(
      "a long term", [](size_t n) { return repeated("a ", n) + "\tx\n"; }, read_terms);
  cases.back().refusal = "expected at most 100";
  add(
      "terms of all lengths",
      [](size_t n) {
        std::string text, source;
        for (size_t i = 0; text.size() < n; ++i) {
          source = i % 90 == 0 ? "a" : source + " a";
          text += cat(source, " ", i, "\tx\n");
        }
        return text;
      },
      read_terms);
  add(
      "a line of terms", [](size_t n) { return repeated("a ", 160) + "b\tx\n" + repeated("a\ty\n", n); }, read_terms);
  add("quoted terms", number("\"a \"\"#\"\"\"\tx\n"), read_terms);
  add(
      "a quoted term", [](size_t n) { return "x\ty\n\"" + repeated("\"\"", n) + "\"\tx\n"; }, read_terms);
  cases.back().refusal = "expected at most 100";
  for (const char* const unit : {"a,b\n", "\"a\nb\",c\n", "\"\"\"\",", ",", "\r", "\"a\"\"\",b\n"})
    add(cat("CSV ", one_line(unit)), repeat(unit), [](const auto& s) { (void)text::parse_csv(s, "csv"); });
  for (const char* const unit : {"\u0301\u0323", "\u0301", "e\u0301", "\u1100\u1161", "\u00a0", " ", "\u00ad", "\ufeff",
                                 "\ufb01", "\xff", "x", "\u0f71\u0f72", "a\u0323\u0301 "})
    add(cat("cleaning ", one_line(unit)), repeat(unit), clean);
  for (const char* const unit :
       {"<a", "<", "</", "&a", "&", "_a", "a_b", "~x", "(_F)", "<br/>", "&amp;", "<p>", "&#", "a&b ", "> ", "_x "})
    add(cat("a pair of ", unit), repeat(unit), clean_pair);
  add("clauses of one first word", number("conjunction\tif #\n"), read_clauses);
  return cases;
}

namespace {

// A small text of many words.
std::string training_text() {
  constexpr std::array kSyllables = {"ba", "du", "kel", "mor", "ni", "tra", "the", "o", "vel", "a"};
  std::string text;
  uint64_t state = 1;
  for (int word = 0; word < 4000; ++word) {
    for (int syllable = 0; syllable <= word % 3; ++syllable) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      text += kSyllables.at((state >> 33) % kSyllables.size());
    }
    text += word % 9 == 8 ? " .\n" : " ";
  }
  return text;
}

// A vocabulary that is trained when it is first used.
class LazyVocab {
 public:
  explicit LazyVocab(std::string type, bool byte_fallback = false)
      : type_(std::move(type)), byte_fallback_(byte_fallback) {}
  const Vocab& get() {
    if (vocab_) return *vocab_;
    const TestFolder folder;
    text::VocabTraining training{.inputs = {folder / "text"}, .output = folder / "v.spm", .type = type_};
    const bool is_counted = type_ == "word" || type_ == "char";
    training.size = is_counted ? 0 : byte_fallback_ ? 320 : 60;
    training.byte_fallback = byte_fallback_;
    write_file(training.inputs.front(), training_text());
    text::train_vocab(training);
    vocab_ = Vocab::load(training.output);
    vocab_->clean_lines();
    return *vocab_;
  }

 private:
  std::string type_;
  bool byte_fallback_;
  std::optional<Vocab> vocab_;
};

void encode(const Vocab& vocab, const std::string& line) {
  std::vector<int32_t> ids;
  vocab.encode(line, ids);
  (void)vocab.encode_spans(line);
  (void)vocab.pieces(line);
  (void)vocab.spelt(line);
}

void encode_cases(std::vector<Case>& cases, const std::string& name, const Read& read) {
  for (const char* const unit : {"\u4e00", "z", "the ", "the", " ", "\u2581", "\u4e00 ", "\u4e00a", "\xff",
                                 "\u0301\u0323", "t", ">>x<< ", "\u00a0", "\u00e9\u0301", "aaab", "'", ".\n"})
    cases.push_back(on_text(cat(name, " ", one_line(unit)), 1 << 15, repeat(unit), read));
}

std::string tokenizer_json(const std::string& model, const std::string& more) {
  return cat(R"({"model": )", model, R"(, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false})", more,
             "}");
}

// Tokens for all bytes, and merges that join runs of one letter.
std::string byte_vocabulary() {
  std::string tokens;
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_shown = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    const int letter = is_shown ? byte : next++;
    std::string name(1, static_cast<char>(letter));
    if (letter >= 0x80) name = {static_cast<char>(0xc0 | (letter >> 6)), static_cast<char>(0x80 | (letter & 0x3f))};
    if (name == "\"" || name == "\\") name = "\\" + name;
    tokens += cat(byte == 0 ? "" : ",", "\"", name, "\":", byte);
  }
  return tokens;
}

text::BytePairs byte_pairs() {
  const std::string model = cat(R"({"type": "BPE", "vocab": {)", byte_vocabulary(),
                                R"(,"aa":256,"aaaa":257,"th":258,"the":259}, "merges": ["a a","aa aa","t h","th e"]})");
  return {text::parse_byte_pairs_json(tokenizer_json(model, ""), "tokenizer.json"), "tokenizer.json"};
}

// NLLB's form: two characters each are a piece, and have a merge.
std::string nllb_tokenizer(size_t bytes) {
  std::string vocabulary = R"("<unk>":0)", merges;
  for (int64_t i = 0; merges.size() < bytes; ++i) {
    const int64_t letter = 0x4e00 + i;
    const std::string text = {static_cast<char>(0xe0 | (letter >> 12)), static_cast<char>(0x80 | (letter >> 6 & 0x3f)),
                              static_cast<char>(0x80 | (letter & 0x3f))};
    vocabulary += cat(",\"", text, "\":", 2 * i + 1, ",\"", text, text, "\":", 2 * i + 2);
    merges += cat(i == 0 ? "" : ",", "\"", text, " ", text, "\"");
  }
  return cat(R"({"model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "vocab": {)", vocabulary,
             R"(}, "merges": [)", merges, R"(]}, "pre_tokenizer": {"type": "Metaspace"}, "added_tokens": [)",
             R"({"id": 0, "content": "<unk>"}], "normalizer": {"type": "Replace", "pattern": {"Regex": " {2,}"}, )",
             R"("content": " "}})");
}

text::WordPiece word_pieces() { return {{.pieces = "[UNK]\n[CLS]\n[SEP]\na\n##a\nthe\n##the\n"}, "vocab.txt"}; }

std::string added_tokens(size_t bytes) {
  std::string list;
  for (int64_t i = 0; list.size() < bytes; ++i)
    list +=
        cat(i == 0 ? "" : ",", R"({"id":)", 260 + i, R"(,"content":"<)", std::string(static_cast<size_t>(i % 50), 'x'),
            i, R"(>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true})");
  return list;
}

}  // namespace

std::vector<Case> vocabulary_cases() {
  std::vector<Case> cases;
  for (const auto& [type, fallback] :
       {std::pair("unigram", false), {"bpe", false}, {"word", false}, {"char", false}, {"bpe", true}}) {
    const auto vocab = std::make_shared<LazyVocab>(type, fallback);
    encode_cases(cases, cat(type, fallback ? " with bytes" : ""),
                 [vocab](const std::string& s) { encode(vocab->get(), s); });
  }
  const auto pairs = std::make_shared<const text::BytePairs>(byte_pairs());
  encode_cases(cases, "byte pairs", [pairs](const std::string& s) {
    std::vector<int32_t> ids;
    if (is_valid_utf8(s)) pairs->encode(s, true, ids);
  });
  const auto words = std::make_shared<const text::WordPiece>(word_pieces());
  encode_cases(cases, "word pieces", [words](const std::string& s) { (void)words->encode(s); });
  const auto load = [](const std::string& s) { (void)Vocab::from_bytes(s, "v.spm"); };
  const auto counted = [](size_t bytes, const std::string& unit) {
    std::vector<text::CountedPiece> pieces;
    for (size_t made = 0; made < bytes; made += 24) pieces.push_back({cat(unit, pieces.size(), "<<"), 3});
    return text::write_counted_model(VocabType::kWord, pieces);
  };
  cases.push_back(on_text(
      "a vocabulary", 1 << 16, [=](size_t n) { return counted(n, "\u2581x"); }, load));
  cases.push_back(on_text(
      "BPE merges", 1 << 15,
      [](size_t n) {
        std::string vocabulary = byte_vocabulary(), merges, token = "a";
        for (int64_t i = 0; merges.size() < n; ++i) {
          const std::string left = std::string(1, static_cast<char>('a' + i % 26)), right = cat(left, i / 26);
          vocabulary += cat(",\"", left, "q", i, "\":", 256 + 2 * i, ",\"", left, left, "q", i, "\":", 257 + 2 * i);
          merges += cat(i == 0 ? "" : ",", "\"", left, " ", left, "q", i, "\"");
        }
        return tokenizer_json(cat(R"({"type": "BPE", "vocab": {)", vocabulary, R"(}, "merges": [)", merges, "]}"), "");
      },
      [](const auto& s) { const text::BytePairs read(text::parse_byte_pairs_json(s, "file"), "file"); }));
  cases.push_back(on_text("NLLB's merges", 1 << 15, nllb_tokenizer, [](const auto& s) {
    (void)text::parse_nllb_pieces(s, "file");
    (void)text::parse_nllb_model(s, "file");
  }));
  cases.push_back(on_text(
      "added tokens", 1 << 15,
      [](size_t n) {
        const std::string model = cat(R"({"type": "BPE", "vocab": {)", byte_vocabulary(), R"(}, "merges": []})");
        return tokenizer_json(model, cat(R"(, "added_tokens": [)", added_tokens(n), "]"));
      },
      [](const auto& s) {
        const text::BytePairs read(text::parse_byte_pairs_json(s, "file"), "file");
        std::vector<int32_t> ids;
        read.encode(s, true, ids);
      }));
  cases.push_back(on_text(
      "a list of word pieces", 1 << 15, [](size_t n) { return "[UNK]\n[CLS]\n[SEP]\n" + numbered("##x#\n", n); },
      [](const auto& s) { const text::WordPiece read({.pieces = s}, "vocab.txt"); }));
  return cases;
}

}  // namespace fovea::growth
