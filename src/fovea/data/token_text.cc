#include "fovea/data/token_text.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "fovea/base/empty_line.h"
#include "fovea/base/error.h"
#include "fovea/base/executor.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/text/line_encoder.h"
#include "fovea/text/text_changes.h"
#include "fovea/text/unit_split.h"
#include "fovea/text/utf8.h"

namespace fovea::data {
namespace {

// Text is read a block at a time and encoded a slice at a time, so that text and ids of a large corpus are never held
// together. Both are larger where a text cannot be cut.
constexpr size_t kBlockBytes = 1 << 20, kSliceBytes = 64 << 10;

// Words between white space in texts that continue each other.
struct WordCount {
  int64_t words = 0;
  bool begins_inside = false, ends_inside = false;  // a word
  void add(const WordCount& next) {
    words += next.words - (ends_inside && next.begins_inside ? 1 : 0);
    ends_inside = next.ends_inside;
  }
};

WordCount count_words(std::string_view text) {
  WordCount count;
  for (size_t at = 0; at < text.size();) {
    const size_t space = text::white_space_size(text.substr(at, 3));
    const bool is_inside = space == 0;
    if (is_inside && !count.ends_inside) ++count.words;
    if (at == 0) count.begins_inside = is_inside;
    count.ends_inside = is_inside;
    at += is_inside ? 1 : space;
  }
  return count;
}

// A part of a text that one thread encodes.
struct Slice {
  std::string_view text;
  bool begins_document = false;
  text::Units::Begin begin = text::Units::Begin::kLine;
  std::vector<int32_t> ids = {};
  WordCount words = {};
  int64_t line_ends = 0;
};

std::string names_of_texts(const std::vector<std::string>& paths) {
  std::string names;
  for (const std::string& path : paths) names += cat(names.empty() ? "" : ", ", input_name(path));
  return names;
}

class TokenTextLoader {
 public:
  TokenTextLoader(const text::Units& units, const TokenTextOptions& options, UnitSink& sink)
      : units_(units), options_(options), sink_(sink), threads_(options.threads), unk_(units.unk()) {
    for (int i = 0; i < threads_.num_threads(); ++i) encoders_.emplace_back(units);
    if (options.trains && units.has_lines()) changes_.emplace(*units.vocab());
  }

  void load(const std::string& path) {
    if (path != "-") require_file(path, options_.option);
    path_ = path;
    offset_ = lines_before_ = 0;
    const int64_t size_before = size_;
    words_ = {};
    begins_file_ = true;
    begin_ = text::Units::Begin::kLine;
    LineReader reader(path, units_.is_bytes() ? Content::kBytes : Content::kText);
    std::string text;
    char last = '\n';
    for (bool more = true; more;) {
      throw_if_interrupted("reading the text");
      more = reader.read(text, std::max(kBlockBytes, text.size())) > 0;  // what is not cut yet is looked at again
      const size_t size = more ? units_.cut(text, text.size()) : text.size();
      if (size == 0) continue;
      add(std::string_view(text).substr(0, size));
      last = text[size - 1];
      text.erase(0, size);
    }
    counts_.words += words_.words;
    counts_.bytes += offset_;
    counts_.lines += lines_before_ + (last == '\n' ? 0 : 1);
    if (last != '\n' && size_ > size_before) open_line_of_ = path;
  }

  // Tells how much text will come, as far as the sizes of the files say it.
  void expect(const std::vector<std::string>& paths) {
    std::error_code ignored;
    for (const std::string& path : paths)
      if (std::filesystem::is_regular_file(path, ignored)) expected_bytes_ += std::filesystem::file_size(path, ignored);
  }

  EncodedText finish(const std::vector<std::string>& paths) {
    if (size_ == 0)
      throw Error(cat(options_.option, ": no text in ", names_of_texts(paths), "; expected a file that is not empty"));
    std::string line = cat("[data] ", thousands(size_), " ", units_.unit_name(), "s from ", names_of_texts(paths), " (",
                           thousands(counts_.bytes), " bytes, ", thousands(counts_.lines), " lines, ",
                           thousands(counts_.words), " words");
    if (options_.documents != Documents::kNo) line += cat(", ", thousands(documents_), " documents");
    line += ")";
    if (unknown_ > 0) line += cat("; ", thousands(unknown_), " of them unknown");
    EncodedText text = {counts_, {std::move(line)}};
    const std::string warning = changes_ ? text::change_warning(*changes_, *units_.vocab(), "lines") : "";
    if (!warning.empty()) text.report.warnings.push_back(warning);
    if (!joined_.empty()) text.report.warnings.push_back(joined_);
    return text;
  }

