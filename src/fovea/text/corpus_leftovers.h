#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace fovea::text {

// The files of another corpus in a folder that a call of `fovea corpus` does not replace, such as train.de where it
// writes train.en and train.fr.
class CorpusLeftovers {
 public:
  // Looks at the folder before anything is written. The call writes `suffixes`.
  CorpusLeftovers(std::filesystem::path folder, std::vector<std::string> suffixes);

  // Call this once the new files are in place: removes the other side of a corpus one of whose sides was replaced, and
  // says so. Its three parts have as many lines as the replaced ones had, and its suffix is a language or one that
  // `fovea corpus` gives. Warns of other suffixes that all three parts have.
  void remove() const;

 private:
  std::filesystem::path folder_;
  std::vector<std::string> stale_, unknown_;  // suffixes
};

}  // namespace fovea::text
