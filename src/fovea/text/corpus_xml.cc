#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <pugixml.hpp>
#include <set>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/text/corpus_clean.h"
#include "fovea/text/corpus_readers.h"
#include "fovea/text/plural_forms.h"
#include "fovea/text/unicode.h"

namespace fovea::text {
namespace {

// "pt_BR" -> "pt-br".
std::string language_tag(std::string_view text) {
  std::string tag = lower(text);
  std::ranges::replace(tag, '_', '-');
  return tag;
}

}  // namespace

bool same_language(std::string_view a, std::string_view b) {
  const std::string first = language_tag(a), second = language_tag(b);
  const std::string_view shorter = first.size() < second.size() ? first : second;
  const std::string_view longer = first.size() < second.size() ? second : first;
  return longer.starts_with(shorter) && (longer.size() == shorter.size() || longer[shorter.size()] == '-');
}

namespace {

int64_t line_of(const std::string& content, std::ptrdiff_t offset) {
  const auto end = content.begin() + std::min<std::ptrdiff_t>(std::max<std::ptrdiff_t>(offset, 0), std::ssize(content));
  return 1 + std::count(content.begin(), end, '\n');
}

// The encoding that a document's declaration names, in small letters; empty where there is none in ASCII, as in UTF-16.
std::string declared_encoding(std::string_view content) {
  if (!content.starts_with("<?xml")) return {};
  const std::string_view declaration = content.substr(0, content.find("?>"));
  size_t at = declaration.find("encoding");
  if (at == std::string_view::npos) return {};
  at = declaration.find_first_of("\"'", at);
  if (at == std::string_view::npos) return {};
  const std::string_view value = declaration.substr(at + 1);
  return lower(value.substr(0, value.find(declaration[at])));
}

// Names under which the bytes are read as UTF-8. A declaration that can be read byte by byte and speaks of wider units
// is wrong, and the text most likely UTF-8.
bool is_read_as_utf8(std::string_view encoding) {
  static constexpr std::array<std::string_view, 12> kNames = {"utf-8",     "utf8",     "utf-16",  "utf16",
                                                              "utf-32",    "utf32",    "utf_",    "ucs-",
                                                              "iso-10646", "us-ascii", "unicode", "csunicode"};
  return encoding == "ascii" ||
         std::ranges::any_of(kNames, [&](std::string_view name) { return encoding.starts_with(name); });
}

std::string converted(std::string content, const std::string& encoding, const std::string& path) {
  if (encoding.empty() || is_read_as_utf8(encoding)) return content;
  try {
    return to_utf8(content, encoding);
  } catch (const Error&) {
    throw Error(cat("'", path, "' is declared to be in '", encoding,
                    "', a character set that is not known; convert it, as with iconv -f ", encoding,
                    " -t UTF-8, and take the encoding out of its first line"));
  }
}

void load(pugi::xml_document& document, const std::string& path) {
  std::string content = read_unpacked(path, Content::kBytes);  // the parser knows the mark
  const std::string encoding = declared_encoding(content);
  content = converted(std::move(content), encoding, path);
  // White space between inline elements is text. The parser knows few encodings by name, but all by their first bytes.
  const pugi::xml_parse_result result =
      document.load_buffer(content.data(), content.size(), pugi::parse_default | pugi::parse_ws_pcdata,
                           encoding.empty() ? pugi::encoding_auto : pugi::encoding_utf8);
  if (result) return;
  throw Error(cat("'", path, "' line ", line_of(content, result.offset), ": not well-formed XML (",
                  lower(result.description()), "); expected a complete file"));
}

// Inline elements hold the native code of a format, except for elements that mark up text.
bool holds_code(std::string_view name) {
  static constexpr std::array<std::string_view, 6> kCode = {"bpt", "ept", "ph", "it", "ut", "x"};
  return std::find(kCode.begin(), kCode.end(), name) != kCode.end();
}

// Whether an element of code stands for the end of a line or a paragraph: by its type, or by the tag that it holds.
bool ends_line(const pugi::xml_node& code) {
  static constexpr std::array<std::string_view, 5> kTypes = {"lb", "x-lb", "x-br", "x-html-br", "xlf:lb"};
  for (const char* name : {"ctype", "type", "subType"})
    if (std::ranges::find(kTypes, std::string_view(code.attribute(name).as_string())) != kTypes.end()) return true;
  for (const std::string content : {code.child_value(), code.attribute("equiv-text").as_string(),
                                    code.attribute("equiv").as_string(), code.attribute("disp").as_string()}) {
    if (content == "\\n") return true;
    const std::string text = strip_markup(content);
    if (!text.empty() && trim(text).empty()) return true;
  }
  return false;
}

// Shows `enters` the nodes within the root in their order; those within a node follow if it says so. A walk without
// recursion: elements may be nested to any depth.
template <class Enters>
void walk(const pugi::xml_node& root, const Enters& enters) {
  for (pugi::xml_node node = root.first_child(); node;) {
    pugi::xml_node next;
    if (enters(node)) next = node.first_child();
    while (!next && node != root) {
      next = node.next_sibling();
      node = node.parent();
    }
    node = next;
  }
}

std::string text_of(const pugi::xml_node& root) {
  std::string text;
  walk(root, [&](const pugi::xml_node& node) {
    if (node.type() == pugi::node_pcdata || node.type() == pugi::node_cdata) text += node.value();
    const bool is_element = node.type() == pugi::node_element, is_code = is_element && holds_code(node.name());
    if (is_code && ends_line(node)) text += ' ';
    return is_element && !is_code;
  });
  return text;
}

std::string language_of(const pugi::xml_node& variant) {
  const std::string language = variant.attribute("xml:lang").as_string();
  return language.empty() ? variant.attribute("lang").as_string() : language;
}

struct Unit {
  std::vector<std::pair<std::string, std::string>> variants;  // tag of the language, text
};
using LanguageCounts = std::map<std::string, int64_t>;  // of units, by tag

// The texts of one language. If a unit has no text with the language's own tag, but several of its kin, such as pt-BR
// and pt-PT for pt, its text is the one whose tag is the most frequent in the file, so that a corpus does not mix them.
class LanguageTexts {
 public:
  LanguageTexts(const std::string& language, const LanguageCounts& counts)
      : tag_(language_tag(language)), counts_(counts) {}

