#include "fovea/data/token_text.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "fovea/base/error.h"
#include "fovea/base/executor.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/data/document_finder.h"
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
  TokenTextLoader(const text::Units& units, const TokenTextOptions& options)
      : units_(units), options_(options), threads_(options.threads) {
    if (options.trains && units.has_lines()) changes_.emplace(*units.vocab());
  }

  void load(const std::string& path) {
    if (path != "-") require_file(path, options_.option);
    path_ = path;
    offset_ = lines_before_ = 0;
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
    result_.words += words_.words;
    result_.bytes += offset_;
    result_.lines += lines_before_ + (last == '\n' ? 0 : 1);
  }

  // Tells how much text will come, as far as the sizes of the files say it.
  void expect(const std::vector<std::string>& paths) {
    std::error_code ignored;
    for (const std::string& path : paths)
      if (std::filesystem::is_regular_file(path, ignored)) expected_bytes_ += std::filesystem::file_size(path, ignored);
  }

  TokenText finish(const std::vector<std::string>& paths) {
    if (result_.ids.empty())
      throw Error(cat(options_.option, ": no text in ", names_of_texts(paths), "; expected a file that is not empty"));
    std::vector<int64_t>& documents = result_.documents;
    if (documents.back() == result_.size()) documents.pop_back();  // it has no unit
    std::string line = cat("[data] ", thousands(result_.size()), " ", units_.unit_name(), "s from ",
                           names_of_texts(paths), " (", thousands(result_.bytes), " bytes, ", thousands(result_.lines),
                           " lines, ", thousands(result_.words), " words");
    if (options_.documents != Documents::kNo) line += cat(", ", thousands(std::ssize(documents)), " documents");
    line += ")";
    if (const std::optional<int64_t> unk = units_.unk())
      if (const auto unknown = std::ranges::count(result_.ids, static_cast<int32_t>(*unk)); unknown > 0)
        line += cat("; ", thousands(unknown), " of them unknown");
    log::info(line);
    if (changes_) text::warn_of_changes(*changes_, *units_.vocab(), "lines");
    return std::move(result_);
  }

 private:
  void add(std::string_view text) {
    std::vector<Slice> slices = slices_of(text);
    if (!units_.is_bytes()) require_text(slices);
    threads_.run(std::ssize(slices), [&](int64_t i, int) {
      Slice& slice = slices[static_cast<size_t>(i)];
      units_.encode(slice.text, slice.ids, slice.begin);
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

  void append(const Slice& slice) {
    if (result_.documents.empty()) {
      result_.documents.push_back(0);
    } else if (slice.begins_document && result_.documents.back() < result_.size()) {
      if (!units_.has_lines()) result_.ids.push_back(static_cast<int32_t>(units_.eos()));
      result_.documents.push_back(result_.size());
    }
    result_.ids.insert(result_.ids.end(), slice.ids.begin(), slice.ids.end());
    words_.add(slice.words);
    lines_before_ += slice.line_ends;
  }

  // If the files are not compressed, this spares the ids the copies of a growing vector.
  void reserve() {
    const auto done = static_cast<double>(result_.bytes + offset_), all = static_cast<double>(expected_bytes_);
    if (done >= all || has_reserved_) return;
    constexpr double kMargin = 1.05;
    result_.ids.reserve(static_cast<size_t>(kMargin * static_cast<double>(result_.size()) / done * all));
    has_reserved_ = true;
  }

  const text::Units& units_;
  const TokenTextOptions& options_;
  ThreadExecutor threads_;
  std::optional<text::TextChanges> changes_;
  TokenText result_;
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

}  // namespace

TokenText load_token_text(const std::vector<std::string>& paths, const text::Units& units,
                          const TokenTextOptions& options) {
  TokenTextLoader loader(units, options);
  loader.expect(paths);
  for (const std::string& path : paths) loader.load(path);
  return loader.finish(paths);
}

std::string fingerprint(const TokenText& text) {
  const auto bytes = [](const auto& values) {
    return std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0]));
  };
  return checksum(checksum(bytes(text.ids)) + checksum(bytes(text.documents)));
}

}  // namespace fovea::data
