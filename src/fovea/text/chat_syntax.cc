#include "fovea/text/chat_syntax.h"

#include <algorithm>
#include <array>
#include <optional>

#include "fovea/base/error.h"
#include "fovea/base/numbers.h"
#include "fovea/base/strings.h"
#include "fovea/text/chat_lexer.h"

namespace fovea::text {
namespace {

using Kind = ChatExpression::Kind;
using NodeKind = ChatNode::Kind;

ChatExpressionPointer made(ChatExpression expression) {
  return std::make_unique<ChatExpression>(std::move(expression));
}
ChatExpressionPointer binary(std::string sign, ChatExpressionPointer left, ChatExpressionPointer right) {
  ChatExpression expression{.kind = Kind::kBinary, .text = std::move(sign)};
  expression.parts.push_back(std::move(left));
  expression.parts.push_back(std::move(right));
  return made(std::move(expression));
}
ChatExpressionPointer with_part(ChatExpression expression, ChatExpressionPointer part) {
  expression.parts.push_back(std::move(part));
  return made(std::move(expression));
}

// Parses the inside of a tag.
class TagParser {
 public:
  TagParser(std::string_view text, const std::string& origin)
      : shown_(one_line(std::string(text.substr(0, 60)))), origin_(origin), tokens_(chat_tokens(text, origin)) {}

  [[noreturn]] void fail() const { throw Error(cat(origin_, ": cannot read '", shown_, "'")); }
  bool is(std::string_view text) const {
    const ChatToken& token = tokens_[at_];
    return (token.kind == ChatToken::Kind::kSign || token.kind == ChatToken::Kind::kWord) && token.text == text;
  }
  bool take(std::string_view text) {
    if (!is(text)) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view text) {
    if (!take(text)) fail();
  }
  std::string word() {
    if (tokens_[at_].kind != ChatToken::Kind::kWord) fail();
    return tokens_[at_++].text;
  }
  bool at_end() const { return tokens_[at_].kind == ChatToken::Kind::kEnd; }
  void expect_end() const {
    if (!at_end()) fail();
  }

  ChatExpressionPointer expression() {
    const Deeper deeper(*this);
    ChatExpressionPointer value = either();
    while (take("if")) {
      ChatExpression choice{.kind = Kind::kChoice};
      choice.parts.push_back(std::move(value));
      choice.parts.push_back(either());
      choice.parts.push_back(take("else") ? expression() : nullptr);
      value = made(std::move(choice));
    }
    return value;
  }
  // Without `if`, which in `for x in y if z` belongs to the loop.
  ChatExpressionPointer either() {
    ChatExpressionPointer value = both();
    while (take("or")) value = binary("or", std::move(value), both());
    return value;
  }

 private:
  struct Deeper {
    explicit Deeper(TagParser& parser) : parser_(parser) {
      if (++parser_.depth_ > 100) parser_.fail();
    }
    ~Deeper() { --parser_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    TagParser& parser_;
  };

  ChatExpressionPointer both() {
    ChatExpressionPointer value = negation();
    while (take("and")) value = binary("and", std::move(value), negation());
    return value;
  }
  ChatExpressionPointer negation() {
    const Deeper deeper(*this);
    return take("not") ? with_part({.kind = Kind::kNot}, negation()) : comparison();
  }
  ChatExpressionPointer comparison() {
    ChatExpressionPointer value = sum();
    bool has_compared = false;
    while (true) {
      std::string sign;
      for (const char* known : {"==", "!=", "<=", ">=", "<", ">", "in"})
        if (sign.empty() && take(known)) sign = known;
      if (sign.empty() && is("not") && tokens_[at_ + 1].text == "in") at_ += 2, sign = "not in";
      if (sign.empty()) return value;
      if (std::exchange(has_compared, true)) fail();  // a < b < c compares pairs
      value = binary(sign, std::move(value), sum());
    }
  }
  ChatExpressionPointer sum() {
    ChatExpressionPointer value = joined();
    while (is("+") || is("-")) {
      const std::string sign = tokens_[at_++].text;
      value = binary(sign, std::move(value), joined());
    }
    return value;
  }
  ChatExpressionPointer joined() {
    ChatExpressionPointer value = product();
    while (take("~")) value = binary("~", std::move(value), product());
    return value;
  }
  ChatExpressionPointer product() {
    ChatExpressionPointer value = unary();
    while (is("*") || is("//") || is("%")) {
      const std::string sign = tokens_[at_++].text;
      value = binary(sign, std::move(value), unary());
    }
    return value;
  }
  // Filters bind less than a sign, as in Jinja: -x|f is (-x)|f.
  ChatExpressionPointer unary() { return filtered(signed_value()); }
  ChatExpressionPointer signed_value() {
    const Deeper deeper(*this);
    return take("-") ? with_part({.kind = Kind::kMinus}, signed_value()) : postfix(primary());
  }

