#include "fovea/tasks/translation/encoded_line.h"

#include <utility>

#include "fovea/base/empty_line.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"

namespace fovea::translation {

Encoded encode_line(const text::Vocab& vocab, const std::string& line, int64_t max_length) {
  return with_limit(is_empty_line(line) ? Sentence() : vocab.encode(line), vocab.eos(), max_length);
}

Encoded with_limit(Sentence tokens, int64_t eos, int64_t max_length) {
  Encoded encoded{std::move(tokens), 0};
  const auto length = static_cast<int64_t>(encoded.tokens.size());
  if (length > max_length) {
    encoded.cut_from = length;
    encoded.tokens.resize(static_cast<size_t>(max_length));
  }
  encoded.tokens.push_back(eos);
  encoded.tokens.shrink_to_fit();  // thousands of lines wait together, which may have been far longer
  return encoded;
}

LineLimit line_limit(const ModelConfig& model, int64_t max_length) {
  const int64_t longest = longest_text(model, max_length);
  return {longest, longest < max_length ? "the model's learned positions" : "--max-length"};
}

std::string cut_message(const Encoded& encoded, const LineLimit& limit) {
  return cat("has ", thousands(encoded.cut_from), " tokens; cut to ", thousands(limit.tokens), " (", limit.set_by, ")");
}

void warn_of_cut_lines(int64_t count, const LineLimit& limit) {
  if (count == 0) return;
  const char* were = count == 1 ? " was" : " were";
  log::warn(cat(count_lines(count), were, " longer than ", limit.set_by, " and", were, " cut"));
}

std::string unknown_message(int64_t tokens) {
  return cat(thousands(tokens), tokens == 1 ? " token is" : " tokens are", " text that the vocabulary lacks");
}

std::string count_lines(int64_t count) { return cat(thousands(count), count == 1 ? " line" : " lines"); }

void LineWarnings::warn(int64_t line, std::string_view what) {
  constexpr int64_t kShown = 5;
  if (++count_ > kShown) return;
  log::warn(cat("line ", thousands(line), " ", what, count_ == kShown ? "; further ones are counted only" : ""));
}

}  // namespace fovea::translation
