#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// The parts of chat templates (chat_syntax.h). Each function throws an Error that begins with `origin`.
namespace fovea::text {

// A part of the template: text, the inside of {{ }} or {% %}.
struct ChatPiece {
  enum class Kind : uint8_t { kText, kPrint, kBlock } kind;
  std::string text;
};

// Splits a template. White space beside blocks goes as with Jinja's trim_blocks and lstrip_blocks.
std::vector<ChatPiece> chat_pieces(std::string_view text, const std::string& origin);

// A word, a number, a text or a sign of an expression.
struct ChatToken {
  enum class Kind : uint8_t { kWord, kNumber, kText, kSign, kEnd } kind = Kind::kEnd;
  std::string text;
};

// The tokens of the inside of a tag, and one of the kind kEnd.
std::vector<ChatToken> chat_tokens(std::string_view text, const std::string& origin);

}  // namespace fovea::text
