#include "fovea/serve/markup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "fovea/base/strings.h"
#include "fovea/serve/markup_tokens.h"

namespace fovea::serve::markup_test {
namespace {

using analysis::Links;

Links diagonal(std::string_view text) {
  Links links;
  for (int64_t i = 0; i < std::ssize(split_words(text)); ++i) links.push_back({i, i});
  return links;
}

// Every sentence translated by itself, word for word.
std::string copied(std::string_view markup, MarkupKind kind = MarkupKind::kHtml,
                   text::SentenceSplitter* splitter = nullptr) {
  std::string all;
  for (const MarkupPart& part : parse_markup(markup, kind, splitter))
    all += part.text.empty() ? part.bytes : translated_markup(part, part.text, diagonal(part.text));
  return all;
}

std::vector<std::string> texts(std::string_view markup, text::SentenceSplitter* splitter = nullptr) {
  std::vector<std::string> found;
  for (const MarkupPart& part : parse_markup(markup, MarkupKind::kHtml, splitter))
    if (!part.text.empty()) found.push_back(part.text);
  return found;
}

std::vector<std::string> tags_of(std::string_view markup, MarkupKind kind) {
  std::vector<std::string> tags;
  MarkupTokens tokens(markup, kind);
  while (const auto token = tokens.next())
    if (token->kind != MarkupToken::Kind::kText) tags.emplace_back(token->bytes);
  return tags;
}

TEST(Markup, TextWithoutTagsIsPlainText) {
  const auto parts = parse_markup("A plain text.", MarkupKind::kHtml, nullptr);
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].text, "A plain text.");
  EXPECT_EQ(translated_markup(parts[0], "Ein  Text.", {}), "Ein  Text.");
}

TEST(Markup, EntitiesAreTextForTheModelAndEscapedBehindIt) {
  EXPECT_EQ(texts("a &lt; b &amp; c"), (std::vector<std::string>{"a < b & c"}));
  EXPECT_EQ(copied("a &lt; b &amp; c"), "a &lt; b &amp; c");
}

TEST(Markup, TagsFollowTheWordsOfTheTranslation) {
  const auto parts = parse_markup("Open the <b>large</b> <a href=\"x>y\">file</a>.", MarkupKind::kHtml, nullptr);
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].text, "Open the large file.");
  // Die-the Datei-file grosse-large oeffnen-Open
  EXPECT_EQ(translated_markup(parts[0], "Die Datei grosse oeffnen.", {{1, 0}, {3, 1}, {2, 2}, {0, 3}}),
            "Die <a href=\"x>y\">Datei</a> <b>grosse</b> oeffnen.");
}

TEST(Markup, AnElementAroundTheSentenceStaysAroundIt) {
  const auto parts = parse_markup("<b>Open <i>it</i></b>", MarkupKind::kHtml, nullptr);
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(translated_markup(parts[0], "Es oeffnen bitte", {{1, 0}, {0, 1}}), "<b><i>Es</i> oeffnen bitte</b>");
}

TEST(Markup, CopiesComeBackByteForByte) {
  for (const char* const markup :
       {"<p>Hello <b>big</b> world.</p>\n<ul>\n <li>one</li>\n <li>two</li></ul>", "  leading <i>and</i> trailing  ",
        "<script>if (a < b) x('<p>');</script><p>text</p>", "<!-- a <b> comment --><p title='<'>x</p>",
        "word <span translate=\"no\">Brand <b>Name</b></span> word",
        "<pre>one\n  two <b>three\r\n\nfour</b>  \n</pre> five", "<button>a</button><button>b</button>",
        "see <b>this</b>, (<i>that</i>) and <img src=a> more", "a<br>b<br/>c", "<style>p > b {}</style>", "1 < 2",
        "<p>unclosed <b>bold", "</b> stray", ""}) {
    const std::string escaped = std::string_view(markup) == "1 < 2" ? "1 &lt; 2" : markup;
    EXPECT_EQ(copied(markup), escaped);
  }
}

