#include "fovea/data/corpus.h"

#include <algorithm>

#include "fovea/base/empty_line.h"
#include "fovea/base/error.h"
#include "fovea/base/executor.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/data/pair_encoders.h"
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
  std::vector<int32_t> source, target;
};

class Loader {
 public:
  Loader(const text::Vocab& source, const text::Vocab& target, const CorpusOptions& options, PairSink& sink)
      : source_(source),
        target_(target),
        options_(options),
        sink_(sink),
        threads_(options.threads),
        encoders_(source, target, threads_.num_threads()),
        changes_(target) {}

  void add(const ParallelText& text) {
    const auto lines = static_cast<int64_t>(text.source.size());
    std::vector<EncodedPair> pairs(text.source.size());
    threads_.run((lines + kPieceLines - 1) / kPieceLines, [&](int64_t piece, int thread) {
      for (int64_t i = piece * kPieceLines; i < std::min(lines, (piece + 1) * kPieceLines); ++i) {
        if (is_empty_line(text.source[i]) || is_empty_line(text.target[i])) continue;
        encoders_.source(thread).encode(text.source[i], pairs[i].source);
        encoders_.target(thread).encode(text.target[i], pairs[i].target);
      }
    });
    for (EncodedPair& pair : pairs) append(pair);
    if (!options_.trains) return;
    for (const std::string& line : text.target) changes_.add(line);
  }

  TextReport finish(const ParallelText& text) const {
    const std::string &source_path = text.source_path, &target_path = text.target_path;
    const int64_t total = pairs_ + skipped_.empty + skipped_.too_long;
    std::string line = cat("[data] ", thousands(pairs_), " sentence pairs from ", source_path, " and ", target_path,
                           " (", thousands(source_tokens_), " and ", thousands(target_tokens_), " tokens)");
    if (unknown_ > 0) line += cat("; ", thousands(unknown_), " of them unknown, which the vocabularies lack");
    if (skipped_.empty > 0) line += cat("; left out ", thousands(skipped_.empty), " with an empty side");
    const std::string limit = cat(" longer than ", options_.max_length, " tokens");
    if (skipped_.too_long > 0) line += cat("; left out ", thousands(skipped_.too_long), limit);
    if (skipped_.cropped > 0) line += cat("; cut ", thousands(skipped_.cropped), limit);
    if (pairs_ == 0)
      throw Error(
          cat("'", source_path, "' and '", target_path, "' have no usable sentence pair: ",
              total == 0 ? "both are empty" : cat("of ", total, " lines, ", skipped_.empty, " have an empty side"),
              skipped_.too_long == 0 ? "" : cat(" and ", skipped_.too_long, limit)));
    TextReport report = {std::move(line)};
    const std::string warning = text::change_warning(changes_, target_, "target lines");
    if (!warning.empty()) report.warnings.push_back(warning);
    return report;
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
    pair.source.push_back(static_cast<int32_t>(source_.eos()));
    pair.target.push_back(static_cast<int32_t>(target_.eos()));
    sink_.add(pair.source, pair.target);
    ++pairs_;
    unknown_ += std::ranges::count(pair.source, static_cast<int32_t>(source_.unk())) +
                std::ranges::count(pair.target, static_cast<int32_t>(target_.unk()));
    source_tokens_ += std::ssize(pair.source);
    target_tokens_ += std::ssize(pair.target);
  }

