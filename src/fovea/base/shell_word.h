#pragma once
#include <algorithm>
#include <string>
#include <string_view>

namespace fovea {

// The text as one word of a command for a shell, quoted only if it must be: run, 'my run', 'it'\''s'.
inline std::string shell_word(std::string_view text) {
  const auto is_plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("_./-+=:,@%").find(c) != std::string_view::npos ||
           (static_cast<unsigned char>(c) & 0x80U) != 0;
  };
  if (!text.empty() && std::ranges::all_of(text, is_plain)) return std::string(text);
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace fovea
