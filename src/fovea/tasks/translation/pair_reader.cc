#include "fovea/tasks/translation/pair_reader.h"

#include <algorithm>
#include <utility>

#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"

namespace fovea::translation {

void require_parallel_text(const std::vector<std::string>& files) {
  for (const std::string& path : files) {
    if (path != "-") require_file(path, "--train-sets");
  }
}

std::vector<TextPair> PairReader::next(size_t count) {
  std::vector<TextPair> pairs;
  TextPair pair;
  for (size_t bytes = 0;
       pairs.size() < count && bytes < models::kWindowBytes && lines_.next(pair.source, pair.target);) {
    bytes += models::bytes_of(pair.source) + models::bytes_of(pair.target);
    pair.line = lines_.line_number();
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

PairEncoder::PairEncoder(const LoadedModel& model, int64_t max_length, LanguageMarks marks)
    : model_(model), limit_(line_limit(model.model->config(), max_length)), marks_(std::move(marks)) {}

std::vector<SentencePair> PairEncoder::encode(const std::vector<TextPair>& pairs) {
  std::vector<SentencePair> encoded;
  encoded.reserve(pairs.size());
  for (const TextPair& pair : pairs) {
    const auto encode = [&](const text::Vocab& vocab, Side side, const std::string& line) {
      return encode_line(vocab, marked_line(model_, side, marks_, line), limit_.tokens);
    };
    Encoded source = encode(model_.source, Side::kSource, pair.source);
    Encoded target = encode(model_.target, Side::kTarget, pair.target);
    warn_of_cuts(pair.line, source, target);
    unknown_ += std::ranges::count(source.tokens, model_.source.unk());
    unknown_ += std::ranges::count(target.tokens, model_.target.unk());
    encoded.push_back({std::move(source.tokens), std::move(target.tokens)});
  }
  return encoded;
}

void PairEncoder::report() const {
  warn_of_cut_lines(cut_.count(), limit_);
  if (unknown_ > 0) log::info(unknown_message(unknown_));
}

void PairEncoder::warn_of_cuts(int64_t line, const Encoded& source, const Encoded& target) {
  std::vector<std::string> cuts;
  if (source.cut_from > 0) cuts.push_back(cat("source ", cut_message(source, limit_)));
  if (target.cut_from > 0) cuts.push_back(cat("target ", cut_message(target, limit_)));
  if (!cuts.empty()) cut_.warn(line, join(cuts, "; "));
}

}  // namespace fovea::translation
