#include "fovea/text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/base/test_message.h"

namespace fovea::text::chat_template_test {
namespace {

using testing::HasSubstr;

const std::vector<ChatMessage> kTalk = {
    {"system", " be kind "}, {"user", "hi\n"}, {"assistant", "yes"}, {"user", "go"}};

std::string rendered(const std::string& text, const std::vector<ChatMessage>& messages = kTalk) {
  return ChatTemplate(text, "file").render(messages, {.begin = "<s>", .end = "</s>", .asks_for_answer = true});
}
std::string refusal(const std::string& text) {
  return message_of([&] { rendered(text); });
}

TEST(ChatTemplate, BlanksBesideBlocksGo) {
  EXPECT_EQ(rendered("a\n  {% if true %}\n  b\n  {% endif %}\nc\n"), "a\n  b\nc");
  EXPECT_EQ(rendered("  {% if true %}x{% endif %} {% if true %}y{% endif %}"), "x y");
  EXPECT_EQ(rendered("a \n {{- 'b' -}} \n c"), "abc");
  EXPECT_EQ(rendered("a \n{%- if true -%} \n b {%+ endif +%}\nc"), "ab \nc");
  EXPECT_EQ(rendered("a\n  {# word #}\nb{#- more -#} c\r\nd"), "a\nbc\nd");
  EXPECT_EQ(rendered("{{ '}}' }}{{ {'a': {'b': 1}}['a']['b'] }}\n\n"), "}}1\n");
}

TEST(ChatTemplate, ExpressionsAreThoseOfJinja) {
  EXPECT_EQ(rendered("{{ 2 * 3 ~ 'x' ~ -7 // 2 ~ -7 % 3 }}"), "6x-42");
  EXPECT_EQ(rendered("{{ 'a' if false }}{{ 'b' if none else 'c' }}{{ not 1 == 2 and 'd' or 'e' }}"), "cd");
  EXPECT_EQ(rendered("{{ messages[1:-1]|length }}{{ messages[::-1][0].content }}{{ 'h\u00e9llo'[1:3] }}"),
            "2go\u00e9l");
  EXPECT_EQ(rendered("{{ messages[0].role in ['system', 'x'] }}{{ 'z' not in messages[0] }}{{ nothing is defined }}"),
            "TrueTrueFalse");
  EXPECT_EQ(rendered("{{ ' a '.strip() + 'xxbx'.lstrip('x') + 'a|b'.split('|')[-1] + 'ab'.replace('a', 'c') }}"),
            "abxbcb");
  EXPECT_EQ(
      rendered(
          "{{ messages[0].content|trim }}{{ nothing|default('d') }}{{ [1, 'x']|join('-') }}{{ 'a\"\u00e9'|tojson }}"),
      "be kindd1-x\"a\\\"\u00e9\"");
  EXPECT_EQ(
      rendered("{{ (messages|selectattr('role', 'equalto', 'user')|list)[1].content }}{{ {'a': 'b'}.get('c', 'e') }}"),
      "goe");
  EXPECT_EQ(rendered("{{ 'a' 'b' }}{{ bos_token }}{{ tools is none }}{{ 3 is odd }}{{ true is not string }}"),
            "ab<s>TrueTrueTrue");
}

TEST(ChatTemplate, LoopsHaveTheirOwnNames) {
  EXPECT_EQ(
      rendered(
          "{% set x = 1 %}{% for m in messages if m.role == 'user' %}{% set x = loop.index %}{{ x }}{{ loop.last }} "
          "{% endfor %}{{ x }}"),
      "1False 2True 1");
  EXPECT_EQ(
      rendered("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}"),
      "4");
  EXPECT_EQ(rendered("{% for a, b in {'x': 1, 'y': 2}.items() %}{{ a }}{{ b }}{% endfor %}"), "x1y2");
  EXPECT_EQ(
      rendered(
          "{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}"
          "{% else %}none{% endfor %}{% for i in [] %}{% else %}e{% endfor %}"),
      "02e");
  EXPECT_EQ(rendered("{% set t %}a{{ 1 }}{% endset %}[{{ t }}]{% generation %}g{% endgeneration %}"), "[a1]g");
}

TEST(ChatTemplate, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(refusal("{{ raise_exception('roles\nmust alternate') }}"),
              HasSubstr("refuses the conversation: roles must"));
  EXPECT_THAT(refusal("{% macro x() %}{% endmacro %}"), HasSubstr("file: has the block 'macro', which is not read"));
  EXPECT_THAT(refusal("{% if x %}"), HasSubstr("file: a block is not closed; expected endif"));
  EXPECT_THAT(refusal("{{ x"), HasSubstr("file: a tag is not closed; expected }}"));
  EXPECT_THAT(refusal("{{ 'a }}"), HasSubstr("not closed"));
  EXPECT_THAT(refusal("{{ 1 2 }}"), HasSubstr("file: cannot read ' 1 2"));
  EXPECT_THAT(refusal("{{ 1 < 2 < 3 }}"), HasSubstr("cannot read"));
  EXPECT_THAT(refusal("{{ messages|pprint }}"), HasSubstr("uses the filter pprint on a list"));
  EXPECT_THAT(refusal("{{ messages }}"), HasSubstr("prints a list"));
  EXPECT_THAT(refusal("{{ nothing.x }}"), HasSubstr("reads a part of 'nothing', which is not defined"));
  EXPECT_THAT(refusal("{{ 'a' + 1 }}"), HasSubstr("computes a text + a number"));
  EXPECT_THAT(refusal("{{ open('x') }}"), HasSubstr("calls open"));
  EXPECT_THAT(refusal("{{ ''.__class__ }}{{ ''.__class__.__mro__ }}"), HasSubstr("which is not defined"));
  EXPECT_THAT(refusal("{% for i in range(9999999) %}{% endfor %}"), HasSubstr("without an end"));
  EXPECT_THAT(
      refusal("{% set ns = namespace(t='xxxxxxxx') %}{% for i in range(99) %}{% set ns.t = ns.t + ns.t %}{% endfor %}"),
      HasSubstr("without an end"));
  EXPECT_THAT(refusal("{{ " + std::string(5000, '(') + " }}"), HasSubstr("file: "));
}

}  // namespace
}  // namespace fovea::text::chat_template_test