  // Returns null if the unit has none.
  const std::string* of(const Unit& unit) {
    const std::pair<std::string, std::string>* best = nullptr;
    std::set<std::string> kin;
    for (const auto& variant : unit.variants) {
      const std::string& tag = variant.first;
      if (tag == tag_) return &variant.second;
      if (!same_language(tag, tag_)) continue;
      kin.insert(tag);
      if (best == nullptr || is_before(tag, best->first)) best = &variant;
    }
    if (kin.size() > 1) ++choices_;
    if (kin.size() > 1) kin_.merge(kin);
    return best == nullptr ? nullptr : &best->second;
  }

  void tell(const std::string& path) const {
    if (choices_ == 0) return;
    std::vector<std::string> names(kin_.begin(), kin_.end());
    std::ranges::sort(names, [this](const auto& a, const auto& b) { return is_before(a, b); });
    log::warn(cat("'", path, "': ", thousands(choices_), choices_ == 1 ? " unit has" : " units have",
                  " several texts in '", tag_, "' (", join(names, ", "),
                  "); taking the first of these languages that a unit has; choose one with --languages"));
  }

 private:
  bool is_before(const std::string& a, const std::string& b) const {
    const int64_t more = counts_.at(a) - counts_.at(b);
    return more != 0 ? more > 0 : a < b;
  }

