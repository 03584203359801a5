#include "fovea/text/chat_lexer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::text {
namespace {

// Splits a template into its parts. White space beside blocks goes as with trim_blocks and lstrip_blocks.
class Pieces {
 public:
  Pieces(std::string_view text, const std::string& origin) : origin_(origin) {
    for (size_t i = 0; i < text.size(); ++i)
      if (text[i] != '\r' || text.substr(i + 1, 1) != "\n") text_ += text[i];
    if (text_.ends_with('\n')) text_.pop_back();
  }

  std::vector<ChatPiece> take() {
    while (at_ < text_.size()) {
      const size_t tag = next_tag();
      add_text(tag);
      at_ = tag;
      if (tag < text_.size()) add_tag(tag);
    }
    return std::move(pieces_);
  }

 private:
  size_t next_tag() const {
    for (size_t tag = text_.find('{', at_); tag + 1 < text_.size() && tag != std::string::npos;
         tag = text_.find('{', tag + 1)) {
      const char next = text_[tag + 1];
      if (next == '{' || next == '%' || next == '#') return tag;
    }
    return text_.size();
  }

  void add_text(size_t tag) {
    std::string own = text_.substr(at_, tag - at_);
    const char kind = tag + 1 < text_.size() ? text_[tag + 1] : ' ',
               sign = tag + 2 < text_.size() ? text_[tag + 2] : ' ';
    if (kind != ' ' && sign == '-') {
      while (!own.empty() && is_blank(own.back())) own.pop_back();
    } else if ((kind == '%' || kind == '#') && sign != '+') {
      const size_t line = own.rfind('\n') == std::string::npos ? 0 : own.rfind('\n') + 1;
      const bool begins_line = line > 0 || begins_line_;
      if (begins_line && std::all_of(own.begin() + static_cast<std::ptrdiff_t>(line), own.end(), is_blank))
        own.resize(line);
    }
    if (!own.empty()) pieces_.push_back({ChatPiece::Kind::kText, std::move(own)});
  }

  static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

  // The place of the tag's end.
  size_t end_of(size_t begin, std::string_view end) const {
    int64_t depth = 0;
    char quote = 0;
    for (size_t i = begin; i < text_.size(); ++i) {
      const char c = text_[i];
      if (quote != 0) {
        if (c == '\\') ++i;
        if (c == quote) quote = 0;
        continue;
      }
      if (depth == 0 && std::string_view(text_).substr(i).starts_with(end)) return i;
      if (c == '\'' || c == '"') quote = c;
      if (c == '{' || c == '[' || c == '(') ++depth;
      if ((c == '}' || c == ']' || c == ')') && depth > 0) --depth;
    }
    throw Error(cat(origin_, ": a tag is not closed; expected ", end));
  }

  void add_tag(size_t tag) {
    const char kind = text_[tag + 1];
    const std::string_view close = kind == '{' ? "}}" : kind == '%' ? "%}" : "#}";
    const size_t found = kind == '#' ? text_.find(close, tag + 2) : end_of(tag + 2, close);
    if (found == std::string::npos) throw Error(cat(origin_, ": a comment is not closed; expected ", close));
    size_t begin = tag + 2, end = found;
    if (begin < end && (text_[begin] == '-' || (text_[begin] == '+' && kind != '{'))) ++begin;
    const char sign = end > begin ? text_[end - 1] : ' ';
    if (sign == '-' || (sign == '+' && kind != '{')) --end;
    at_ = found + close.size();
    if (sign == '-') {
      while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
    } else if (sign != '+' && kind != '{' && at_ < text_.size() && text_[at_] == '\n') {
      ++at_;
    }
    begins_line_ = text_[at_ - 1] == '\n';
    if (kind != '#')
      pieces_.push_back(
          {kind == '{' ? ChatPiece::Kind::kPrint : ChatPiece::Kind::kBlock, text_.substr(begin, end - begin)});
  }

  const std::string& origin_;
  std::string text_;
  size_t at_ = 0;
  bool begins_line_ = true;
  std::vector<ChatPiece> pieces_;
};

bool is_word_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

std::string unescaped(std::string_view text, const std::string& origin) {
  constexpr std::string_view kNames = "nrtbf\\'\"", kValues = "\n\r\t\b\f\\'\"";
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      result += text[i];
      continue;
    }
    const size_t place = ++i < text.size() ? kNames.find(text[i]) : std::string_view::npos;
    if (place == std::string_view::npos) throw Error(cat(origin, ": has an escape that is not read in '", text, "'"));
    result += kValues[place];
  }
  return result;
}

}  // namespace

std::vector<ChatPiece> chat_pieces(std::string_view text, const std::string& origin) {
  return Pieces(text, origin).take();
}

std::vector<ChatToken> chat_tokens(std::string_view text, const std::string& origin) {
  constexpr std::array<std::string_view, 5> kPairs = {"==", "!=", "<=", ">=", "//"};
  std::vector<ChatToken> tokens;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    size_t end = at + 1;
    if (c == ' ' || (c >= '\t' && c <= '\r')) {
      // Between tokens.
    } else if (c == '\'' || c == '"') {
      while (end < text.size() && text[end] != c) end += text[end] == '\\' ? 2 : 1;
      if (end >= text.size()) throw Error(cat(origin, ": a text is not closed in '", one_line(std::string(text)), "'"));
      tokens.push_back({ChatToken::Kind::kText, unescaped(text.substr(at + 1, end - at - 1), origin)});
      ++end;
    } else if (is_word_byte(c)) {
      while (end < text.size() && is_word_byte(text[end])) ++end;
      const bool is_number = c >= '0' && c <= '9';
      tokens.push_back(
          {is_number ? ChatToken::Kind::kNumber : ChatToken::Kind::kWord, std::string(text.substr(at, end - at))});
    } else {
      if (std::ranges::find(kPairs, text.substr(at, 2)) != kPairs.end()) end = at + 2;
      tokens.push_back({ChatToken::Kind::kSign, std::string(text.substr(at, end - at))});
    }
    at = end;
  }
  // A tree of them is walked with a stack.
  constexpr size_t kMost = 4000;
  if (tokens.size() > kMost)
    throw Error(cat(origin, ": has a tag of ", tokens.size(), " words; expected at most ", kMost));
  tokens.emplace_back();
  return tokens;
}

}  // namespace fovea::text
