#include "fovea/text/language_code.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

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

TEST(LanguageCode, AUserMeansTheCodeThatFitsAlone) {
  using Codes = std::vector<std::string>;
  const Codes nllb = {"ace_Arab", "ace_Latn", "deu_Latn", "eng_Latn", "est_Latn"}, m2m100 = {"de", "en", "zh"};
  EXPECT_EQ(matching_codes(nllb, "eng_Latn"), Codes{"eng_Latn"});
  EXPECT_EQ(matching_codes(nllb, "ENG_latn"), Codes{"eng_Latn"});
  EXPECT_EQ(matching_codes(nllb, "eng"), Codes{"eng_Latn"});
  EXPECT_EQ(matching_codes(nllb, "ace"), (Codes{"ace_Arab", "ace_Latn"}));
  EXPECT_EQ(matching_codes(m2m100, "__en__"), Codes{"en"});
  EXPECT_EQ(matching_codes(m2m100, "EN"), Codes{"en"});
  EXPECT_EQ(matching_codes(Codes{"pt", "pt_BR"}, "pt"), Codes{"pt"});
  EXPECT_EQ(matching_codes(Codes{"de", "DE"}, "dE"), (Codes{"de", "DE"}));
  for (const char* const name : {"", "e", "en", "es", "_", "__", "____", "eng_", "Latn", "deu_Latn_"})
    EXPECT_EQ(matching_codes(nllb, name), Codes()) << name;
}

}  // namespace
}  // namespace fovea::text::language_code_test
