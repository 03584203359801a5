#include "fovea/text/language_code.h"

#include <algorithm>

#include "fovea/base/strings.h"

namespace fovea::text {
namespace {

// ISO 639-1, and the codes of three letters that are frequent in catalogues.
constexpr std::string_view kLanguageCodes =
    " aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el "
    "en "
    "eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv "
    "ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne "
    "ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st "
    "su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu ast ckb crh csb "
    "dsb fil fur gsw hsb kab lij mai nds nso sat shn szl wae ";

bool is_of(std::string_view text, char first, char last) {
  return std::ranges::all_of(text, [=](char c) { return c >= first && c <= last; });
}

bool is_script(std::string_view part) {
  return part.size() == 4 && is_of(part.substr(0, 1), 'A', 'Z') && is_of(part.substr(1), 'a', 'z');
}
bool is_region(std::string_view part) {
  return (part.size() == 2 && is_of(part, 'A', 'Z')) || (part.size() == 3 && is_of(part, '0', '9'));
}

// Takes the part behind the next "_" or "-" off the text, if it is of this kind.
template <class IsKind>
bool take_part(std::string_view& text, const IsKind& is_kind) {
  if (!text.starts_with('_') && !text.starts_with('-')) return false;
  const std::string_view part = text.substr(1, text.find_first_of("_-@", 1) - 1);
  if (!is_kind(part)) return false;
  text.remove_prefix(1 + part.size());
  return true;
}

}  // namespace

bool has_place_or_script(std::string_view name) {
  std::string_view rest = name.substr(std::min(name.find_first_of("_-"), name.size()));
  const bool has_script = take_part(rest, is_script);
  return take_part(rest, is_region) || has_script;
}

bool is_language_code(std::string_view name) {
  const size_t end = std::min(name.find_first_of("_-@"), name.size());
  std::string_view rest = name.substr(end);
  take_part(rest, is_script);
  take_part(rest, is_region);
  const bool is_whole = rest.empty() || (rest.size() > 1 && rest.starts_with('@'));
  return is_whole && end >= 2 && kLanguageCodes.find(cat(" ", name.substr(0, end), " ")) != std::string_view::npos;
}

std::vector<std::string> matching_codes(std::span<const std::string> codes, std::string_view name) {
  std::string wanted = lower(name);
  if (wanted.size() > 4 && wanted.starts_with("__") && wanted.ends_with("__"))
    wanted = wanted.substr(2, wanted.size() - 4);
  std::vector<std::string> same, of_language;
  for (const std::string& code : codes) {
    if (code == name) return {code};
    const std::string low = lower(code);
    if (low == wanted) same.push_back(code);
    if (!wanted.empty() && low.starts_with(cat(wanted, "_"))) of_language.push_back(code);
  }
  return same.empty() ? of_language : same;
}

bool is_language_tag(std::string_view name) {
  std::string tag = lower(name);
  const auto capital = [](char& c) { c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; };
  for (size_t at = tag.find_first_of("_-"); at != std::string::npos; at = tag.find_first_of("_-", at + 1)) {
    const size_t size = std::min(tag.find_first_of("_-@", at + 1), tag.size()) - at - 1;
    if (size == 2 || size == 4) capital(tag[at + 1]);
    if (size == 2) capital(tag[at + 2]);
  }
  return is_language_code(tag);
}

}  // namespace fovea::text
