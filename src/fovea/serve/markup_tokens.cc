#include "fovea/serve/markup_tokens.h"

#include <algorithm>
#include <array>
#include <map>

#include "fovea/base/strings.h"

namespace fovea::serve {
namespace {

using Kind = MarkupToken::Kind;

constexpr auto kVoids = std::to_array<std::string_view>(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"});
constexpr auto kUntranslated = std::to_array<std::string_view>({"script", "style", "template", "textarea"});

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Whether a name of the kind of markup may begin with the character. XML's may begin with letters of any script.
bool begins_name(char c, MarkupKind kind) {
  return is_letter(c) || (kind == MarkupKind::kXml && (c == '_' || c == ':' || static_cast<unsigned char>(c) >= 0x80));
}

// The place behind the '>' of the tag whose first byte behind '<' is at `at`; '>' in quoted attributes do not count.
// npos if the tag has none.
size_t tag_end(std::string_view markup, size_t at) {
  char quote = 0, before = 0;  // `before`: the last byte that is not a blank
  for (size_t i = at; i < markup.size(); ++i) {
    const char c = markup[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if ((c == '"' || c == '\'') && before == '=') {
      quote = c;
    } else if (c == '>') {
      return i + 1;
    }
    if (!is_space(c)) before = c;
  }
  return std::string_view::npos;
}

// The place behind a declaration such as <!DOCTYPE ...> that begins at `at`. Its brackets may hold declarations of
// their own; '>' and brackets in quotes and in comments do not count. npos if it has no end.
size_t declaration_end(std::string_view markup, size_t at) {
  char quote = 0;
  int64_t brackets = 0, tags = 0;
  for (size_t i = at; i < markup.size(); ++i) {
    const char c = markup[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (const std::string_view rest = markup.substr(i); rest.starts_with("<!--") || rest.starts_with("<?")) {
      const std::string_view mark = rest.starts_with("<?") ? "?>" : "-->";
      const size_t end = markup.find(mark, i + 2);
      if (end == std::string_view::npos) return end;
      i = end + mark.size() - 1;
    } else if (c == '[') {
      ++brackets;
    } else if (c == ']') {
      --brackets;
    } else if (c == '<') {
      ++tags;
    } else if (c == '>' && --tags <= 0 && brackets <= 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

// Calls visit(name, value) for each attribute of a tag; both in lower case. A value's quotes are not part of it.
template <class Visit>
void each_attribute(std::string_view text, const Visit& visit) {
  const auto skip_blanks = [&] {
    while (!text.empty() && (is_space(text[0]) || text[0] == '/')) text.remove_prefix(1);
  };
  const auto take = [&](size_t end) {
    const std::string_view taken = text.substr(0, end);
    text.remove_prefix(taken.size());
    return lower(taken);
  };
  for (skip_blanks(); !text.empty(); skip_blanks()) {
    const std::string name = take(text.find_first_of("= \t\r\n\f/", 1));
    std::string value;
    std::string_view rest = text;
    while (!rest.empty() && is_space(rest[0])) rest.remove_prefix(1);
    if (rest.starts_with('=')) {
      text = rest.substr(1);
      while (!text.empty() && is_space(text[0])) text.remove_prefix(1);
      const bool is_quoted = text.starts_with('"') || text.starts_with('\'');
      const char quote = is_quoted ? text[0] : ' ';
      if (is_quoted) text.remove_prefix(1);
      value = take(is_quoted ? text.find(quote) : text.find_first_of(" \t\r\n\f"));
      if (is_quoted && !text.empty()) text.remove_prefix(1);
    }
    visit(name, value);
  }
}

size_t end_behind(std::string_view markup, size_t at, std::string_view mark) {
  const size_t found = markup.find(mark, at);
  return found == std::string_view::npos ? markup.size() : found + mark.size();
}

struct Element {
  std::string_view name;
  size_t parent = 0;
  size_t opening = 0;                  // its tags, as numbers of tokens
  std::optional<size_t> closing = {};  // none: the markup lacks it
  bool has_text = false, has_elements = false;
  bool holds_elements_alone() const { return has_elements && !has_text; }
};

// Blanks within a line stand between words.
bool is_text(std::string_view bytes) { return !trim(bytes).empty() || bytes.find('\n') == std::string_view::npos; }

// The elements in the order of their opening tags, behind one for the document.
std::vector<Element> elements_of(std::span<const MarkupToken> tokens) {
  std::vector<Element> elements(1);
  std::vector<size_t> open = {0};
  std::map<std::string_view, int64_t> open_names;  // how often each is open: many tags may have no partner
  for (size_t i = 0; i < tokens.size(); ++i) {
    const MarkupToken& token = tokens[i];
    Element& around = elements[open.back()];
    if (token.kind == Kind::kText) around.has_text = around.has_text || is_text(token.bytes);
    if (token.kind == Kind::kOpening) {
      around.has_elements = true;
      elements.push_back({.name = token.name, .parent = open.back(), .opening = i});
      open.push_back(elements.size() - 1);
      ++open_names[token.name];
    }
    const auto named = open_names.find(token.name);
    if (token.kind != Kind::kClosing || named == open_names.end() || named->second == 0) continue;
    for (bool is_found = false; !is_found; open.pop_back()) {
      Element& last = elements[open.back()];
      --open_names[last.name];
      is_found = last.name == token.name;
      if (is_found) last.closing = i;
    }
  }
  return elements;
}

}  // namespace

std::optional<MarkupToken> MarkupTokens::next() {
  const size_t begin = at_;
  std::optional<MarkupToken> token = simple_next();
  if (!token || !token->stays || token->kind != Kind::kOpening) return token;
  skip_element(token->name);
  token->kind = Kind::kAlone;
  token->bytes = markup_.substr(begin, at_ - begin);
  return token;
}

std::optional<MarkupToken> MarkupTokens::simple_next() {
  if (at_ == markup_.size()) return std::nullopt;
  if (auto tag = tag_at(at_)) {
    at_ += tag->bytes.size();
    return tag;
  }
  const size_t begin = at_++;
  while (at_ < markup_.size() && (markup_[at_] != '<' || !tag_at(at_))) ++at_;
  return MarkupToken{Kind::kText, markup_.substr(begin, at_ - begin), {}};
}

// Moves behind the closing tag of an element whose opening tag was read.
void MarkupTokens::skip_element(const std::string& name) {
  const bool is_plain_inside = std::ranges::find(kUntranslated, name) != kUntranslated.end();
  while (is_plain_inside && at_ < markup_.size()) {  // "<" in a script begins no tag
    const size_t found = markup_.find("</", at_);
    at_ = found == std::string_view::npos ? markup_.size() : found + 2;
    if (lower(markup_.substr(at_, name.size())) != name) continue;
    at_ = end_behind(markup_, at_, ">");
    return;
  }
  int64_t depth = 1;
  while (depth > 0) {
    const auto token = simple_next();
    if (!token) return;
    if (token->name != name) continue;
    if (token->kind == Kind::kOpening) ++depth;
    if (token->kind == Kind::kClosing) --depth;
  }
}

std::optional<MarkupToken> MarkupTokens::tag_at(size_t at) {
  const std::string_view rest = markup_.substr(at);
  if (rest.size() < 2 || rest[0] != '<') return std::nullopt;
  const auto alone = [&](size_t end) { return MarkupToken{Kind::kAlone, markup_.substr(at, end - at), {}}; };
  if (rest.starts_with("<!--")) return alone(end_behind(markup_, at + 4, "-->"));
  if (rest.starts_with("<![CDATA[")) return alone(end_behind(markup_, at, "]]>"));
  if (rest[1] == '?') return alone(end_behind(markup_, at, kind_ == MarkupKind::kXml ? "?>" : ">"));
  const bool closes = rest[1] == '/', declares = rest[1] == '!';
  const size_t name_at = closes ? 2 : 1;
  if (!declares && (rest.size() <= name_at || !begins_name(rest[name_at], kind_))) return std::nullopt;
  size_t end = std::string_view::npos;
  const bool may_nest = kind_ == MarkupKind::kXml || lower(rest.substr(0, 9)) == "<!doctype";
  if (declares && may_nest && at < no_declaration_end_from_) {
    end = declaration_end(markup_, at);
    if (end == std::string_view::npos) no_declaration_end_from_ = at;
  }
  if (end == std::string_view::npos && at < no_end_from_) end = tag_end(markup_, at + 1);
  if (end == std::string_view::npos) {
    no_end_from_ = std::min(no_end_from_, at);
    return std::nullopt;
  }
  return declares ? alone(end) : tag(at, end, closes);
}

MarkupToken MarkupTokens::tag(size_t at, size_t end, bool closes) const {
  MarkupToken token{closes ? Kind::kClosing : Kind::kOpening, markup_.substr(at, end - at), {}};
  const size_t name_at = closes ? 2 : 1;
  const std::string_view inside = token.bytes.substr(name_at, token.bytes.size() - name_at - 1);
  const std::string_view name = inside.substr(0, inside.find_first_of(" \t\r\n\f/"));
  const bool is_html = kind_ == MarkupKind::kHtml;
  token.name = is_html ? lower(name) : std::string(name);
  const bool is_void = is_html && std::ranges::find(kVoids, token.name) != kVoids.end();
  if (!closes && (is_void || inside.ends_with('/'))) token.kind = Kind::kAlone;
  each_attribute(inside.substr(name.size()), [&](std::string_view attribute, const std::string& value) {
    const auto classes = [&] { return split_words(value); };
    if ((attribute == "translate" || attribute == "its:translate") && value == "no") token.stays = true;
    if (attribute == "class" && std::ranges::count(classes(), "notranslate") > 0) token.stays = true;
  });
  if (is_html && std::ranges::find(kUntranslated, token.name) != kUntranslated.end()) token.stays = true;
  return token;
}

std::vector<bool> outline_of(std::span<const MarkupToken> tokens) {
  const std::vector<Element> elements = elements_of(tokens);
  std::vector<bool> is_block(elements.size()), outline(tokens.size());
  is_block[0] = true;
  for (size_t e = 1; e < elements.size(); ++e) {  // parents come before their children
    const Element& element = elements[e];
    is_block[e] = is_block[element.parent] && elements[element.parent].holds_elements_alone() && element.closing;
    if (!is_block[e]) continue;
    outline[element.opening] = true;
    outline[*element.closing] = true;
  }
  return outline;
}

}  // namespace fovea::serve
