#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The syntax of chat templates: a part of Jinja, as the library `transformers` reads it.
namespace fovea::text {

struct ChatExpression;
using ChatExpressionPointer = std::unique_ptr<ChatExpression>;

struct ChatExpression {
  enum class Kind : uint8_t {
    kText,    // text
    kNumber,  // number
    kTruth,   // number
    kNone,
    kName,       // text
    kList,       // parts
    kDict,       // parts: key, value, key, value ...
    kAttribute,  // parts[0].text
    kItem,       // parts[0][parts[1]]
    kSlice,      // parts[0][parts[1]:parts[2]:parts[3]]; null: left out
    kCall,       // parts[0](parts[1], ..., named)
    kFilter,     // parts[0] | text(parts[1], ..., named)
    kTest,       // parts[0] is text(parts[1], ...)
    kNot,        // parts[0]
    kMinus,      // parts[0]
    kBinary,     // parts[0] text parts[1]: "and", "or", "==", "in", "not in", "+", "~", ...
    kChoice,     // parts[0] if parts[1] else parts[2], which may be null
  };
  Kind kind;
  std::string text = {};
  int64_t number = 0;
  std::vector<ChatExpressionPointer> parts = {};
  std::vector<std::pair<std::string, ChatExpressionPointer>> named = {};
};

struct ChatNode {
  enum class Kind : uint8_t {
    kText,   // text
    kPrint,  // value
    kIf,     // value, body, otherwise
    kFor,    // names in value, perhaps only where `condition`: body, or otherwise if there was none
    kSet,    // names = value; with an attribute: names[0].attribute = value; without a value: the text of body
    kBreak,
    kContinue,
    kBody,  // body
  };
  Kind kind;
  std::string text = {}, attribute = {};
  std::vector<std::string> names = {};
  ChatExpressionPointer value = {}, condition = {};
  std::vector<ChatNode> body = {}, otherwise = {};
};

// Throws an Error that begins with `origin` for what is not read.
std::vector<ChatNode> parse_chat_template(std::string_view text, const std::string& origin);

}  // namespace fovea::text