  ChatExpressionPointer primary() {
    const ChatToken token = tokens_[at_];
    if (token.kind == ChatToken::Kind::kText) {
      std::string text;
      while (tokens_[at_].kind == ChatToken::Kind::kText) text += tokens_[at_++].text;
      return made({.kind = Kind::kText, .text = text});
    }
    if (token.kind == ChatToken::Kind::kNumber) {
      const auto number = number_in<int64_t>(token.text, 0, int64_t{1} << 53);
      if (!number) fail();
      ++at_;
      return made({.kind = Kind::kNumber, .number = *number});
    }
    if (take("(")) {
      ChatExpressionPointer inner = expression();
      expect(")");
      return inner;
    }
    if (take("[")) return list();
    if (take("{")) return dictionary();
    const std::string name = word();
    if (name == "true" || name == "True") return made({.kind = Kind::kTruth, .number = 1});
    if (name == "false" || name == "False") return made({.kind = Kind::kTruth});
    if (name == "none" || name == "None") return made({.kind = Kind::kNone});
    return made({.kind = Kind::kName, .text = name});
  }
  ChatExpressionPointer list() {
    ChatExpression value{.kind = Kind::kList};
    while (!take("]")) {
      value.parts.push_back(expression());
      if (!is("]")) expect(",");
    }
    return made(std::move(value));
  }
  ChatExpressionPointer dictionary() {
    ChatExpression value{.kind = Kind::kDict};
    while (!take("}")) {
      value.parts.push_back(expression());
      expect(":");
      value.parts.push_back(expression());
      if (!is("}")) expect(",");
    }
    return made(std::move(value));
  }

  ChatExpressionPointer postfix(ChatExpressionPointer value) {
    while (true) {
      if (take(".")) {
        value = with_part({.kind = Kind::kAttribute, .text = word()}, std::move(value));
      } else if (take("[")) {
        value = item(std::move(value));
      } else if (take("(")) {
        value = with_arguments(*with_part({.kind = Kind::kCall}, std::move(value)));
      } else {
        return value;
      }
    }
  }
  ChatExpressionPointer item(ChatExpressionPointer of) {
    std::vector<ChatExpressionPointer> bounds;
    const auto bound = [&] { return is(":") || is("]") ? nullptr : expression(); };
    bounds.push_back(bound());
    while (bounds.size() < 3 && take(":")) bounds.push_back(bound());
    expect("]");
    ChatExpression value{.kind = bounds.size() == 1 ? Kind::kItem : Kind::kSlice};
    if (bounds.size() == 1 && !bounds.front()) fail();
    if (value.kind == Kind::kSlice) bounds.resize(3);
    value.parts.push_back(std::move(of));
    for (ChatExpressionPointer& one : bounds) value.parts.push_back(std::move(one));
    return made(std::move(value));
  }
  // Behind the bracket that opens them.
  ChatExpressionPointer with_arguments(ChatExpression& value) {
    ChatExpression whole = std::move(value);
    while (!take(")")) {
      if (tokens_[at_].kind == ChatToken::Kind::kWord && tokens_[at_ + 1].text == "=" &&
          tokens_[at_ + 1].kind == ChatToken::Kind::kSign) {
        const std::string name = word();
        expect("=");
        whole.named.emplace_back(name, expression());
      } else {
        whole.parts.push_back(expression());
      }
      if (!is(")")) expect(",");
    }
    return made(std::move(whole));
  }
  ChatExpressionPointer filtered(ChatExpressionPointer value) {
    while (true) {
      if (take("|")) {
        ChatExpressionPointer filter = with_part({.kind = Kind::kFilter, .text = word()}, std::move(value));
        value = take("(") ? with_arguments(*filter) : std::move(filter);
      } else if (take("is")) {
        const bool is_negated = take("not");
        ChatExpressionPointer test = with_part({.kind = Kind::kTest, .text = word()}, std::move(value));
        value = take("(") ? with_arguments(*test) : std::move(test);
        if (is_negated) value = with_part({.kind = Kind::kNot}, std::move(value));
      } else {
        return value;
      }
    }
  }

