#include "fovea/data/corpus.h"

#include <algorithm>

#include "fovea/base/empty_line.h"
#include "fovea/base/error.h"
#include "fovea/base/executor.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/data/parallel_lines.h"
#include "fovea/text/text_changes.h"

namespace fovea::data {
namespace {

// Lines are read and encoded a chunk at a time, so that text and ids of a large corpus are never held together.
constexpr int64_t kChunkLines = 1 << 15, kPieceLines = 256;

struct Skipped {
  int64_t empty = 0, too_long = 0, cropped = 0;
};

struct EncodedPair {
  std::vector<int64_t> source, target;
};

class Loader {
 public:
  Loader(const text::Vocab& source, const text::Vocab& target, const CorpusOptions& options)
      : source_(source), target_(target), options_(options), threads_(options.threads), changes_(target) {
    corpus_.source_offsets = corpus_.target_offsets = {0};
  }

  void add(const ParallelText& text) {
    const auto lines = static_cast<int64_t>(text.source.size());
    std::vector<EncodedPair> pairs(text.source.size());
    threads_.run((lines + kPieceLines - 1) / kPieceLines, [&](int64_t piece, int) {
      for (int64_t i = piece * kPieceLines; i < std::min(lines, (piece + 1) * kPieceLines); ++i) {
        if (is_empty_line(text.source[i]) || is_empty_line(text.target[i])) continue;
        pairs[i] = {source_.encode(text.source[i]), target_.encode(text.target[i])};
      }
    });
    for (EncodedPair& pair : pairs) append(pair);
    if (!options_.trains) return;
    for (const std::string& line : text.target) changes_.add(line);
  }

  ParallelCorpus finish(const ParallelText& text) {
    const std::string &source_path = text.source_path, &target_path = text.target_path;
    const auto total = corpus_.size() + skipped_.empty + skipped_.too_long;
    std::string line = cat("[data] ", thousands(corpus_.size()), " sentence pairs from ", source_path, " and ",
                           target_path, " (", thousands(static_cast<int64_t>(corpus_.source.size())), " and ",
                           thousands(static_cast<int64_t>(corpus_.target.size())), " tokens)");
    if (skipped_.empty > 0) line += cat("; left out ", thousands(skipped_.empty), " with an empty side");
    const std::string limit = cat(" longer than ", options_.max_length, " tokens");
    if (skipped_.too_long > 0) line += cat("; left out ", thousands(skipped_.too_long), limit);
    if (skipped_.cropped > 0) line += cat("; cut ", thousands(skipped_.cropped), limit);
    if (corpus_.size() == 0)
      throw Error(
          cat("'", source_path, "' and '", target_path, "' have no usable sentence pair: ",
              total == 0 ? "both are empty" : cat("of ", total, " lines, ", skipped_.empty, " have an empty side"),
              skipped_.too_long == 0 ? "" : cat(" and ", skipped_.too_long, limit)));
    log::info(line);
    text::warn_of_changes(changes_, target_, "target lines");
    return std::move(corpus_);
  }

 private:
  void append(EncodedPair& pair) {
    if (pair.source.empty() || pair.target.empty()) {
      ++skipped_.empty;
      return;
    }
    const auto limit = static_cast<size_t>(options_.max_length);
    if (limit > 0 && std::max(pair.source.size(), pair.target.size()) > limit) {
      if (!options_.crop) {
        ++skipped_.too_long;
        return;
      }
      ++skipped_.cropped;
      pair.source.resize(std::min(pair.source.size(), limit));
      pair.target.resize(std::min(pair.target.size(), limit));
    }
    append(pair.source, source_.eos(), corpus_.source, corpus_.source_offsets);
    append(pair.target, target_.eos(), corpus_.target, corpus_.target_offsets);
  }

  static void append(const std::vector<int64_t>& ids, int64_t eos, std::vector<int32_t>& out,
                     std::vector<int64_t>& offsets) {
    for (const int64_t id : ids) out.push_back(static_cast<int32_t>(id));
    out.push_back(static_cast<int32_t>(eos));
    offsets.push_back(static_cast<int64_t>(out.size()));
  }

  const text::Vocab &source_, &target_;
  CorpusOptions options_;
  ThreadExecutor threads_;
  text::TextChanges changes_;  // of the target
  ParallelCorpus corpus_;
  Skipped skipped_;
};

class ParallelReader {
 public:
  explicit ParallelReader(ParallelText& text) : text_(text), lines_(text.source_path, text.target_path) {}

  // Up to `most` lines more at the end of the text; false at the end of the files.
  bool read(int64_t most) {
    throw_if_interrupted("reading the corpus");
    std::string source, target;
    for (int64_t i = 0; i < most; ++i) {
      if (!lines_.next(source, target)) return false;
      text_.source.push_back(std::move(source));
      text_.target.push_back(std::move(target));
    }
    return true;
  }

 private:
  ParallelText& text_;
  ParallelLines lines_;
};

}  // namespace

ParallelText read_parallel(const std::string& source_path, const std::string& target_path) {
  ParallelText text{source_path, target_path, {}, {}};
  ParallelReader reader(text);
  while (reader.read(kChunkLines)) continue;
  return text;
}

ParallelCorpus encode_corpus(const ParallelText& text, const text::Vocab& source, const text::Vocab& target,
                             const CorpusOptions& options) {
  Loader loader(source, target, options);
  loader.add(text);
  return loader.finish(text);
}

ParallelCorpus load_corpus(const std::string& source_path, const std::string& target_path, const text::Vocab& source,
                           const text::Vocab& target, const CorpusOptions& options) {
  Loader loader(source, target, options);
  ParallelText text{source_path, target_path, {}, {}};
  ParallelReader reader(text);
  for (bool more = true; more;) {
    text.source.clear(), text.target.clear();
    more = reader.read(kChunkLines);
    loader.add(text);
  }
  return loader.finish(text);
}

std::string fingerprint(const ParallelCorpus& corpus) {
  const auto bytes = [](const auto& values) {
    return std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0]));
  };
  return checksum(checksum(bytes(corpus.source)) + checksum(bytes(corpus.source_offsets)) +
                  checksum(bytes(corpus.target)) + checksum(bytes(corpus.target_offsets)));
}

}  // namespace fovea::data
