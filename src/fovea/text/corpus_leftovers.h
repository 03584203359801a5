#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace fovea::text {

// Warns of the files of another corpus in a folder in which `fovea corpus` has written `suffixes`: names such as
// train.de, valid.de and test.de, if it wrote train.en and train.fr.
void warn_of_other_corpus(const std::filesystem::path& folder, const std::vector<std::string>& suffixes);

// Says which of these files exist: `fovea corpus` is about to replace them.
void say_replaced_corpus(const std::vector<std::string>& paths);

}  // namespace fovea::text