  std::string tag_;
  const LanguageCounts& counts_;
  int64_t choices_ = 0;
  std::set<std::string> kin_;
};

std::vector<Unit> units_of(const pugi::xml_node& body) {
  std::vector<Unit> units;
  for (const pugi::xml_node& node : body.children("tu")) {
    Unit unit;
    for (const pugi::xml_node& variant : node.children("tuv"))
      unit.variants.emplace_back(language_tag(language_of(variant)), text_of(variant.child("seg")));
    units.push_back(std::move(unit));
  }
  return units;
}

LanguageCounts languages_in(const std::vector<Unit>& units) {
  LanguageCounts languages;
  for (const Unit& unit : units) {
    std::set<std::string> own;
    for (const auto& [tag, text] : unit.variants) own.insert(tag);
    for (const std::string& tag : own) ++languages[tag];
  }
  return languages;
}

// The wanted languages, what is left open filled in from the file.
Languages choose_languages(Languages wanted, const std::string& declared, const LanguageCounts& present,
                           const std::string& path) {
  std::vector<std::string> names;
  for (const auto& [name, units] : present) names.push_back(name);
  if (wanted.source.empty()) wanted.source = declared.empty() || declared == "*all*" ? "en" : declared;
  if (wanted.target.empty()) {
    std::vector<std::string> others;
    for (const std::string& name : names)
      if (!same_language(name, wanted.source)) others.push_back(name);
    if (others.size() != 1)
      throw Error(cat("'", path, "' has the languages ", join(names, ", "), "; expected two; choose with --languages"));
    wanted.target = others[0];
  }
  for (const std::string& language : {wanted.source, wanted.target})
    if (std::none_of(names.begin(), names.end(),
                     [&](const std::string& name) { return same_language(name, language); }))
      throw Error(cat("'", path, "' has nothing in '", language, "'; it has ",
                      names.empty() ? "no text" : join(names, ", "), "; choose with --languages"));
  return wanted;
}

// In XLIFF 1.2 the target has a state and the unit an approval, which counts if there is no state. In XLIFF 2 the
// segment has the state. A unit without either counts as finished, whatever the defaults of the standards are: most
// files say nothing.
bool is_unfinished(const pugi::xml_node& unit) {
  static constexpr std::array<std::string_view, 8> kStates = {"initial",           "new",
                                                              "needs-translation", "needs-l10n",
                                                              "needs-adaptation",  "needs-review-translation",
                                                              "needs-review-l10n", "needs-review-adaptation"};
  const auto has_such_state = [](const pugi::xml_node& node) {
    return std::ranges::find(kStates, std::string_view(node.attribute("state").as_string())) != kStates.end();
  };
  for (const pugi::xml_node& node : {unit.child("target"), unit})
    if (node.attribute("state")) return has_such_state(node);
  return std::string_view(unit.attribute("approved").as_string()) == "no";
}

// Takes a prefix such as "x:" off the names of elements.
struct PrefixDropper : pugi::xml_tree_walker {
  explicit PrefixDropper(std::string of_names) : prefix(std::move(of_names)) {}

  const std::string prefix;

  bool for_each(pugi::xml_node& node) override {
    const std::string name = node.name();
    if (name.starts_with(prefix)) node.set_name(name.substr(prefix.size()).c_str());
    return true;
  }
};

// Gives elements of the namespace of the root their plain names. Elements of other namespaces are other ones.
void drop_prefix_of_root(pugi::xml_document& document) {
  const std::string root = document.document_element().name();
  const size_t colon = root.find(':');
  if (colon == std::string::npos) return;
  PrefixDropper dropper(root.substr(0, colon + 1));
  document.traverse(dropper);
}

struct XliffReader {
  explicit XliffReader(const std::string& name_of_file) : path(name_of_file) {}

  const std::string& path;
  Bitext bitext;

