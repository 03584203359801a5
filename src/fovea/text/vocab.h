#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::text {

// A SentencePiece model. </s> is 0, <unk> is 1 in models that `fovea vocab` trains; other models' ids are read from
// them.
class Vocab {
 public:
  // Throws an Error that names the path for what is missing or not a SentencePiece model.
  static Vocab load(const std::string& path);
  static Vocab from_bytes(const std::string& bytes, const std::string& name);
  ~Vocab();
  Vocab(Vocab&&) noexcept;
  Vocab& operator=(Vocab&&) noexcept;

  int64_t size() const;
  int64_t eos() const;
  int64_t unk() const;
  std::vector<int64_t> encode(std::string_view line) const;  // without </s>; invalid UTF-8 becomes U+FFFD
  std::string decode(const std::vector<int64_t>& ids) const;
  std::vector<std::string> pieces(std::string_view line) const;
  std::string piece(int64_t id) const;
  const std::string& bytes() const;  // the serialised model, as the file has it

 private:
  Vocab();
  struct Model;
  std::unique_ptr<Model> model_;
};

inline constexpr double kMinCharacterCoverage = 0.98;  // SentencePiece's

struct VocabTraining {
  std::vector<std::string> inputs;  // text files, may be packed
  std::string output;               // .spm
  int64_t size = 8000;
  std::string type = "unigram";  // or bpe
  double character_coverage = 1.0;
  bool byte_fallback = false;
  int64_t max_sentences = 2'000'000;
  int64_t seed = 1, threads = 1;
};
// Returns the number of pieces. The same input and seed give the same file; for unigram, the same number of threads
// too. Throws if `size` is impossible for the text, saying what is possible.
int64_t train_vocab(const VocabTraining& options);

}  // namespace fovea::text
