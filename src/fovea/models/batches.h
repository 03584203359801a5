#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace fovea::models {

using Sentence = std::vector<int64_t>;

struct BatchLimits {
  int64_t max_words = 2048;  // tokens of all sentences, </s> included; a longer sentence is a batch of its own
  int64_t max_sentences = 64;
};

// Lines are read in windows, in which sentences of similar lengths are found. A window ends, whatever its number of
// lines, with the one that fills this number of bytes.
constexpr size_t kWindowBytes = size_t{16} << 20;
inline size_t bytes_of(const std::string& line) { return line.size() + sizeof(std::string); }

// Indices of `sentences` in batches of similar lengths, longest first (so that the largest memory is asked for first);
// equal lengths keep their order. Every index appears once.
std::vector<std::vector<int64_t>> length_batches(std::span<const Sentence> sentences, const BatchLimits& limits);

}  // namespace fovea::models