  // Reads the elements in their order, and returns whether those within the node are to be read too: a unit has none.
  bool take(const pugi::xml_node& node) {
    const std::string_view name = node.name();
    if (name == "file") {
      forms_.reset();
      agree(bitext.source_lang, node.attribute("source-language").as_string());
      agree(bitext.target_lang, node.attribute("target-language").as_string());
    }
    if (is_plural_group(node)) take_plurals(node);
    if (name != "trans-unit" && name != "segment") return true;
    if (!node.child("source") || !node.child("target") || is_plural_group(node.parent())) return true;
    if (is_of_type(node, "x-gettext-domain-header")) {
      forms_ = plural_forms_of(text_of(node.child("target")), path);
      return true;
    }
    if (is_unfinished(node) && !text_of(node.child("target")).empty()) {
      ++bitext.unfinished;
    } else {
      bitext.pairs.push_back({text_of(node.child("source")), text_of(node.child("target"))});
    }
    return false;
  }

 private:
  static bool is_of_type(const pugi::xml_node& node, std::string_view type) {
    return node.attribute("restype").as_string() == type;
  }

  // A message of gettext with its forms: the unit of the first form has the singular as its source, the others have the
  // plural.
  static bool is_plural_group(const pugi::xml_node& node) {
    return std::string_view(node.name()) == "group" && is_of_type(node, "x-gettext-plurals");
  }

  void take_plurals(const pugi::xml_node& group) {
    std::vector<std::string> sources, targets;
    bool is_open = false;
    for (const pugi::xml_node& unit : group.children("trans-unit")) {
      sources.push_back(text_of(unit.child("source")));
      targets.push_back(text_of(unit.child("target")));
      is_open = is_open || (is_unfinished(unit) && !targets.back().empty());
    }
    if (is_open) ++bitext.unfinished;
    if (is_open || sources.empty()) return;
    const auto add = [&](const std::string& source, size_t form) {
      if (form < targets.size() && !targets[form].empty()) bitext.pairs.push_back({source, targets[form]});
    };
    const PluralForms used = used_forms(forms_, targets.size());
    if (used.one != used.many) add(sources.front(), used.one);
    add(sources.back(), used.many);
  }

  // Sets or checks the language of one side; empty if a <file> does not say.
  void agree(std::string& language, std::string_view named) const {
    const std::string found = language_tag(named);
    if (language.empty()) language = found;
    if (!found.empty() && !same_language(found, language))
      throw Error(cat("'", path, "' has a <file> in '", found, "', but those before it are in '", language,
                      "'; expected one language pair; make a document of each"));
  }

  std::optional<PluralForms> forms_;  // of the file's catalogue
};

}  // namespace

Bitext read_tmx(const std::string& path, const Languages& wanted) {
  pugi::xml_document document;
  load(document, path);
  const pugi::xml_node root = document.child("tmx");
  if (!root.child("body")) throw Error(cat("'", path, "' has no <tmx><body>; expected a translation memory (TMX)"));
  const std::vector<Unit> units = units_of(root.child("body"));
  const LanguageCounts present = languages_in(units);
  const Languages languages =
      choose_languages(wanted, root.child("header").attribute("srclang").as_string(), present, path);
  Bitext bitext{
      .source_lang = language_tag(languages.source), .target_lang = language_tag(languages.target), .pairs = {}};
  LanguageTexts sources(languages.source, present), targets(languages.target, present);
  for (const Unit& unit : units) {
    const std::string* source = sources.of(unit);
    const std::string* target = targets.of(unit);
    if (source != nullptr && target != nullptr) bitext.pairs.push_back({*source, *target});
  }
  sources.tell(path);
  targets.tell(path);
  return bitext;
}

// Versions 1.2 (trans-unit) and 2 (segment).
Bitext read_xliff(const std::string& path) {
  pugi::xml_document document;
  load(document, path);
  drop_prefix_of_root(document);
  const pugi::xml_node root = document.child("xliff");
  if (!root) throw Error(cat("'", path, "' has no <xliff> element; expected an XLIFF file"));
  XliffReader reader(path);
  reader.bitext.source_lang = language_tag(root.attribute("srcLang").as_string());
  reader.bitext.target_lang = language_tag(root.attribute("trgLang").as_string());
  walk(root, [&](const pugi::xml_node& node) { return reader.take(node); });
  return std::move(reader.bitext);
}

}  // namespace fovea::text
