#include "fovea/text/language_code.h"

#include <gtest/gtest.h>

namespace fovea::text::language_code_test {
namespace {

TEST(LanguageCode, HasAScriptAPlaceAndAVariant) {
  for (const char* code : {"de", "pt_BR", "zh-TW", "sr@latin", "zh_Hans", "zh-Hant-HK", "es_419", "ca_ES@valencia"})
    EXPECT_TRUE(is_language_code(code) && is_language_tag(code)) << code;
  for (const char* name :
       {"", "d", "xx", "de_", "de_de", "zh-hans", "de_DEU", "zh_TW_Hant", "de@", "de_DE_x", "de-fast"})
    EXPECT_FALSE(is_language_code(name)) << name;
}

TEST(LanguageCode, TagsHaveAnyCase) {
  for (const char* tag : {"de-de", "DE-de", "zh-hans", "ZH-HANS-cn", "pt_br", "es-419", "ca-es@valencia"})
    EXPECT_TRUE(is_language_tag(tag)) << tag;
  for (const char* name : {"how-to", "de-", "de-x", "de-deu", "tok", "bpe"})
    EXPECT_FALSE(is_language_tag(name)) << name;
}

TEST(LanguageCode, APlaceOrScriptIsBehindTheLanguage) {
  for (const char* name : {"de_DE", "zh_Hans", "zh_Hans_CN", "es-419"}) EXPECT_TRUE(has_place_or_script(name)) << name;
  for (const char* name : {"", "de", "log-in", "sr@latin"}) EXPECT_FALSE(has_place_or_script(name)) << name;
}

}  // namespace
}  // namespace fovea::text::language_code_test