  const text::Vocab &source_, &target_;
  CorpusOptions options_;
  PairSink& sink_;
  ThreadExecutor threads_;
  PairEncoders encoders_;
  text::TextChanges changes_;  // of the target
  int64_t pairs_ = 0, source_tokens_ = 0, target_tokens_ = 0, unknown_ = 0;
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

void read_in_parts(ParallelText& text, const std::function<void()>& use) {
  ParallelReader reader(text);
  log::Progress progress("reading text, lines", 0);
  int64_t lines = 0;
  for (bool more = true; more;) {
    text.source.clear(), text.target.clear();
    more = reader.read(kChunkLines);
    use();
    lines += std::ssize(text.source);
    progress.at(static_cast<double>(lines));
  }
}

TextReport encode_pairs(const std::string& source_path, const std::string& target_path, const text::Vocab& source,
                        const text::Vocab& target, const CorpusOptions& options, PairSink& sink) {
  Loader loader(source, target, options, sink);
  ParallelText text{source_path, target_path, {}, {}};
  read_in_parts(text, [&] { loader.add(text); });
  return loader.finish(text);
}

ParallelCorpus encode_corpus(const ParallelText& text, const text::Vocab& source, const text::Vocab& target,
                             const CorpusOptions& options) {
  HeldPairs pairs;
  Loader loader(source, target, options, pairs);
  loader.add(text);
  log_report(loader.finish(text));
  return pairs.take();
}

ParallelCorpus load_corpus(const std::string& source_path, const std::string& target_path, const text::Vocab& source,
                           const text::Vocab& target, const CorpusOptions& options) {
  HeldPairs pairs;
  log_report(encode_pairs(source_path, target_path, source, target, options, pairs));
  return pairs.take();
}

void HeldPairs::add(std::span<const int32_t> source, std::span<const int32_t> target) {
  corpus_.source.insert(corpus_.source.end(), source.begin(), source.end());
  corpus_.target.insert(corpus_.target.end(), target.begin(), target.end());
  corpus_.source_offsets.push_back(std::ssize(corpus_.source));
  corpus_.target_offsets.push_back(std::ssize(corpus_.target));
}

void log_report(const TextReport& report) {
  log::info(report.line);
  for (const std::string& warning : report.warnings) log::warn(warning);
}

LengthSource PairLengths::in_turn() const {
  return {size(), [lengths = *this](int64_t first, int64_t stride, std::span<PairLength> out) {
            for (PairLength& length : out) {
              length = {static_cast<uint32_t>(lengths.source_length(first)),
                        static_cast<uint32_t>(lengths.target_length(first))};
              first += stride;
            }
          }};
}

int64_t longest_side(const ParallelCorpus& corpus) {
  int64_t longest = 0;
  for (int64_t i = 0; i < corpus.size(); ++i)
    longest = std::max({longest, corpus.source_length(i), corpus.target_length(i)});
  return longest;
}

std::string fingerprint(const ParallelCorpus& corpus) {
  const auto bytes = [](const auto& values) {
    return std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0]));
  };
  return checksum(checksum(bytes(corpus.source)) + checksum(bytes(corpus.source_offsets)) +
                  checksum(bytes(corpus.target)) + checksum(bytes(corpus.target_offsets)));
}

PackedBatch pack(const ParallelCorpus& corpus, const Batch& batch, int64_t target_eos) {
  PackedBatch packed;
  packed.source_offsets.reserve(batch.size() + 1);
  packed.target_offsets.reserve(batch.size() + 1);
  packed.source_offsets.push_back(0);
  packed.target_offsets.push_back(0);
  for (const int64_t s : batch) {
    packed.source_offsets.push_back(packed.source_offsets.back() + corpus.source_length(s));
    packed.target_offsets.push_back(packed.target_offsets.back() + corpus.target_length(s));
  }
  packed.source.reserve(static_cast<size_t>(packed.source_offsets.back()));
  packed.target_inputs.reserve(static_cast<size_t>(packed.target_offsets.back()));
  packed.target_outputs.reserve(static_cast<size_t>(packed.target_offsets.back()));
  for (const int64_t s : batch) {
    const auto source = corpus.source.begin(), target = corpus.target.begin();
    packed.source.insert(packed.source.end(), source + corpus.source_offsets[s], source + corpus.source_offsets[s + 1]);
    const auto first = target + corpus.target_offsets[s], last = target + corpus.target_offsets[s + 1];
    packed.target_inputs.push_back(target_eos);
    packed.target_inputs.insert(packed.target_inputs.end(), first, last - 1);
    packed.target_outputs.insert(packed.target_outputs.end(), first, last);
  }
  return packed;
}

}  // namespace fovea::data
