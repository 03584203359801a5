#include "fovea/text/vocab_count.h"

#include <algorithm>
#include <unordered_map>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/text/unit_split.h"

namespace fovea::text {
namespace {

class UnitCounter {
 public:
  explicit UnitCounter(VocabType type) : type_(type) {}

  // Shown a text in parts, which end between characters and between words.
  void count(std::string_view text) {
    if (type_ == VocabType::kWord) {
      each_word(text, [this](std::string_view word) {
        if (word != "<unk>") add(word);
      });
      return;
    }
    each_line(text, [this](std::string_view line, bool) {
      each_character_unit(line, [this](std::string_view character) { add(character); });
    });
  }

  // The part of `text` that may be counted before the rest is known.
  size_t cut(std::string_view text) const {
    if (type_ == VocabType::kChar) {
      while (text.ends_with('\r')) text.remove_suffix(1);  // it may be half of a line end
      return text.size() - cut_character(text);
    }
    return text.find_last_of(" \t\n") + 1;  // 0 if there is none
  }

  UnitCounts finish() {
    UnitCounts counts;
    for (auto& [text, count] : counts_) {
      counts.units.push_back({type_ == VocabType::kWord ? cat(kBlankSign, text) : text, count});
      counts.total += count;
    }
    counts_.clear();
    std::ranges::sort(counts.units, [](const CountedPiece& a, const CountedPiece& b) {
      return a.count != b.count ? a.count > b.count : a.text < b.text;
    });
    return counts;
  }

 private:
  void add(std::string_view unit) {
    const auto known = counts_.find(unit);
    if (known != counts_.end()) {
      ++known->second;
    } else {
      counts_.emplace(unit, 1);
    }
  }

  VocabType type_;
  std::unordered_map<std::string, int64_t, TextHash, std::equal_to<>> counts_;
};

void require_text(std::string_view text, const std::string& path, int64_t line_ends_before) {
  const std::optional<BadByte> bad = find_bad_byte(text);
  if (!bad) return;
  const int64_t line = line_ends_before + 1 + std::ranges::count(text.substr(0, bad->at), '\n');
  throw Error(cat(input_name(path), ", line ", thousands(line), ": ", bad->why));
}

void count_file(const std::string& path, UnitCounter& counter, log::Progress& progress) {
  constexpr size_t kBlockBytes = 1 << 20;
  LineReader reader(path);
  std::string text;
  int64_t line_ends = 0;
  double bytes = 0;
  for (bool more = true; more;) {
    throw_if_interrupted("reading text for the vocabulary");
    more = reader.read(text, std::max(kBlockBytes, text.size())) > 0;  // what is not cut yet is looked at again
    const size_t size = more ? counter.cut(text) : text.size();
    const std::string_view part = std::string_view(text).substr(0, size);
    require_text(part, path, line_ends);
    counter.count(part);
    line_ends += std::ranges::count(part, '\n');
    progress.at(bytes += static_cast<double>(size));
    text.erase(0, size);
  }
}

}  // namespace

UnitCounts count_units(const std::vector<std::string>& paths, VocabType type) {
  UnitCounter counter(type);
  log::Progress progress("reading text, bytes", 0);
  for (const std::string& path : paths) count_file(path, counter, progress);
  return counter.finish();
}

}  // namespace fovea::text
