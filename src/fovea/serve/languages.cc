#include "fovea/serve/languages.h"

#include <unicode/locid.h>

#include <algorithm>

namespace fovea::serve {
namespace {

void add_once(std::vector<std::string>& list, const std::string& code) {
  if (std::ranges::find(list, code) == list.end()) list.push_back(code);
}

}  // namespace

std::string language_name(const std::string& code) {
  UErrorCode status = U_ZERO_ERROR;
  std::string tag = code;
  std::ranges::replace(tag, '_', '-');
  const icu::Locale locale = icu::Locale::forLanguageTag(tag, status);
  if (U_FAILURE(status) || locale.isBogus()) return code;
  icu::UnicodeString name;
  locale.getDisplayName(icu::Locale::getEnglish(), name);
  std::string text;
  return name.toUTF8String(text);
}

std::string upper_code(const std::string& code) {
  std::string upper = code;
  for (char& c : upper) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    if (c == '_') c = '-';
  }
  return upper;
}

std::vector<LanguagePair> language_pairs(const ModelList& models) {
  std::vector<LanguagePair> pairs;
  for (const auto& model : models) {
    if (!model->translates()) continue;
    if (!model->place().source.empty()) pairs.push_back({model->place().source, model->place().target});
    const std::vector<std::string> codes = model->sentences().languages();
    for (const std::string& source : codes)
      for (const std::string& target : codes)
        if (source != target) pairs.push_back({source, target});
  }
  return pairs;
}

std::vector<std::string> source_languages(const std::vector<LanguagePair>& pairs) {
  std::vector<std::string> codes;
  for (const LanguagePair& pair : pairs) add_once(codes, pair.source);
  return codes;
}

std::vector<std::string> target_languages(const std::vector<LanguagePair>& pairs) {
  std::vector<std::string> codes;
  for (const LanguagePair& pair : pairs) add_once(codes, pair.target);
  return codes;
}

}  // namespace fovea::serve
