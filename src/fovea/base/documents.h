#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Text of one sentence per line in which lines of their own begin documents. A text without such lines is one document.
namespace fovea {

// The line that begins a document. A line without visible text (base/empty_line.h) does so too.
inline constexpr std::string_view kDocumentLine = "<d>";

// Returns whether a line begins a document. Such a line is not a sentence.
bool begins_document(std::string_view line);

// A line and where it stands, for messages.
struct PlacedLine {
  std::string_view file, text;
};
// Throws an Error if only one of two lines, both number `line` from 1, begins a document.
void require_same_boundary(long long line, const PlacedLine& a, const PlacedLine& b);

// Returns the text of each document, its sentences joined by blanks. `marks` are the lines of a text of the same length
// that begins its documents at the same places; documents without sentences are left out.
std::vector<std::string> join_documents(std::span<const std::string> lines, std::span<const std::string> marks);

}  // namespace fovea
