#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::text {

// Splits text into sentences by ICU's rules for the language, less the breaks after its abbreviations, after initials,
// and after ordinal numbers where a full stop marks them.
class SentenceSplitter {
 public:
  explicit SentenceSplitter(const std::string& language);  // "de", "pt-BR"; unknown ones split by the common rules
  ~SentenceSplitter();
  SentenceSplitter(const SentenceSplitter&) = delete;
  SentenceSplitter& operator=(const SentenceSplitter&) = delete;
  // Without white space of any kind at their ends; none for blank text.
  std::vector<std::string> split(std::string_view text);

 private:
  struct Breaker;
  std::unique_ptr<Breaker> breaker_;
};

}  // namespace fovea::text
