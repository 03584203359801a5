#pragma once
#include <charconv>
#include <cmath>
#include <concepts>
#include <optional>
#include <string_view>
#include <system_error>

namespace fovea {

// The number that all of `text` is, in decimal digits and whatever the locale. Nothing for anything else: a sign "+",
// blanks, hexadecimal digits, a number that T cannot hold, infinities and NaN.
template <class T>
std::optional<T> number_in(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if constexpr (std::floating_point<T>) {
    if (!std::isfinite(value)) return std::nullopt;
  }
  return value;
}

// Like number_in() above, but returns nothing for a number outside of [low, high].
template <class T>
std::optional<T> number_in(std::string_view text, T low, T high) {
  const std::optional<T> value = number_in<T>(text);
  return value && *value >= low && *value <= high ? value : std::nullopt;
}

}  // namespace fovea