TEST(Markup, BlocksEndSentencesAndOtherElementsDoNot) {
  EXPECT_EQ(texts("<h1>Title</h1><p>One <em>two</em>\n three<br>four</p>"),
            (std::vector<std::string>{"Title", "One two three", "four"}));
}

TEST(Markup, ElementsOfXmlThatHoldElementsAloneDivideIt) {
  const auto texts_of = [](std::string_view markup) {
    EXPECT_EQ(copied(markup, MarkupKind::kXml), markup);
    std::vector<std::string> found;
    for (const MarkupPart& part : parse_markup(markup, MarkupKind::kXml, nullptr))
      if (!part.text.empty()) found.push_back(part.text);
    return found;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts_of("<doc><h>One</h><p>Two <b>three</b>.</p><p>Four</p></doc>"), (Texts{"One", "Two three.", "Four"}));
  EXPECT_EQ(texts_of("<?xml version=\"1.0\"?>\n<doc>\n  <h>One</h>\n  <p>Two</p>\n</doc>\n"), (Texts{"One", "Two"}));
  EXPECT_EQ(texts_of("<s><g>One</g> <g>two</g></s>"), (Texts{"One two"}));
  EXPECT_EQ(texts_of("Press <b><i>this</i></b> now"), (Texts{"Press this now"}));
  EXPECT_EQ(texts_of("<p>One</p><p>two <b>three</p><p>four"), (Texts{"One", "two three", "four"}));
  EXPECT_EQ(texts_of("</b>One</c>"), (Texts{"One"}));
}

TEST(Markup, AnAttributeStandsBehindAnyWhiteSpace) {
  EXPECT_EQ(texts("a <i\n\ttranslate=\"no\">b</i> <i\ntranslate=no>c</i> d"), (std::vector<std::string>{"a d"}));
}

TEST(Markup, WhatIsNoTextStaysByteForByte) {
  for (const char* const markup :
       {"<!DOCTYPE d [\n<!ENTITY e \"v>]\">\n<!-- ]> it's -->\n<?p a>b ?>\n]>\n<d>You can insert a new row.</d>",
        "<!DOCTYPE d SYSTEM 'a>b' [<!ELEMENT d (#PCDATA)><![INCLUDE[<!ATTLIST d a CDATA \"x\">]]>]><d>x</d>",
        "<_a><größe:x>One</größe:x> <:b c = \"x>y\">two</:b></_a>", "<d>Copyright &company; and &#xD800; &a.b-c;</d>",
        "<d><e\n  f='>'\n/>one</d >", "<d>&e;</d>", "<d><![CDATA[a < b]]> text</d>"})
    EXPECT_EQ(copied(markup, MarkupKind::kXml), markup);
  for (const char* const markup :
       {"<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML 1.0>\" 'x'><p>One</p>", "<td>&nbsp;</td>", "<td>\u00a0</td>",
        "<td>&#160;&nbsp; <b>&#xa0;</b></td>", "<p>&nbsp;One&nbsp;</p>", "<p>&nbsp; <b>One</b> &nbsp;</p>",
        "<p a = '>'>One</p>", "<p>R&D &unknown; x</p>", "<!doctype html><p>it's</p>"}) {
    const std::string expected =
        std::string_view(markup).find("R&D") == std::string_view::npos ? markup : "<p>R&amp;D &unknown; x</p>";
    EXPECT_EQ(copied(markup), expected);
  }
}

