#include "fovea/serve/html_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fovea/base/test_message.h"

namespace fovea::serve::html_form_test {
namespace {

using ::testing::HasSubstr;

TEST(PercentDecoded, ReadsTwoDigitsAfterEachSign) {
  EXPECT_EQ(percent_decoded(""), "");
  EXPECT_EQ(percent_decoded("/v2/translate"), "/v2/translate");
  EXPECT_EQ(percent_decoded("a%41+"), "aA+") << "a plus is a blank in forms alone";
  EXPECT_EQ(percent_decoded("%c3%A4%2f"), "\u00e4/") << "digits of both cases";
  EXPECT_EQ(percent_decoded("%00%ff"), std::string("\0\xff", 2)) << "any byte";
  EXPECT_EQ(percent_decoded("%2541"), "%41") << "once, not again and again";
  for (const char* wrong : {"%", "%4", "a%", "%zz", "%4g", "%g4", "% 4", "%-1", "%%41"})
    EXPECT_EQ(percent_decoded(wrong), std::nullopt) << wrong;
}

TEST(Form, KeepsFieldsInTheirOrder) {
  EXPECT_EQ(parse_form("q=Hello+world&source=en"), (FormFields{{"q", "Hello world"}, {"source", "en"}}));
  EXPECT_EQ(parse_form("text=b&text=a&text=b"), (FormFields{{"text", "b"}, {"text", "a"}, {"text", "b"}}));
  EXPECT_EQ(parse_form(""), FormFields());
}

TEST(Form, DividesBeforeItDecodes) {
  EXPECT_EQ(parse_form("a=1+2&b=%C3%A4%3d&&c&=d"), (FormFields{{"a", "1 2"}, {"b", "\u00e4="}, {"c", ""}, {"", "d"}}));
  EXPECT_EQ(parse_form("a%26b=1%262"), (FormFields{{"a&b", "1&2"}}));
  EXPECT_EQ(parse_form("q=x=y"), (FormFields{{"q", "x=y"}})) << "the first sign ends the name";
  EXPECT_EQ(parse_form("q=1%2B1"), (FormFields{{"q", "1+1"}}));
  EXPECT_EQ(parse_form("q=a;b"), (FormFields{{"q", "a;b"}}));
}

TEST(Form, RefusesWhatHasNoMeaning) {
  for (const char* wrong : {"q=100%", "q=%4", "q=%zz&b=1", "%q=1", "a=1&b=5%25%"})
    EXPECT_THAT(message_of([&] { parse_form(wrong); }), HasSubstr("write %25 for a percent sign")) << wrong;
  for (const char* wrong : {"q=%ff", "q=\xff", "q=%C3", "q=%ED%A0%80", "%ff=q"})
    EXPECT_THAT(message_of([&] { parse_form(wrong); }), HasSubstr("not UTF-8")) << wrong;
}

}  // namespace
}  // namespace fovea::serve::html_form_test
