#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/serve/markup.h"

namespace fovea::serve {

struct MarkupToken {
  enum class Kind : uint8_t { kText, kOpening, kClosing, kAlone };
  Kind kind;
  std::string_view bytes;
  std::string name;    // of a tag; in lower case if it is HTML
  bool stays = false;  // an opening tag whose element is not translated
};

// Reads markup token by token: text, tags, and comments and elements that are not translated as one token each.
class MarkupTokens {
 public:
  MarkupTokens(std::string_view markup, MarkupKind kind) : markup_(markup), kind_(kind) {}
  std::optional<MarkupToken> next();

 private:
  std::optional<MarkupToken> simple_next();
  std::optional<MarkupToken> tag_at(size_t at);
  MarkupToken tag(size_t at, size_t end, bool closes) const;
  void skip_element(const std::string& name);

  std::string_view markup_;
  MarkupKind kind_;
  size_t at_ = 0;
  size_t no_end_from_ = std::string_view::npos;              // tags that begin here or later have no end
  size_t no_declaration_end_from_ = std::string_view::npos;  // declarations likewise
};

// Returns for each token of XML whether it is a tag that ends a sentence, as block elements of HTML do. XML does not
// name such elements. They are the children of the document, and of such elements, that hold elements alone: without
// text, and with nothing or line ends between the children.
std::vector<bool> outline_of(std::span<const MarkupToken> tokens);

}  // namespace fovea::serve
