#include "fovea/serve/languages.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace fovea::serve::languages_test {
namespace {

using Codes = std::vector<std::string>;

TEST(Languages, HaveEnglishNames) {
  EXPECT_EQ(language_name("de"), "German");
  EXPECT_EQ(language_name("en"), "English");
  EXPECT_EQ(language_name("zh"), "Chinese");
  EXPECT_EQ(language_name("pt_br"), language_name("pt-BR")) << "either sign, either case";
  EXPECT_NE(language_name("pt-br"), language_name("pt"));
}

TEST(Languages, UnknownCodesAreTheirOwnNames) {
  for (const char* code : {"qqq", "model1", "!!", "my model"}) EXPECT_EQ(language_name(code), code);
}

TEST(Languages, DeepLWritesCodesInUpperCase) {
  EXPECT_EQ(upper_code("de"), "DE");
  EXPECT_EQ(upper_code("en-gb"), "EN-GB");
  EXPECT_EQ(upper_code("zh_Hans"), "ZH-HANS");
  EXPECT_EQ(upper_code("EN-US"), "EN-US");
}

TEST(Languages, EachIsListedOnceInTheOrderOfThePairs) {
  const std::vector<LanguagePair> pairs = {{"en", "de"}, {"fr", "en"}, {"en", "fr"}, {"fr", "de"}};
  EXPECT_EQ(source_languages(pairs), (Codes{"en", "fr"}));
  EXPECT_EQ(target_languages(pairs), (Codes{"de", "en", "fr"}));
  EXPECT_TRUE(source_languages({}).empty());
  EXPECT_TRUE(language_pairs({}).empty());
}

}  // namespace
}  // namespace fovea::serve::languages_test