TEST(Markup, ADeclarationWithoutAnEndIsNoWork) {
  std::string markup;
  for (int i = 0; i < 50'000; ++i) markup += "<!D [ ";
  EXPECT_EQ(texts(markup).size(), 1U);
  const auto parts = parse_markup(markup, MarkupKind::kXml, nullptr);
  EXPECT_EQ(std::ranges::count_if(parts, [](const MarkupPart& part) { return !part.text.empty(); }), 1);
}

TEST(Markup, GapsBetweenSentencesKeepTheirBlanks) {
  text::SentenceSplitter splitter("en");
  for (const std::string markup :
       {"<p>A new row.\u00a0The file.</p>", "<p>A new row.\u2003 The <b>file</b>.</p>", "A row. \u00a0The file."}) {
    EXPECT_EQ(copied(markup, MarkupKind::kHtml, &splitter), markup);
    for (const std::string& text : texts(markup, &splitter)) EXPECT_EQ(text.find("\u00a0"), std::string::npos) << text;
  }
  EXPECT_EQ(texts("<p>A new row.&nbsp;The file.</p>", &splitter),
            (std::vector<std::string>{"A new row.", "The file."}));
}

TEST(Markup, ElementsThatAreNotTranslated) {
  using Texts = std::vector<std::string>;
  for (const std::string element :
       {"<i class=\"notranslate\">b</i>", "<i class='x notranslate\ty'>b</i>", "<i class=notranslate>b</i>",
        "<i translate = \"no\">b</i>", "<i a='translate=yes' TRANSLATE=No>b</i>", "<i its:translate=\"no\">b</i>"}) {
    EXPECT_EQ(texts("a " + element + " c"), (Texts{"a c"})) << element;
    EXPECT_EQ(copied("a " + element + " c"), "a " + element + " c");
    // A full stop behind the element stands elsewhere in a translation whose word order is another.
    const std::vector<MarkupPart> parts = parse_markup("a " + element + ".", MarkupKind::kHtml, nullptr);
    ASSERT_EQ(parts.size(), 1U);
    EXPECT_EQ(translated_markup(parts[0], "d e.", {{0, 0}}), "d " + element + " e.");
  }
  for (const std::string element :
       {"<i title=\"class='notranslate' translate=no\">b</i>", "<i class=notranslated>b</i>",
        "<i translate=\"yes\">b</i>", "<i notranslate>b</i>"})
    EXPECT_EQ(texts("a " + element + " c"), (Texts{"a b c"})) << element;
}

TEST(Markup, LinesAreSeenInPreformattedTextAlone) {
  EXPECT_EQ(texts("<pre>One\n two\n</pre>three\nfour"), (std::vector<std::string>{"One", "two", "three four"}));
  EXPECT_EQ(texts("<button>Save</button><button>Close</button>"), (std::vector<std::string>{"Save", "Close"}));
}

TEST(Markup, ASplitterDividesSentencesThatNoElementJoins) {
  text::SentenceSplitter splitter("en");
  EXPECT_EQ(texts("First one. <b>Second</b> one.", &splitter), (std::vector<std::string>{"First one.", "Second one."}));
  EXPECT_EQ(texts("<b>First one. Second</b> one.", &splitter), (std::vector<std::string>{"First one. Second one."}));
}

TEST(Markup, ASplitterDividesSentencesWithoutBlanksBetweenThem) {
  text::SentenceSplitter splitter("zh");
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts("他来了。我走了。", &splitter), (Texts{"他来了。", "我走了。"}));
  EXPECT_EQ(texts("他来了。我看 the film.再见。 好。", &splitter),
            (Texts{"他来了。", "我看 the film.", "再见。", "好。"}));
  EXPECT_EQ(texts("他<b>来了。</b>我<i>走</i>了。好", &splitter), (Texts{"他来了。", "我走了。", "好"}));
  EXPECT_EQ(texts("<b>他来了。我</b>走了。好。", &splitter), (Texts{"他来了。我走了。", "好。"}));
}

// The tags of a sentence stay with it, whether sentences have blanks between them or not.
TEST(Markup, CopiesOfSentencesComeBackByteForByte) {
  text::SentenceSplitter splitter("zh");
  std::mt19937 random(3);
  const std::vector<std::string> pieces = {"<b>他来了。</b>", "我走了。",  "<img>",    "<i>好。</i> ",
                                           "<b></b>",         "One two. ", "<!--c-->", "<u>再见。</u>"};
  for (int round = 0; round < 2000; ++round) {
    std::string markup = "我。";
    for (size_t i = random() % 8; i > 0; --i) markup += pieces[random() % pieces.size()];
    ASSERT_EQ(copied(markup, MarkupKind::kHtml, &splitter), markup);
  }
}

