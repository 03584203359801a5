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

}  // namespace

bool has_country(std::string_view name) {
  const std::string_view country = name.substr(std::min(name.find_first_of("_-"), name.size()));
  return country.size() == 3 && std::ranges::all_of(country.substr(1), [](char c) { return c >= 'A' && c <= 'Z'; });
}

bool is_language_code(std::string_view name) {
  const size_t end = std::min(name.find_first_of("_-@"), name.size());
  const bool has_variant = end + 1 < name.size() && name[end] == '@';
  if (end < name.size() && !has_variant && !has_country(name)) return false;
  return end >= 2 && kLanguageCodes.find(cat(" ", name.substr(0, end), " ")) != std::string_view::npos;
}

}  // namespace fovea::text