  std::string shown_;
  const std::string& origin_;
  std::vector<ChatToken> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

// Parses the parts into a tree.
class Parser {
 public:
  Parser(std::vector<ChatPiece> pieces, const std::string& origin) : pieces_(std::move(pieces)), origin_(origin) {}

  std::vector<ChatNode> parse() {
    std::vector<ChatNode> nodes = body();
    if (at_ < pieces_.size()) tag().fail();
    return nodes;
  }

 private:
  TagParser tag() const { return {pieces_[at_].text, origin_}; }
  // The word with which a block begins, or "".
  std::string word_at(size_t place) const {
    if (place >= pieces_.size() || pieces_[place].kind != ChatPiece::Kind::kBlock) return "";
    const std::string_view text = trim(pieces_[place].text);
    return std::string(text.substr(0, std::min(text.size(), text.find_first_of(" \t\r\n("))));
  }

  // Nodes up to a block that does not begin one.
  std::vector<ChatNode> body() {
    if (++depth_ > 100) throw Error(cat(origin_, ": has blocks within blocks, more than 100 deep"));
    std::vector<ChatNode> nodes;
    for (; at_ < pieces_.size();) {
      const ChatPiece& piece = pieces_[at_];
      if (piece.kind == ChatPiece::Kind::kText) {
        nodes.push_back({.kind = NodeKind::kText, .text = piece.text});
        ++at_;
      } else if (piece.kind == ChatPiece::Kind::kPrint) {
        TagParser parser = tag();
        nodes.push_back({.kind = NodeKind::kPrint, .value = parser.expression()});
        parser.expect_end();
        ++at_;
      } else if (std::optional<ChatNode> node = block()) {
        nodes.push_back(std::move(*node));
      } else {
        break;
      }
    }
    --depth_;
    return nodes;
  }

  std::optional<ChatNode> block() {
    const std::string word = word_at(at_);
    if (word == "if") return branch();
    if (word == "for") return loop();
    if (word == "set") return assignment();
    if (word == "break" || word == "continue") {
      ++at_;
      return ChatNode{.kind = word == "break" ? NodeKind::kBreak : NodeKind::kContinue};
    }
    if (word == "generation") {
      ++at_;
      ChatNode node{.kind = NodeKind::kBody, .body = body()};
      expect_block("endgeneration");
      return node;
    }
    constexpr std::array<std::string_view, 6> kInner = {"elif", "else", "endif", "endfor", "endset", "endgeneration"};
    if (std::ranges::find(kInner, word) == kInner.end())
      throw Error(cat(origin_, ": has the block '", one_line(word.substr(0, 40)), "', which is not read"));
    return std::nullopt;
  }

  void expect_block(std::string_view word) {
    if (word_at(at_) != word) throw Error(cat(origin_, ": a block is not closed; expected ", word));
    ++at_;
  }

  // `if` or `elif` at the place, and what follows it.
  ChatNode branch() {
    TagParser parser = tag();
    parser.word();
    ChatNode node{.kind = NodeKind::kIf, .value = parser.expression()};
    parser.expect_end();
    ++at_;
    node.body = body();
    if (word_at(at_) == "elif") {
      if (++depth_ > 100) parser.fail();
      node.otherwise.push_back(branch());
      --depth_;
      return node;
    }
    if (word_at(at_) == "else") ++at_, node.otherwise = body();
    expect_block("endif");
    return node;
  }

  ChatNode loop() {
    TagParser parser = tag();
    parser.word();
    ChatNode node{.kind = NodeKind::kFor};
    do node.names.push_back(parser.word());
    while (parser.take(","));
    parser.expect("in");
    node.value = parser.either();
    if (parser.take("if")) node.condition = parser.expression();
    parser.expect_end();
    ++at_;
    node.body = body();
    if (word_at(at_) == "else") ++at_, node.otherwise = body();
    expect_block("endfor");
    return node;
  }

  ChatNode assignment() {
    TagParser parser = tag();
    parser.word();
    ChatNode node{.kind = NodeKind::kSet};
    node.names.push_back(parser.word());
    if (parser.take(".")) node.attribute = parser.word();
    if (parser.take("=")) {
      node.value = parser.expression();
      parser.expect_end();
      ++at_;
      return node;
    }
    parser.expect_end();
    ++at_;
    node.body = body();
    expect_block("endset");
    return node;
  }

  std::vector<ChatPiece> pieces_;
  const std::string& origin_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::vector<ChatNode> parse_chat_template(std::string_view text, const std::string& origin) {
  return Parser(chat_pieces(text, origin), origin).parse();
}

}  // namespace fovea::text
