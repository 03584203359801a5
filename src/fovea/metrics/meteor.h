#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/base/child_process.h"

namespace fovea::metrics {

// METEOR 1.5 (Denkowski and Lavie 2014) of English, computed by its own program: `java -jar JAR`, with the options of
// COCO's evaluation of captions.
class Meteor {
 public:
  // Throws an Error if there is no Java.
  explicit Meteor(const std::string& jar);
  // The statistics of a segment, as the program prints them. Throws an Error if the program ends.
  std::string segment(std::string_view hypothesis, std::span<const std::string> references);
  // The score of these segments together, from 0 to 100. Throws an Error as above.
  double score(std::span<const std::string* const> segments);

 private:
  std::string answer();
  double number();  // an answer that is a number

  std::string jar_;
  ChildProcess process_;
};

}  // namespace fovea::metrics
