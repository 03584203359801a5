#include "fovea/text/entities.h"

#include <unicode/utf16.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "fovea/text/code_points.h"

namespace fovea::text {
namespace {

// The names of HTML 4 for U+00A0 to U+00FF, in their order.
constexpr std::string_view kLatinNames =
    "nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 "
    "acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde "
    "Auml Aring AElig Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc "
    "Otilde Ouml times Oslash Ugrave Uacute Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml "
    "aring aelig ccedil egrave eacute ecirc euml igrave iacute icirc iuml eth ntilde ograve oacute ocirc "
    "otilde ouml divide oslash ugrave uacute ucirc uuml yacute thorn yuml";
constexpr uint32_t kFirstLatin = 0xa0, kLatinCount = 96;

struct Entity {
  std::string_view name;
  uint32_t code;
};
// Its other names, with the characters that browsers show, the names that HTML knows in capitals too, and the one that
// XML adds.
constexpr std::array kOtherNames = std::to_array<Entity>(
    {{"QUOT", 34},      {"AMP", 38},      {"LT", 60},        {"GT", 62},       {"COPY", 169},    {"REG", 174},
     {"quot", 34},      {"amp", 38},      {"apos", 39},      {"lt", 60},       {"gt", 62},       {"OElig", 338},
     {"oelig", 339},    {"Scaron", 352},  {"scaron", 353},   {"Yuml", 376},    {"fnof", 402},    {"circ", 710},
     {"tilde", 732},    {"Alpha", 913},   {"Beta", 914},     {"Gamma", 915},   {"Delta", 916},   {"Epsilon", 917},
     {"Zeta", 918},     {"Eta", 919},     {"Theta", 920},    {"Iota", 921},    {"Kappa", 922},   {"Lambda", 923},
     {"Mu", 924},       {"Nu", 925},      {"Xi", 926},       {"Omicron", 927}, {"Pi", 928},      {"Rho", 929},
     {"Sigma", 931},    {"Tau", 932},     {"Upsilon", 933},  {"Phi", 934},     {"Chi", 935},     {"Psi", 936},
     {"Omega", 937},    {"alpha", 945},   {"beta", 946},     {"gamma", 947},   {"delta", 948},   {"epsilon", 949},
     {"zeta", 950},     {"eta", 951},     {"theta", 952},    {"iota", 953},    {"kappa", 954},   {"lambda", 955},
     {"mu", 956},       {"nu", 957},      {"xi", 958},       {"omicron", 959}, {"pi", 960},      {"rho", 961},
     {"sigmaf", 962},   {"sigma", 963},   {"tau", 964},      {"upsilon", 965}, {"phi", 966},     {"chi", 967},
     {"psi", 968},      {"omega", 969},   {"thetasym", 977}, {"upsih", 978},   {"piv", 982},     {"ensp", 8194},
     {"emsp", 8195},    {"thinsp", 8201}, {"zwnj", 8204},    {"zwj", 8205},    {"lrm", 8206},    {"rlm", 8207},
     {"ndash", 8211},   {"mdash", 8212},  {"lsquo", 8216},   {"rsquo", 8217},  {"sbquo", 8218},  {"ldquo", 8220},
     {"rdquo", 8221},   {"bdquo", 8222},  {"dagger", 8224},  {"Dagger", 8225}, {"bull", 8226},   {"hellip", 8230},
     {"permil", 8240},  {"prime", 8242},  {"Prime", 8243},   {"lsaquo", 8249}, {"rsaquo", 8250}, {"oline", 8254},
     {"frasl", 8260},   {"euro", 8364},   {"image", 8465},   {"weierp", 8472}, {"real", 8476},   {"trade", 8482},
     {"alefsym", 8501}, {"larr", 8592},   {"uarr", 8593},    {"rarr", 8594},   {"darr", 8595},   {"harr", 8596},
     {"crarr", 8629},   {"lArr", 8656},   {"uArr", 8657},    {"rArr", 8658},   {"dArr", 8659},   {"hArr", 8660},
     {"forall", 8704},  {"part", 8706},   {"exist", 8707},   {"empty", 8709},  {"nabla", 8711},  {"isin", 8712},
     {"notin", 8713},   {"ni", 8715},     {"prod", 8719},    {"sum", 8721},    {"minus", 8722},  {"lowast", 8727},
     {"radic", 8730},   {"prop", 8733},   {"infin", 8734},   {"ang", 8736},    {"and", 8743},    {"or", 8744},
     {"cap", 8745},     {"cup", 8746},    {"int", 8747},     {"there4", 8756}, {"sim", 8764},    {"cong", 8773},
     {"asymp", 8776},   {"ne", 8800},     {"equiv", 8801},   {"le", 8804},     {"ge", 8805},     {"sub", 8834},
     {"sup", 8835},     {"nsub", 8836},   {"sube", 8838},    {"supe", 8839},   {"oplus", 8853},  {"otimes", 8855},
     {"perp", 8869},    {"sdot", 8901},   {"lceil", 8968},   {"rceil", 8969},  {"lfloor", 8970}, {"rfloor", 8971},
     {"lang", 10216},   {"rang", 10217},  {"loz", 9674},     {"spades", 9824}, {"clubs", 9827},  {"hearts", 9829},
     {"diams", 9830}});

constexpr auto kBlocks = std::to_array<std::string_view>(
    {"address",    "article",  "aside",    "blockquote", "body",   "br",     "button",  "caption", "center",
     "col",        "colgroup", "dd",       "details",    "dialog", "div",    "dl",      "dt",      "fieldset",
     "figcaption", "figure",   "footer",   "form",       "h1",     "h2",     "h3",      "h4",      "h5",
     "h6",         "head",     "header",   "hr",         "html",   "legend", "li",      "main",    "menu",
     "nav",        "ol",       "optgroup", "option",     "p",      "pre",    "section", "select",  "summary",
     "table",      "tbody",    "td",       "tfoot",      "th",     "thead",  "title",   "tr",      "ul"});

// Browsers read the numbers from 128 to 159 as the characters of windows-1252, which text of old programs means by
// them; 0 where that has none.
constexpr uint32_t kFirstWindows = 0x80;
constexpr std::array<uint16_t, 32> kWindowsCharacters = {
    8364, 0,    8218, 402,  8222, 8230, 8224, 8225, 710, 8240, 352, 8249, 338, 0, 381, 0,
    0,    8216, 8217, 8220, 8221, 8226, 8211, 8212, 732, 8482, 353, 8250, 339, 0, 382, 376};

std::unordered_map<std::string_view, uint32_t> all_names() {
  std::unordered_map<std::string_view, uint32_t> names;
  for (const Entity& entity : kOtherNames) names.emplace(entity.name, entity.code);
  std::string_view rest = kLatinNames;
  for (uint32_t code = kFirstLatin; !rest.empty(); ++code) {
    const size_t end = std::min(rest.find(' '), rest.size());
    names.emplace(rest.substr(0, end), code);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return names;
}

// Returns 0 if the name, without & and ;, is of no character.
uint32_t code_of(std::string_view name) {
  static const std::unordered_map<std::string_view, uint32_t> kNames = all_names();
  if (!name.starts_with('#')) {
    const auto known = kNames.find(name);
    return known == kNames.end() ? 0 : known->second;
  }
  const bool hex = name.size() > 1 && (name[1] == 'x' || name[1] == 'X');
  const std::string_view digits = name.substr(hex ? 2 : 1);
  uint32_t code = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, hex ? 16 : 10);
  if (error != std::errc() || end != digits.data() + digits.size() || code > 0x10ffff || U_IS_SURROGATE(code)) return 0;
  const bool is_windows = code >= kFirstWindows && code < kFirstLatin && kWindowsCharacters[code - kFirstWindows] > 0;
  return is_windows ? kWindowsCharacters[code - kFirstWindows] : code;
}

// The names that HTML knows without a semicolon, as browsers from before HTML 4 did.
bool is_known_without_semicolon(std::string_view name) {
  static constexpr std::array<std::string_view, 10> kOthers = {"amp", "AMP",  "lt",   "LT",   "gt",
                                                               "GT",  "quot", "QUOT", "COPY", "REG"};
  if (name.starts_with('#') || std::ranges::find(kOthers, name) != kOthers.end()) return true;
  const uint32_t code = code_of(name);
  return code >= kFirstLatin && code < kFirstLatin + kLatinCount;
}

// Like leading_reference(), for one without a semicolon: "&nbsp" before anything but a letter, a digit or '='.
Reference without_semicolon(std::string_view text) {
  constexpr size_t kLongest = 10;
  size_t end = 1;
  if (text.substr(1).starts_with('#')) ++end;
  while (end < std::min(text.size(), kLongest) && std::isalnum(static_cast<unsigned char>(text[end])) != 0) ++end;
  const std::string_view name = text.substr(1, end - 1);
  const auto next = end < text.size() ? static_cast<unsigned char>(text[end]) : ' ';
  if (std::isalnum(next) != 0 || next == '=' || !is_known_without_semicolon(name)) return {};
  Reference reference{.size = end, .character = {}};
  const uint32_t code = code_of(name);
  if (code == 0) return {};
  append_character(reference.character, static_cast<UChar32>(code));
  return reference;
}

}  // namespace

Reference leading_reference(std::string_view text) {
  constexpr size_t kLongest = 64;
  const auto is_of_name = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return std::isalnum(byte) != 0 || byte >= 0x80 || c == '#' || c == '_' || c == '-' || c == '.' || c == ':';
  };
  if (!text.starts_with('&')) return {};
  size_t end = 1;
  while (end < std::min(text.size(), kLongest) && is_of_name(text[end])) ++end;
  if (end == 1 || end == text.size() || text[end] != ';') return without_semicolon(text);
  Reference reference{.size = end + 1, .character = {}};
  constexpr size_t kLongestKnown = 12;  // with & and ;
  const uint32_t code = reference.size > kLongestKnown ? 0 : code_of(text.substr(1, end - 1));
  if (code != 0) append_character(reference.character, static_cast<UChar32>(code));
  return reference;
}

std::string decode_entities(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const Reference reference = leading_reference(text.substr(i));
    if (reference.character.empty()) {
      out.push_back(text[i++]);  // an entity may begin behind it, as in "AT&T &quot;"
      continue;
    }
    out += reference.character;
    i += reference.size;
  }
  return out;
}

bool is_block_element(std::string_view name) { return std::ranges::find(kBlocks, name) != kBlocks.end(); }

}  // namespace fovea::text
