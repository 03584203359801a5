#include "fovea/text/vocab_sample.h"

#include <algorithm>
#include <utility>

#include "fovea/base/empty_line.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/rng.h"
#include "fovea/base/signals.h"
#include "fovea/text/sentencepiece_model.h"

namespace fovea::text {
namespace {

constexpr std::string_view kReserved = "\u2585";

// Whether the library's normaliser leaves anything of the line. Where it leaves nothing of all lines, the library ends
// the process. U+2581 is its blank.
bool has_text(std::string line) {
  for (const std::string_view blank : {"\u2581", "\ufffd"})
    for (size_t at = 0; (at = line.find(blank, at)) != std::string::npos;) line.erase(at, blank.size());
  return !is_empty_line(line);
}

// A uniform sample of at most `limit` lines in one pass (reservoir sampling, Vitter 1985, algorithm R). The library's
// own sampler continues its random stream from training to training, which would make a file depend on what came
// before.
class Reservoir {
 public:
  Reservoir(uint64_t seed, int64_t limit) : rng_(seed), limit_(static_cast<uint64_t>(limit)) {}
  void add(std::string&& line) {
    ++seen_;
    if (lines_.size() < limit_) {
      lines_.push_back(std::move(line));
    } else if (const uint64_t slot = rng_.below(static_cast<uint64_t>(seen_)); slot < limit_) {
      lines_[slot] = std::move(line);
    }
  }
  void clear() { *this = Reservoir(0, 0); }
  int64_t seen() const { return seen_; }
  std::vector<std::string> take() { return std::move(lines_); }

 private:
  Rng rng_;
  uint64_t limit_;
  std::vector<std::string> lines_;
  int64_t seen_ = 0;
};

bool is_usable(const std::string& line) { return line.find(kReserved) == std::string::npos && has_text(line); }

// Adds a line that the library would skip, cut at blanks. A part that has none in reach is left out.
void add_parts(std::string_view line, Reservoir& parts) {
  while (!line.empty()) {
    size_t size = line.size() <= kMaxVocabLineBytes ? line.size() : line.rfind(' ', kMaxVocabLineBytes);
    const bool is_cut = size != std::string_view::npos;
    if (!is_cut) size = std::min(line.find(' '), line.size());
    std::string part(line.substr(0, size));
    line.remove_prefix(std::min(size + 1, line.size()));
    if (is_cut && is_usable(part)) parts.add(std::move(part));
  }
}

}  // namespace

LineSample sample_lines(const std::vector<std::string>& paths, int64_t most, uint64_t seed) {
  LineSample sample;
  log::Progress progress("reading text, lines", 0);
  Reservoir lines(seed, most), parts(seed, most);
  for (const std::string& path : paths) {
    LineReader reader(path);
    for (std::string line; reader.next_text(line);) {
      if ((reader.line_number() & 0xfff) == 0) {
        throw_if_interrupted("reading text for the vocabulary");
        progress.at(static_cast<double>(reader.line_number()));
      }
      if (line.size() > kMaxVocabLineBytes) {
        ++sample.too_long;
        if (lines.seen() == 0) add_parts(line, parts);
      } else if (line.find(kReserved) != std::string::npos) {
        ++sample.reserved;
      } else if (has_text(line)) {
        if (parts.seen() > 0) parts.clear();
        lines.add(std::exchange(line, {}));
      }
    }
  }
  sample.is_of_parts = lines.seen() == 0;
  Reservoir& used = sample.is_of_parts ? parts : lines;
  sample.seen = used.seen();
  sample.lines = used.take();
  return sample;
}

}  // namespace fovea::text
