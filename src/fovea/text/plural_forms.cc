#include "fovea/text/plural_forms.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"

namespace fovea::text {
namespace {

struct Operator {
  std::string_view sign;
  int rank;  // operators of a higher one bind first
  uint64_t (*apply)(uint64_t a, uint64_t b);
};
// Longer signs come first: "<=" before "<".
constexpr std::array kOperators = std::to_array<Operator>({
    {"||", 1, [](uint64_t a, uint64_t b) -> uint64_t { return a != 0 || b != 0; }},
    {"&&", 2, [](uint64_t a, uint64_t b) -> uint64_t { return a != 0 && b != 0; }},
    {"==", 3, [](uint64_t a, uint64_t b) -> uint64_t { return a == b; }},
    {"!=", 3, [](uint64_t a, uint64_t b) -> uint64_t { return a != b; }},
    {"<=", 4, [](uint64_t a, uint64_t b) -> uint64_t { return a <= b; }},
    {">=", 4, [](uint64_t a, uint64_t b) -> uint64_t { return a >= b; }},
    {"<", 4, [](uint64_t a, uint64_t b) -> uint64_t { return a < b; }},
    {">", 4, [](uint64_t a, uint64_t b) -> uint64_t { return a > b; }},
    {"+", 5, [](uint64_t a, uint64_t b) { return a + b; }},
    {"-", 5, [](uint64_t a, uint64_t b) { return a - b; }},
    {"*", 6, [](uint64_t a, uint64_t b) { return a * b; }},
    {"/", 6, [](uint64_t a, uint64_t b) { return b == 0 ? 0 : a / b; }},
    {"%", 6, [](uint64_t a, uint64_t b) { return b == 0 ? 0 : a % b; }},
});

// Computes an expression for one n. Both sides of every operator are computed: nothing has an effect.
class Expression {
 public:
  Expression(std::string_view text, uint64_t n) : rest_(text), n_(n) {}

  std::optional<uint64_t> value() {
    const uint64_t result = choice();
    skip_blanks();
    if (is_broken_ || !rest_.empty()) return std::nullopt;
    return result;
  }

 private:
  static constexpr int kDeepest = 100;

  void skip_blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size())); }
  bool take(std::string_view sign) {
    skip_blanks();
    if (!rest_.starts_with(sign)) return false;
    rest_.remove_prefix(sign.size());
    return true;
  }

  uint64_t choice() {
    if (++depth_ > kDeepest) is_broken_ = true;
    if (is_broken_) return 0;
    uint64_t result = binary(1);
    if (take("?")) {
      const uint64_t yes = choice();
      is_broken_ = is_broken_ || !take(":");
      const uint64_t no = choice();
      result = result != 0 ? yes : no;
    }
    --depth_;
    return result;
  }

  uint64_t binary(int rank) {
    uint64_t result = operand();
    for (;;) {
      skip_blanks();
      const auto* const found =
          std::ranges::find_if(kOperators, [&](const Operator& o) { return rest_.starts_with(o.sign); });
      if (is_broken_ || found == kOperators.end() || found->rank < rank) return result;
      rest_.remove_prefix(found->sign.size());
      result = found->apply(result, binary(found->rank + 1));
    }
  }

  uint64_t operand() {
    bool denies = false, is_denied = false;
    for (; take("!"); is_denied = true) denies = !denies;
    const uint64_t result = primary();
    if (!is_denied) return result;
    return (result == 0) == denies ? 1 : 0;
  }

  uint64_t primary() {
    if (take("n")) return n_;
    if (take("(")) {
      const uint64_t result = choice();
      is_broken_ = is_broken_ || !take(")");
      return result;
    }
    const std::string_view digits = rest_.substr(0, std::min(rest_.find_first_not_of("0123456789"), rest_.size()));
    rest_.remove_prefix(digits.size());
    uint64_t number = 0;
    is_broken_ = is_broken_ || digits.empty() || digits.size() > 12;
    for (const char digit : digits) number = number * 10 + static_cast<uint64_t>(digit - '0');
    return number;
  }

  std::string_view rest_;
  uint64_t n_;
  int depth_ = 0;
  bool is_broken_ = false;
};

// The value of "name=" in "a=x; b=y;".
std::string_view value_of(std::string_view field, std::string_view name) {
  for (std::string_view rest = field; !rest.empty();) {
    const size_t end = std::min(rest.find(';'), rest.size());
    const std::string_view part = trim(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!part.starts_with(name)) continue;
    const std::string_view behind = trim(part.substr(name.size()));
    if (behind.starts_with('=')) return trim(behind.substr(1));
  }
  return {};
}

}  // namespace

std::optional<PluralForms> parse_plural_forms(std::string_view field) {
  constexpr uint64_t kNumbers = 1000;
  constexpr size_t kLongest = 2000, kMostForms = 20;
  const std::string_view rule = value_of(field, "plural");
  if (rule.empty() || rule.size() > kLongest) return std::nullopt;
  std::vector<int64_t> counts(kMostForms, 0);
  const std::optional<uint64_t> one = Expression(rule, 1).value();
  if (!one || *one >= kMostForms) return std::nullopt;
  for (uint64_t n = 0; n < kNumbers; ++n) {
    const std::optional<uint64_t> form = Expression(rule, n).value();
    if (!form || *form >= kMostForms) return std::nullopt;
    if (*form != *one) ++counts[*form];
  }
  const auto most = std::ranges::max_element(counts);
  const size_t many = *most > 0 ? static_cast<size_t>(most - counts.begin()) : *one;
  return PluralForms{.one = static_cast<size_t>(*one), .many = many};
}

std::string header_field(const std::string& header, std::string_view name) {
  for (const std::string& line : split(header, '\n'))
    if (line.starts_with(name)) return std::string(trim(std::string_view(line).substr(name.size())));
  return {};
}

std::optional<PluralForms> plural_forms_of(const std::string& header, const std::string& path) {
  const std::string field = header_field(header, "Plural-Forms:");
  const std::optional<PluralForms> forms = parse_plural_forms(field);
  if (!forms && !field.empty())
    log::warn(cat("'", path, "': cannot read its Plural-Forms '", one_line(field.substr(0, 80)),
                  "'; its plurals are read as if it had none: the first form is for 1, the last for other numbers"));
  return forms;
}

PluralForms used_forms(const std::optional<PluralForms>& forms, size_t count) {
  return forms && count > 1 ? *forms : PluralForms{.one = 0, .many = count - 1};
}

}  // namespace fovea::text
