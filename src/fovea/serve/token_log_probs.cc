#include "fovea/serve/token_log_probs.h"

#include <array>
#include <cstdio>
#include <utility>

#include "fovea/base/strings.h"
#include "fovea/text/utf8.h"

namespace fovea::serve {
namespace {

std::string shown_token(const std::string& text) {
  if (is_valid_utf8(text)) return text;
  std::string bytes = "bytes:";
  for (const char c : text) {
    std::array<char, 8> digits{};
    (void)std::snprintf(digits.data(), digits.size(), "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    bytes += digits.data();
  }
  return bytes;
}

}  // namespace

// A broken byte is a character of its own, shown as U+FFFD.
bool TokenLogProbs::continues_character(char byte) {
  const std::string longer = open_ + byte;
  const bool is_open = !open_.empty() && text::cut_character(longer) == longer.size();
  const bool is_whole = !open_.empty() && is_valid_utf8(longer);
  const bool begins = !is_open && !is_whole;
  open_ = is_open ? longer : std::string();
  if (begins && text::cut_character({&byte, 1}) == 1) open_ = byte;
  return !begins;
}

void TokenLogProbs::skip(std::span<const int64_t> units) {
  for (const int64_t unit : units) (void)decoder_.push(unit);
}

// The unit's own text, without the blank that a text drops at its beginning.
std::string TokenLogProbs::token_text(int64_t unit) {
  std::string text = units_->surface(unit);
  const std::string decoded = decoder_.push(unit);
  if (!units_->is_partial(unit) && !decoded.ends_with(text)) text.erase(0, 1);
  return text;
}

Json TokenLogProbs::add(std::span<const language::CompletionUnit> units) {
  Json tokens = Json::array(), chosen = Json::array(), top = Json::array(), offsets = Json::array();
  for (const language::CompletionUnit& unit : units) {
    const std::string text = token_text(unit.chosen.unit);
    tokens.push_back(shown_token(text));
    chosen.push_back(unit.chosen.log_prob);
    Json best = Json::object();
    for (const auto& choice : unit.top)
      if (choice.unit != unit.chosen.unit) best[shown_token(units_->surface(choice.unit))] = choice.log_prob;
    best[shown_token(text)] = unit.chosen.log_prob;
    top.push_back(std::move(best));
    int64_t begun = 0;
    bool continues = false;
    for (size_t i = 0; i < text.size(); ++i) {
      const bool is_inside = continues_character(text[i]);
      continues = continues || (i == 0 && is_inside);
      begun += is_inside ? 0 : 1;
    }
    offsets.push_back(characters_ - (continues ? 1 : 0));
    characters_ += begun;
  }
  return {{"tokens", tokens}, {"token_logprobs", chosen}, {"top_logprobs", top}, {"text_offset", offsets}};
}

}  // namespace fovea::serve
