#include "fovea/serve/openai_log_probs.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "fovea/base/strings.h"

namespace fovea::serve {
namespace {

std::string shown(const std::string& text) {
  if (is_valid_utf8(text)) return text;
  std::string bytes = "bytes:";
  for (const char c : text) {
    std::array<char, 8> digits{};
    (void)std::snprintf(digits.data(), digits.size(), "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    bytes += digits.data();
  }
  return bytes;
}

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

}  // namespace

void TokenLogProbs::skip(std::span<const int64_t> units) {
  for (const int64_t unit : units) (void)decoder_.push(unit);
}

// The unit's own text, without the blank that a text drops at its beginning.
std::string TokenLogProbs::token_text(int64_t unit) {
  std::string text = engine_->text_of(unit);
  const std::string decoded = decoder_.push(unit);
  if (!engine_->model().units.is_partial(unit) && !decoded.ends_with(text)) text.erase(0, 1);
  return text;
}

Json TokenLogProbs::add(std::span<const language::CompletionUnit> units) {
  Json tokens = Json::array(), chosen = Json::array(), top = Json::array(), offsets = Json::array();
  for (const language::CompletionUnit& unit : units) {
    const std::string text = token_text(unit.chosen.unit);
    tokens.push_back(shown(text));
    chosen.push_back(unit.chosen.log_prob);
    Json best = Json::object();
    for (const auto& choice : unit.top) best[shown(engine_->text_of(choice.unit))] = choice.log_prob;
    if (!unit.top.empty()) best[shown(engine_->text_of(unit.chosen.unit))] = unit.chosen.log_prob;
    top.push_back(std::move(best));
    const bool continues = !text.empty() && continues_character(text.front());
    offsets.push_back(std::max<int64_t>(0, characters_ - (continues ? 1 : 0)));
    characters_ += std::ranges::count_if(text, [](char c) { return !continues_character(c); });
  }
  return {{"tokens", tokens}, {"token_logprobs", chosen}, {"top_logprobs", top}, {"text_offset", offsets}};
}

void append_log_probs(Json& all, Json next) {
  if (all.is_null()) {
    all = std::move(next);
    return;
  }
  for (auto& [name, list] : next.items()) all[name].insert(all[name].end(), list.begin(), list.end());
}

}  // namespace fovea::serve
