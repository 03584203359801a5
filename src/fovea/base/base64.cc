#include "fovea/base/base64.h"

#include <algorithm>
#include <cstdint>

namespace fovea {

namespace {

constexpr std::string_view kBase64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) group = group << 8U | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (size_t j = 0; j < 4; ++j) out.push_back(j <= count ? kBase64Digits[group >> (18 - 6 * j) & 63U] : '=');
  }
  return out;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  const size_t filled = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  text.remove_suffix(filled);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  uint32_t group = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t digit = kBase64Digits.find(text[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    group = group << 6U | static_cast<uint32_t>(digit);
    // The second, third and fourth of four digits complete a byte each.
    if (i % 4 != 0) bytes.push_back(static_cast<char>(group >> (6 - 2 * (i % 4)) & 255U));
  }
  const uint32_t left_over = filled == 2 ? 15U : filled == 1 ? 3U : 0U;  // bits behind the last byte
  if ((group & left_over) != 0) return std::nullopt;
  return bytes;
}

}  // namespace fovea
