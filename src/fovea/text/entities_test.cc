#include "fovea/text/entities.h"

#include <gtest/gtest.h>

namespace fovea::text::entities_test {
namespace {

TEST(Entities, BecomeCharactersOnce) {
  EXPECT_EQ(decode_entities("a &lt; b &amp;&amp; c &gt; d &#228;&#xE4; &quot;"), "a < b && c > d ää \"");
  EXPECT_EQ(decode_entities("&amp;lt;"), "&lt;");
  EXPECT_EQ(decode_entities("AT&T &quot;phones&quot;, R&D &amp; sales, &&lt;"), "AT&T \"phones\", R&D & sales, &<");
  EXPECT_EQ(decode_entities("AT&T; & &unknown; &#0; &#xD800; &#99999999;"),
            "AT&T; & &unknown; &#0; &#xD800; &#99999999;");
}

// The values are those of html.unescape in Python.
TEST(Entities, HaveTheNamesOfHtml) {
  EXPECT_EQ(decode_entities("caf&eacute; &Uuml;ber M&uuml;ller&nbsp;&laquo;&yuml;&raquo; &divide;&times;"),
            "café Über Müller\u00a0«ÿ» ÷×");
  EXPECT_EQ(decode_entities("&ldquo;a&rdquo; &bull; &euro; &thetasym; &alpha;&Omega; &rarr; &le; &lang;&diams; &apos;"),
            "“a” • € ϑ αΩ → ≤ ⟨♦ '");
  EXPECT_EQ(decode_entities("&Eacute; &EACUTE; &eacut; &;"), "É &EACUTE; &eacut; &;");
}

// The values are those of html.unescape in Python, except for names and numbers before a letter, a digit or '='.
TEST(Entities, SomeNeedNoSemicolon) {
  EXPECT_EQ(decode_entities("caf&eacute, &copy 2020 &AMP&nbsp&lt&#233 &#xe9. &#8212&REG"),
            "café, © 2020 &\u00a0<é é. —®");
  EXPECT_EQ(decode_entities("&amp"), "&");
  for (const char* text : {"?a=1&copy=2&sect=3", "&copyright", "&copy2", "&alpha &hellip &euro &apos", "&#", "&#x",
                           "&#12a", "R&D AT&T &", "&notin", "&#1114112"})
    EXPECT_EQ(decode_entities(text), text);
  EXPECT_EQ(leading_reference("&nbsp &").size, 5U);
}

TEST(Entities, NumbersOfOldProgramsAreThoseOfWindows) {
  EXPECT_EQ(decode_entities("&#128;&#146;&#x96;&#159;&#160;&#127;"), "€’–Ÿ\u00a0\x7f");
  EXPECT_EQ(decode_entities("&#129;"), "\u0081");
  EXPECT_EQ(decode_entities("&#12a; &#x; &#-5; &#;"), "&#12a; &#x; &#-5; &#;");
}

}  // namespace
}  // namespace fovea::text::entities_test
