#include "fovea/base/documents.h"

#include "fovea/base/empty_line.h"
#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea {

bool begins_document(std::string_view line) { return is_empty_line(line) || trim(line) == kDocumentLine; }

void require_same_boundary(long long line, const PlacedLine& a, const PlacedLine& b) {
  const bool in_a = begins_document(a.text), in_b = begins_document(b.text);
  if (in_a == in_b) return;
  const PlacedLine &with = in_a ? a : b, &without = in_a ? b : a;
  throw Error(cat("line ", line, ": '", with.file, "' begins a document there (",
                  is_empty_line(with.text) ? "an empty line" : kDocumentLine, "), but '", without.file,
                  "' has a sentence; expected documents to begin at the same lines of both"));
}

std::vector<std::string> join_documents(std::span<const std::string> lines, std::span<const std::string> marks) {
  std::vector<std::string> documents;
  bool begins = true;
  for (size_t i = 0; i < marks.size(); ++i) {
    if (begins_document(marks[i])) {
      begins = true;
      continue;
    }
    if (begins) {
      documents.emplace_back();
    } else {
      documents.back() += ' ';
    }
    documents.back() += lines[i];
    begins = false;
  }
  return documents;
}

}  // namespace fovea