 private:
  void add(std::string_view text) {
    std::vector<Slice> slices = slices_of(text);
    if (!units_.is_bytes()) require_text(slices);
    threads_.run(std::ssize(slices), [&](int64_t i, int thread) {
      Slice& slice = slices[static_cast<size_t>(i)];
      encoders_[static_cast<size_t>(thread)].encode(slice.text, slice.ids, slice.begin);
      slice.words = count_words(slice.text);
      slice.line_ends = std::ranges::count(slice.text, '\n');
    });
    for (const Slice& slice : slices) append(slice);
    if (changes_) text::each_line(text, [this](std::string_view line, bool /*has_end*/) { changes_->add(line); });
    offset_ += std::ssize(text);
    reserve();
  }

  // Cut where documents begin, and elsewhere where it changes nothing.
  std::vector<Slice> slices_of(std::string_view text) {
    std::vector<size_t> begins;
    if (options_.documents == Documents::kBlank) begins = finder_.find(text);
    if (options_.documents == Documents::kFile && begins_file_) begins = {0};
    begins_file_ = false;
    std::vector<Slice> slices;
    size_t next = 0;
    for (size_t at = 0; at < text.size();) {
      const bool begins_document = next < begins.size() && begins[next] == at;
      if (begins_document) ++next;
      const size_t end = next < begins.size() ? begins[next] : text.size();
      const size_t size = slice_size(text.substr(at, end - at));
      if (begins_document) begin_ = text::Units::Begin::kLine;
      slices.push_back({text.substr(at, size), begins_document, begin_});
      const bool begins_line = units_.has_lines() && text[at + size - 1] == '\n';
      begin_ = begins_line ? text::Units::Begin::kLine : text::Units::Begin::kInside;
      at += size;
    }
    return slices;
  }

  size_t slice_size(std::string_view text) const {
    for (size_t most = kSliceBytes; most < text.size(); most *= 2)
      if (const size_t size = units_.cut(text, most); size > 0) return size;
    return text.size();
  }

  void require_text(const std::vector<Slice>& slices) {
    std::vector<std::optional<text::BadByte>> bad(slices.size());
    threads_.run(std::ssize(slices), [&](int64_t i, int) {
      bad[static_cast<size_t>(i)] = text::find_bad_byte(slices[static_cast<size_t>(i)].text);
    });
    int64_t line = lines_before_ + 1, before = offset_;
    for (size_t i = 0; i < slices.size(); ++i) {
      const std::string_view part = slices[i].text.substr(0, bad[i] ? bad[i]->at : std::string_view::npos);
      line += std::ranges::count(part, '\n');
      before += std::ssize(part);
      if (bad[i])
        throw Error(cat(options_.option, ": ", input_name(path_), ", line ", thousands(line), " (after ",
                        thousands(before), " bytes): ", bad[i]->why, ", or use --vocabs bytes"));
    }
  }

  // A document begins with its first unit: one without any is left out.
  void append(const Slice& slice) {
    if (slice.begins_document && !awaits_document_) {
      awaits_document_ = true;
      if (!units_.has_lines()) put(std::array{static_cast<int32_t>(units_.eos())});
    }
    if (!slice.ids.empty()) {
      if (!open_line_of_.empty()) end_open_line();
      if (std::exchange(awaits_document_, false)) {
        sink_.begin_document();
        ++documents_;
      }
      put(slice.ids);
    }
    words_.add(slice.words);
    lines_before_ += slice.line_ends;
  }

  // The last line of a file is a line of its own even if it has no line end and another file follows. Bytes and tokens
  // are those of the files alone, so that they get no line end.
  void end_open_line() {
    if (units_.has_lines()) {
      put(std::array{static_cast<int32_t>(units_.eos())});
    } else if (joined_.empty() && options_.documents != Documents::kFile) {
      joined_ =
          cat(options_.option, ": the last line of ", input_name(open_line_of_), " has no line end, so the text of ",
              input_name(path_), " continues this line; add a line end to the file if it is to be a line");
    }
    open_line_of_.clear();
  }

