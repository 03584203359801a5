#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

// Costs of readers as their input doubles. An input is one of the kind that makes a careless reader slow: one thing
// again and again.
namespace fovea::growth {

// One reader with one kind of input.
struct Case {
  std::string name;
  size_t bytes;  // of the smallest input; the others are twice, four and eight times as large
  // Makes an input of about that size, and returns the work that is measured: reading it.
  std::function<std::function<void()>(size_t bytes)> prepare;
  std::string refusal = {};  // a part of the message with which every such input is refused; "": it is read
};

std::string repeated(std::string_view text, size_t bytes);

// The unit again and again, each time with another number in place of '#'.
std::string numbered(std::string_view unit, size_t bytes);

// How inputs are made, and a case whose reader takes its input as a text, or as the path of a file that holds it.
using Read = std::function<void(const std::string& text)>;
using Make = std::function<std::string(size_t bytes)>;
Make repeat(std::string unit);
Make number(std::string unit);
Case on_text(std::string name, size_t bytes, Make make, Read read);
Case on_file(std::string name, size_t bytes, Make make, Read read);

std::vector<Case> markup_cases();
std::vector<Case> request_cases();
std::vector<Case> text_cases();
std::vector<Case> vocabulary_cases();
std::vector<Case> corpus_cases();
std::vector<Case> file_cases();
std::vector<Case> metric_cases();

// The cost of a piece of work.
struct Cost {
  double seconds = 0;        // of the processor, in this thread
  size_t bytes = 0;          // that were allocated, freed ones too
  size_t peak = 0;           // that were allocated at once
  std::string refusal = {};  // the message of its Error
};
Cost cost_of(const std::function<void()>& work);

}  // namespace fovea::growth
