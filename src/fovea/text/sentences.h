#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::text {

// The bytes [begin, end) of a text.
struct SentencePlace {
  size_t begin = 0, end = 0;
  bool operator==(const SentencePlace&) const = default;
};

// Splits text into sentences by ICU's rules for the language, less the breaks after its abbreviations, after initials,
// and after ordinal numbers where a full stop marks them.
class SentenceSplitter {
 public:
  explicit SentenceSplitter(const std::string& language);  // "de", "pt-BR"; unknown ones split by the common rules
  ~SentenceSplitter();
  SentenceSplitter(const SentenceSplitter&) = delete;
  SentenceSplitter& operator=(const SentenceSplitter&) = delete;
  // The places of the sentences in their order, without white space of any kind at their ends; none for blank text.
  std::vector<SentencePlace> places(std::string_view text);
  // The sentences themselves. Bytes that are not UTF-8 become U+FFFD.
  std::vector<std::string> split(std::string_view text);

 private:
  struct Breaker;
  std::unique_ptr<Breaker> breaker_;
};

}  // namespace fovea::text
