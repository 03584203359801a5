#include "fovea/base/strings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <numeric>

namespace fovea {
namespace {

std::string print(const char* format, int digits, double value) {
  std::array<char, 400> buffer{};
  const int size = std::snprintf(buffer.data(), buffer.size(), format, digits, value);
  return {buffer.data(), static_cast<size_t>(std::clamp(size, 0, static_cast<int>(buffer.size()) - 1))};
}

// Damerau-Levenshtein with neighbouring transpositions only.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, previous(b.size() + 1), row(b.size() + 1);
  std::iota(previous.begin(), previous.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = previous;
    std::swap(previous, row);
  }
  return previous[b.size()];
}

std::string_view without_dashes(std::string_view flag) {
  return flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
}

// Whether `part` is a run of whole words of the name, such as "beam" or "beam-size" of "--valid-beam-size".
bool is_whole_part(std::string_view part, std::string_view name) {
  return cat("-", without_dashes(name), "-").find(cat("-", part, "-")) != std::string::npos;
}

// The shortest known name that `start` begins, else the shortest of which it is a whole part, or nothing.
std::string completion(std::string_view start, std::span<const std::string> known) {
  constexpr size_t kTellsEnough = 3;  // letters
  if (start.size() < kTellsEnough) return "";
  std::string begun, containing;
  const auto keep_shorter = [](std::string& best, const std::string& name) {
    if (best.empty() || name.size() < best.size()) best = name;
  };
  for (const std::string& name : known) {
    const std::string candidate = lower(name);
    if (without_dashes(candidate).starts_with(start))
      keep_shorter(begun, name);
    else if (is_whole_part(start, candidate))
      keep_shorter(containing, name);
  }
  return begun.empty() ? containing : begun;
}

unsigned byte_at(std::string_view text, size_t at) { return static_cast<unsigned char>(text[at]); }

// Ranges from the Unicode standard's table of well-formed byte sequences (3-7): no overlong forms, no surrogates.
struct ByteRange {
  unsigned least, most;
};
ByteRange second_byte(unsigned lead) {
  return {lead == 0xe0 ? 0xa0U : lead == 0xf0 ? 0x90U : 0x80U, lead == 0xed ? 0x9fU : lead == 0xf4 ? 0x8fU : 0xbfU};
}
size_t size_by_lead(unsigned lead) {
  return lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
}

}  // namespace

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string fixed(double value, int digits) { return print("%.*f", digits, value); }
std::string scientific(double value, int digits) { return print("%.*e", digits, value); }

std::string shortest(double value) {
  std::array<char, 64> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), result.ptr};
}

std::string thousands(int64_t value) {
  std::string digits = std::to_string(value);
  const size_t first = value < 0 ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, ",");
  return digits;
}

CharacterStart first_character(std::string_view text) {
  using Kind = CharacterStart::Kind;
  const unsigned lead = byte_at(text, 0);
  const size_t size = size_by_lead(lead);
  if (size == 0) return {Kind::kInvalid, 1};
  for (size_t i = 1; i < size; ++i) {
    if (i == text.size()) return {Kind::kCut, i};
    const ByteRange range = i == 1 ? second_byte(lead) : ByteRange{0x80, 0xbf};
    if (byte_at(text, i) < range.least || byte_at(text, i) > range.most) return {Kind::kInvalid, 1};
  }
  return {Kind::kWhole, size};
}

bool is_valid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (byte_at(text, at) < 0x80) {  // most text: without a call per character
      ++at;
      continue;
    }
    const CharacterStart start = first_character(text.substr(at));
    if (start.kind != CharacterStart::Kind::kWhole) return false;
    at += start.size;
  }
  return true;
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string out;
  for (const std::string& part : parts) {
    if (&part != parts.data()) out += separator;
    out += part;
  }
  return out;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> out;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    out.emplace_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return out;
    begin = end + 1;
  }
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    while (at < text.size() && is_space(text[at])) ++at;
    const size_t begin = at;
    while (at < text.size() && !is_space(text[at])) ++at;
    if (at > begin) out.emplace_back(text.substr(begin, at - begin));
  }
  return out;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return out;
}

std::string nearest(std::string_view name, std::span<const std::string> known) {
  constexpr size_t kLongest = 100;  // a longer text is a mistake of another kind
  if (name.size() > kLongest) return {};
  const std::string wanted = lower(name);
  std::string best = completion(without_dashes(wanted), known);
  if (!best.empty()) return best;
  size_t best_distance = std::max<size_t>(1, name.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const size_t distance = edit_distance(wanted, lower(candidate));
    if (distance < best_distance) best = candidate, best_distance = distance;
  }
  return best;
}

std::string did_you_mean(std::string_view name, std::span<const std::string> known) {
  const std::string near = nearest(name, known);
  return near.empty() ? "" : "; did you mean '" + near + "'?";
}

}  // namespace fovea
