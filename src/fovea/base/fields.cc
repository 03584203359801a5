#include "fovea/base/fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea {
namespace {

[[noreturn]] void refuse(std::string_view got, std::string_view expected) {
  throw UsageError(cat("got '", one_line(std::string(got)), "'; expected ", expected));
}

// 10,000,000 rather than 1e+07.
std::string limit(double value) {
  const bool whole = std::abs(value) < 1e16 && value == std::trunc(value);
  return whole ? thousands(static_cast<int64_t>(value)) : shortest(value);
}

std::string limits(const FieldView& field) {
  std::string text;
  if (field.min > -kNoLimit) text += " of at least " + limit(field.min);
  if (field.max < kNoLimit) text += (text.empty() ? " of at most " : " and at most ") + limit(field.max);
  return text;
}

// "10K", "2M" and "1G" as Marian's users write them.
template <class T>
void read_number(const FieldView& field, const std::string& text, T& out, std::string_view kind) {
  std::string_view digits = text;
  double factor = 1;
  if (!digits.empty()) {
    const char unit = digits.back();
    factor = unit == 'K' || unit == 'k' ? 1e3 : unit == 'M' ? 1e6 : unit == 'G' ? 1e9 : 1;
    if (factor > 1) digits.remove_suffix(1);
  }
  T value{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const double scaled = static_cast<double>(value) * factor;
  // If a field sets no limits, the type does: 2^63 is the first double that is too large.
  const bool fits = !std::is_integral_v<T> || factor == 1 || std::abs(scaled) < 0x1p63;
  if (error != std::errc() || end != digits.data() + digits.size() || !fits ||
      !(scaled >= field.min && scaled <= field.max))
    refuse(text, cat(kind, limits(field)));
  out = factor > 1 ? static_cast<T>(scaled) : value;
}

void read(const FieldView& field, const std::string& text, int64_t& out) {
  read_number(field, text, out, "a whole number");
}
void read(const FieldView& field, const std::string& text, double& out) { read_number(field, text, out, "a number"); }

void read(const FieldView& /*field*/, const std::string& text, bool& out) {
  static constexpr std::array<std::string_view, 4> kTrue = {"true", "yes", "on", "1"};
  static constexpr std::array<std::string_view, 4> kFalse = {"false", "no", "off", "0"};
  const std::string word = lower(text);
  out = std::ranges::find(kTrue, word) != kTrue.end();
  if (!out && std::ranges::find(kFalse, word) == kFalse.end()) refuse(text, "true or false");
}

void read(const FieldView& field, const std::string& text, std::string& out) {
  if (!field.choices.empty()) {
    const std::vector<std::string> known = split(field.choices, '|');
    if (std::find(known.begin(), known.end(), text) == known.end())
      refuse(text, "one of " + join(known, ", ") + did_you_mean(text, known));
  }
  out = text;
}

std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(int64_t value) { return std::to_string(value); }
std::string text_of(double value) { return shortest(value); }
std::string text_of(const std::string& value) { return value; }

}  // namespace

void set_value(const FieldView& field, const std::vector<std::string>& values) {
  std::visit(
      [&]<class T>(T* target) {
        if constexpr (std::is_same_v<T, std::string> || std::is_arithmetic_v<T>) {
          if (values.size() != 1) refuse(join(values, " "), "one value");
          read(field, values[0], *target);
        } else {
          if (field.most > 0 && std::ssize(values) > field.most)
            refuse(join(values, " "), cat("at most ", field.most, " values"));
          target->clear();
          for (const std::string& value : values) {
            typename T::value_type item{};
            read(field, value, item);
            target->push_back(item);
          }
        }
      },
      field.value);
}

void assign(const FieldView& field, const std::vector<std::string>& values) {
  try {
    set_value(field, values);
  } catch (const UsageError& error) {
    throw UsageError(cat("--", field.name, ": ", error.what()));
  }
}

std::vector<std::string> values_of(const FieldView& field) {
  std::vector<std::string> out;
  std::visit(
      [&]<class T>(T* target) {
        if constexpr (std::is_same_v<T, std::string> || std::is_arithmetic_v<T>) {
          out.push_back(text_of(*target));
        } else {
          for (const auto& item : *target) out.push_back(text_of(item));
        }
      },
      field.value);
  return out;
}

}  // namespace fovea