TEST(Markup, UntranslatedElementsAreNotText) {
  EXPECT_EQ(texts("Press <kbd translate=no>Ctrl+<b>C</b></kbd> now<script>alert('x')</script>"),
            (std::vector<std::string>{"Press now"}));
}

// Whatever the markup and the alignment, the tags of the output are the tags of the input, and they nest.
TEST(Markup, TagsStayAndNestWhateverTheAlignment) {
  std::mt19937 random(1);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const std::vector<std::string> pieces = {"<b>", "</b>", "<i>",       "</i>", "<img>",     "<!--c-->",
                                           " ",   "word", "two words", ".",    "<a x='>'>", "</a>",
                                           "<p>", "</p>", "&amp;",     "(x)",  "<",         ">"};
  for (int round = 0; round < 3000; ++round) {
    std::string markup;
    for (int i = below(16); i >= 0; --i) markup += pieces[static_cast<size_t>(below(static_cast<int>(pieces.size())))];
    std::string output;
    for (const MarkupPart& part : parse_markup(markup, MarkupKind::kHtml, nullptr)) {
      if (part.text.empty()) {
        output += part.bytes;
        continue;
      }
      std::string translation = "t";
      for (int i = below(6); i > 0; --i) translation += below(4) == 0 ? " &." : " w,";
      Links links;
      for (int i = below(8); i > 0; --i) links.push_back({below(6), below(8)});
      output += translated_markup(part, translation, links);
    }
    std::vector<std::string> before = tags_of(markup, MarkupKind::kHtml), after = tags_of(output, MarkupKind::kHtml);
    std::ranges::sort(before);
    std::ranges::sort(after);
    ASSERT_EQ(after, before) << markup << " -> " << output;
  }
}

TEST(Markup, NestedInputGivesNestedOutput) {
  std::mt19937 random(2);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const auto element = [&](const auto& self, int depth) -> std::string {
    std::string text;
    for (int i = 1 + below(3); i > 0; --i) {
      if (depth > 0 && below(2) == 0) {
        const std::string name(1, "xyz"[below(3)]);
        text += cat("<", name, ">", self(self, depth - 1), "</", name, ">", below(2) == 0 ? " " : "");
      } else {
        text += below(3) == 0 ? " " : "word ";
      }
    }
    return text;
  };
  for (int round = 0; round < 2000; ++round) {
    const std::string markup = element(element, 3);
    std::string output;
    for (const MarkupPart& part : parse_markup(markup, MarkupKind::kXml, nullptr)) {
      Links links;
      for (int i = below(8); i > 0; --i) links.push_back({below(6), below(5)});
      output += part.text.empty() ? part.bytes : translated_markup(part, "a b c d e", links);
    }
    std::vector<std::string> open;
    for (const std::string& tag : tags_of(output, MarkupKind::kXml)) {
      if (tag[1] != '/') {
        open.push_back(tag.substr(1));
        continue;
      }
      ASSERT_FALSE(open.empty()) << markup << " -> " << output;
      ASSERT_EQ(open.back(), tag.substr(2)) << markup << " -> " << output;
      open.pop_back();
    }
    ASSERT_TRUE(open.empty()) << output;
  }
}

TEST(Markup, ManyTagsTakeNoTimeToSpeakOf) {
  std::string markup;
  for (int i = 0; i < 100'000; ++i) markup += "<";
  EXPECT_EQ(texts(markup).size(), 1U);
  markup.clear();
  for (int i = 0; i < 50'000; ++i) markup += "<i> ";
  for (int i = 0; i < 50'000; ++i) markup += "</b>";
  EXPECT_EQ(copied(markup), markup);
  EXPECT_EQ(copied(markup, MarkupKind::kXml), markup);
  text::SentenceSplitter splitter("zh");
  markup.clear();
  for (int i = 0; i < 50'000; ++i) markup += "<i>他。</i>好。";
  EXPECT_EQ(texts(markup, &splitter).size(), 100'000U);
}

}  // namespace
}  // namespace fovea::serve::markup_test