  void put(std::span<const int32_t> ids) {
    sink_.add(ids);
    size_ += std::ssize(ids);
    if (unk_) unknown_ += std::ranges::count(ids, static_cast<int32_t>(*unk_));
  }

  // If the files are not compressed, this spares held units the copies of a growing vector.
  void reserve() {
    const auto done = static_cast<double>(counts_.bytes + offset_), all = static_cast<double>(expected_bytes_);
    if (done >= all || has_reserved_) return;
    constexpr double kMargin = 1.05;
    sink_.expect(static_cast<int64_t>(kMargin * static_cast<double>(size_) / done * all));
    has_reserved_ = true;
  }

  const text::Units& units_;
  const TokenTextOptions& options_;
  UnitSink& sink_;
  ThreadExecutor threads_;
  std::vector<text::UnitEncoder> encoders_;  // of the threads
  std::optional<text::TextChanges> changes_;
  std::optional<int64_t> unk_;
  TextCounts counts_;                               // of the files that are read
  int64_t size_ = 0, documents_ = 0, unknown_ = 0;  // units, documents, units that are unknown
  bool awaits_document_ = true;                     // the next unit begins one
  std::string open_line_of_;                        // the file before, if its last line has no line end
  std::string joined_;                              // a warning of the first such line that goes on in the next file
  DocumentFinder finder_;
  uint64_t expected_bytes_ = 0;
  bool has_reserved_ = false;
  // State of the file that is being read.
  std::string path_;
  int64_t offset_ = 0, lines_before_ = 0;  // bytes and line ends that are encoded
  WordCount words_;
  bool begins_file_ = true;
  text::Units::Begin begin_ = text::Units::Begin::kLine;  // of the next slice
};

class HeldUnits : public UnitSink {
 public:
  explicit HeldUnits(TokenText& text) : text_(text) {}
  void begin_document() override { text_.documents.push_back(text_.size()); }
  void add(std::span<const int32_t> ids) override { text_.ids.insert(text_.ids.end(), ids.begin(), ids.end()); }
  void expect(int64_t units) override { text_.ids.reserve(static_cast<size_t>(units)); }

 private:
  TokenText& text_;
};

}  // namespace

std::vector<size_t> DocumentFinder::find(std::string_view text) {
  std::vector<size_t> begins;
  size_t line = 0;  // where it begins
  for (size_t at = 0; at < text.size();) {
    if (line_is_blank_) {
      while (at < text.size() && text[at] != '\n') {
        const size_t size = unseen_size(text.substr(at));
        if (size == 0) break;
        at += size;
      }
      if (at == text.size()) break;
      if (text[at] == '\n') {
        after_blank_ = true;
        line = ++at;
        continue;
      }
      if (after_blank_ && seen_text_) begins.push_back(line);
      seen_text_ = true;
      after_blank_ = line_is_blank_ = false;
    }
    const size_t end = text.find('\n', at);
    if (end == std::string_view::npos) break;
    line_is_blank_ = true;
    line = at = end + 1;
  }
  return begins;
}

EncodedText encode_units(const std::vector<std::string>& paths, const text::Units& units,
                         const TokenTextOptions& options, UnitSink& sink) {
  TokenTextLoader loader(units, options, sink);
  loader.expect(paths);
  for (const std::string& path : paths) loader.load(path);
  return loader.finish(paths);
}

TokenText load_token_text(const std::vector<std::string>& paths, const text::Units& units,
                          const TokenTextOptions& options) {
  TokenText text;
  HeldUnits held(text);
  const EncodedText encoded = encode_units(paths, units, options, held);
  log_report(encoded.report);
  static_cast<TextCounts&>(text) = encoded.counts;
  return text;
}

void TokenText::read(int64_t begin, int64_t end, std::vector<int64_t>& out) const {
  out.insert(out.end(), ids.begin() + begin, ids.begin() + end);
}

std::vector<int64_t> TokenText::documents_in(int64_t begin, int64_t end) const {
  const auto first = std::ranges::lower_bound(documents, begin);
  return {first, std::lower_bound(first, documents.end(), end)};
}

std::string TokenText::fingerprint() const {
  const auto sum_of = [](const auto& values) {
    return checksum({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])});
  };
  return checksum(sum_of(ids) + sum_of(documents));
}

}  // namespace fovea::data
