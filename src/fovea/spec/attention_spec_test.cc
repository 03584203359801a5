#include "fovea/spec/attention_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"
#include "fovea/spec/attention_parameters.h"
#include "fovea/spec/resolved_layer.h"
#include "fovea/spec/testing/examples.h"
#include "fovea/spec/testing/random_spec.h"

namespace fovea::attention_spec_test {
namespace {

std::string canonical_text(std::string_view text) { return print(parse_attention(text)); }

std::string refusal(std::string_view text) {
  return message_of([&] { parse_layer_spec(text); });
}

TEST(AttentionSpec, CanonicalForms) {
  const std::vector<std::pair<std::string_view, std::string_view>> cases = {
      {"full", "full"},
      {"full+softmax", "full"},
      {"softmax", "full"},
      {"topk(8)", "topk(8)"},
      {"full+relu+topk(8)", "topk(8)+relu"},
      {"gated-rmsnorm+relu", "relu+gated-rmsnorm"},
      {"rela-g", "relu+gated-rmsnorm"},
      {"rela-i", "relu+rmsnorm-xavier"},
      {"rmsnorm-xavier( head )+relu", "relu+rmsnorm-xavier(head)"},
      {"rmsnorm-xavier", "rmsnorm-xavier"},
      {"topk(8)+rela-g", "topk(8)+relu+gated-rmsnorm"},
      {"oow(8)", "topk(4,keep=window(4))"},
      {"bigbird(16)", "window(8)|global(4)|random(4)"},
      {"bigbird(16)&local(9)", "(window(8)|global(4)|random(4))&local(9)"},
      {"entmax(1)", "full"},
      {"entmax(2)", "sparsemax"},
      {"entmax(1.50)", "entmax(1.5)"},
      {"entmax(learned)", "entmax(learned)"},
      {"leaky-relu(0.01)", "leaky-relu(0.01)"},
      {"sigmoid", "sigmoid"},
      {"sigmoid(0)", "sigmoid(0)"},
      {"scaled+gate(head)+entmax(1.5)", "entmax(1.5)+scaled+gate(head)"},
      {"full+scaled", "scaled"},
      {"full+softcap(50)", "softcap(50)"},
      {"topk(2)+relu+softcap(0.5)", "softcap(0.5)+topk(2)+relu"},
      {"blocktopk(4,2)+sink+softcap(30.0)", "blocktopk(4,2)+softcap(30)+sink"},
      {"window(4)+softcap(50)", "window(4)+softcap(50)"},
      {" window( 16 ) | ( global(2) | random(3) ) + topk( 8 , keep = local(2) ) ",
       "window(16)|global(2)|random(3)+topk(8,keep=local(2))"},
      {"((window(3)))", "window(3)"},
      {"window(3)|window(3)", "window(3)"},
      {"window(3)|full", "full"},
      {"window(3)&full", "window(3)"},
      {"window(3)&block(4)|global(1)", "window(3)&block(4)|global(1)"},
      {"window(3)&(block(4)|global(1))", "window(3)&(block(4)|global(1))"},
      {"fixed(8,2)&strided(3)&dilated(4,2)", "fixed(8,2)&strided(3)&dilated(4,2)"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(canonical_text(text), expected) << text;
    EXPECT_EQ(canonical_text(expected), expected);
  }
}

TEST(AttentionSpec, WhatIsPrintedReadsBack) {
  Rng rng(11);
  for (int i = 0; i < 5000; ++i) {
    AttentionSpec spec = random_spec(rng);
    if (rng.below(4) == 0) spec.gate = OutputGate{.per = static_cast<OutputGate::Per>(rng.below(2))};
    if (rng.below(4) == 0 && !is_pointwise(spec.transform) && !adaptive_span(spec)) spec.scale.emplace();
    EXPECT_EQ(parse_attention(print(spec)), spec) << print(spec);
    EXPECT_EQ(hash_value(parse_attention(print(spec))), hash_value(spec));
    LayerSpec layer = {{2, spec}, {3, random_spec(rng)}};
    if (layer[0].spec == layer[1].spec) layer = {{5, spec}};
    EXPECT_EQ(parse_layer_spec(print(layer)), layer) << print(layer);
  }
}

TEST(AttentionSpec, EveryNameOfTheListsParses) {
  for (const auto& names : {pattern_names(), choosing_names()})
    for (const std::string& text : examples(names)) EXPECT_EQ(canonical_text(text), text);
  for (const std::string& text : examples(stage_names()))
    EXPECT_EQ(canonical_text(text), text == Softmax::kName ? "full" : text);
  EXPECT_NO_THROW(examples(alias_names()));
  for (const auto& names : {pattern_names(), choosing_names(), stage_names(), alias_names()})
    for (const SpecName& name : names) EXPECT_FALSE(name.help.empty()) << name.name;
}

// Below the least value that the lists tell of, a name is refused.
TEST(AttentionSpec, ArgumentsHaveTheRangesThatTheListsTell) {
  for (const auto& names : {pattern_names(), choosing_names(), stage_names(), alias_names()}) {
    for (const SpecName& name : names) {
      for (size_t i = 0; i < name.fields.size(); ++i) {
        std::vector<std::string> values;
        for (const SpecArgument& field : name.fields) values.push_back(shortest(field.min));
        values[i] = shortest(name.fields[i].min - 1);
        const std::string text = cat(name.name, "(", join(values, ","), ")");
        EXPECT_THAT(refusal(text),
                    testing::AllOf(testing::HasSubstr(name.fields[i].name), testing::HasSubstr("must be")))
            << text;
      }
    }
  }
}

TEST(AttentionSpec, ALengthSetsTheBiasOfASigmoidWithoutOne) {
  const LayerSpec open = parse_layer_spec("1*topk(3)+sigmoid;1*sigmoid(-2);2*full");
  EXPECT_TRUE(lacks_bias(open));
  const LayerSpec set = with_bias(open, 1024);
  EXPECT_EQ(print(set), cat("1*topk(3)+sigmoid(", shortest(-std::log(1024.0)), ");1*sigmoid(-2);2*full"));
  EXPECT_FALSE(lacks_bias(set));
  EXPECT_EQ(with_bias(set, 8), set);
  EXPECT_EQ(print(with_bias(parse_layer_spec("sigmoid"), 1)), "sigmoid(0)");
  EXPECT_FALSE(parameters_of(open).alpha) << "a bias is no learned number";
}

TEST(AttentionSpec, ScaledQueriesNeedNumbersByTheirTransform) {
  const auto needs = [](const char* text) {
    const AttentionParameters all = parameters_of(parse_layer_spec(text));
    return std::pair(all.scale_by_head, all.scale_by_input);
  };
  for (const char* text : {"scaled", "topk(3)+scaled", "sink+scaled", "entmax(1)+scaled"})
    EXPECT_EQ(needs(text), std::pair(true, false)) << text;
  for (const char* text : {"sparsemax+scaled", "entmax(1.5)+scaled", "entmax(learned)+scaled"})
    EXPECT_EQ(needs(text), std::pair(false, true)) << text;
  EXPECT_EQ(needs("1*scaled;1*sparsemax+scaled"), std::pair(true, true));
  EXPECT_EQ(needs("full+gate"), std::pair(false, false));
}

TEST(AttentionSpec, NamesOfKindsReadBack) {
  for (const AttentionKind kind : {AttentionKind::kSelf, AttentionKind::kCausal, AttentionKind::kCross})
    EXPECT_EQ(parse_kind(name_of(kind)), kind);
  EXPECT_EQ(message_of([] { parse_kind("slef"); }),
            "attention: unknown kind 'slef'; expected one of self, causal, cross");
}

TEST(AttentionSpec, ErrorsPointAtTheMistake) {
  EXPECT_EQ(refusal("topk(8)+windw(3)"), cat("attention spec, column 9: unknown stage 'windw'; known: ",
                                             join(known_stages(), ", "), "\n  topk(8)+windw(3)\n          ^"));
  EXPECT_THAT(
      refusal("windw(3)"),
      testing::HasSubstr("column 1: unknown pattern or stage 'windw'; did you mean 'window'? Known: full, window,"));
  EXPECT_THAT(refusal("full|topk(8)"), testing::HasSubstr("column 6: 'topk' is a stage, not a pattern"));
  EXPECT_THAT(refusal("topk(8)+window(3)"), testing::HasSubstr("column 9: patterns come first: window(...)"));
  EXPECT_THAT(refusal("full;2*tokp(3)"),
              testing::HasSubstr("column 8: unknown pattern or stage 'tokp'; did you mean 'topk'?"));
  EXPECT_THAT(refusal("full|tokp(3)"), testing::HasSubstr("column 6: unknown pattern 'tokp'; known: full"));
  EXPECT_THAT(refusal("topk(0)"), testing::HasSubstr("column 6: k of topk is 0; it must be at least 1"));
  EXPECT_THAT(refusal("topk(-3)"), testing::HasSubstr("column 6: k of topk is -3; it must be at least 1"));
  EXPECT_THAT(refusal("topk(99999999999)"), testing::HasSubstr("column 6: k of topk is too large"));
  EXPECT_THAT(refusal("topk(99999999999999999999999)"), testing::HasSubstr("column 6: k of topk is too large"));
  EXPECT_THAT(refusal("top-p(0)"), testing::HasSubstr("column 7: p must be between 1e-06 and 1"));
  EXPECT_THAT(refusal("top-p(nan)"), testing::HasSubstr("column 7: p must be between 1e-06 and 1"));
  EXPECT_THAT(refusal("top-p(0.5)+topk(3)"), testing::HasSubstr("column 12: a second selection"));
  EXPECT_THAT(refusal("window()"), testing::HasSubstr("column 8: expected a whole number for k of window, got ')'"));
  EXPECT_THAT(refusal("window(3"),
              testing::HasSubstr("column 9: expected ')' after the arguments of window, got the end"));
  EXPECT_THAT(refusal("rmsnorm-xavier(width)"),
              testing::HasSubstr("column 16: expected head as the first argument of rmsnorm-xavier, got 'width'"));
  EXPECT_THAT(refusal("rmsnorm-xavier()"), testing::HasSubstr("column 16: expected head, got ')'"));
  EXPECT_THAT(refusal("window"), testing::HasSubstr("column 7: expected '(' after window"));
  EXPECT_THAT(refusal("full\u2013relu"), testing::HasSubstr("column 5: unexpected '\u2013'; expected"));
  EXPECT_THAT(refusal("fixed(4,5)"), testing::HasSubstr("column 1: fixed: c must be at most b"));
  EXPECT_THAT(refusal("relu+gelu"), testing::HasSubstr("column 6: a second transform"));
  EXPECT_THAT(refusal("rela-g+rmsnorm"), testing::HasSubstr("column 8: a second norm"));
  EXPECT_THAT(refusal("relu+rela-g"), testing::HasSubstr("column 6: a second transform"));
  EXPECT_THAT(refusal("rmsnorm+rela-g"), testing::HasSubstr("column 9: a second norm"));
  EXPECT_THAT(refusal("topk(2)+oow(4)"), testing::HasSubstr("column 9: a second selection"));
  EXPECT_THAT(refusal("oow(7)"), testing::HasSubstr("column 5: k of oow is 7; it must be a multiple of 2"));
  EXPECT_THAT(refusal("entmax(0.5)"), testing::HasSubstr("column 8: alpha must be between 1 and 64"));
  EXPECT_THAT(refusal("entmax(nan)"), testing::HasSubstr("column 8: expected a number or 'learned' for alpha"));
  EXPECT_THAT(refusal("entmax(1e999)"), testing::HasSubstr("column 8: alpha must be between 1 and 64"));
  EXPECT_THAT(refusal("sigmoid(length)"), testing::HasSubstr("column 9: expected a number for bias, got 'l'"));
  EXPECT_THAT(refusal("softcap(2)+softcap(2)"), testing::HasSubstr("column 12: a second softcap"));
  EXPECT_THAT(refusal("softcap"), testing::HasSubstr("column 8: expected '(' after softcap"));
  EXPECT_THAT(refusal("softcap(0)"), testing::HasSubstr("column 9: c must be between 0.01 and 1e+06"));
  EXPECT_THAT(refusal("softcap(-3)"), testing::HasSubstr("column 9: c must be between 0.01 and 1e+06"));
  EXPECT_THAT(refusal("softcap(nan)"), testing::HasSubstr("column 9: c must be between 0.01 and 1e+06"));
  EXPECT_THAT(refusal("dsa(4)+softcap(50)"),
              testing::HasSubstr("column 8: softcap: the indexer of dsa learns from scores without a cap"));
  EXPECT_THAT(refusal("scaled+scaled"), testing::HasSubstr("column 8: a second scale"));
  EXPECT_THAT(refusal("2*scaled;2*topk(3)+relu+scaled"),
              testing::HasSubstr("column 25: scaled: weights that are not norm"));
  EXPECT_THAT(refusal("blocktopk(2,4)+scaled"), testing::HasSubstr("column 16: scaled: ties decide how many"));
  EXPECT_THAT(refusal("routed(2,4)+scaled"), testing::HasSubstr("column 13: scaled: the data decide how many"));
  EXPECT_THAT(refusal("mix(full,clause(1))+scaled"),
              testing::HasSubstr("column 21: scaled: the text decides how many"));
  EXPECT_THAT(refusal("span(8,2)+scaled"), testing::HasSubstr("column 11: scaled: span learns how far"));
  EXPECT_THAT(refusal("leaky-relu(nan)"), testing::HasSubstr("column 12: slope must be between 0 and 1"));
  EXPECT_THAT(refusal(""), testing::HasSubstr("column 1: expected a pattern, got the end"));
  EXPECT_THAT(refusal("full)"), testing::HasSubstr("column 5: unexpected ')'; expected '|', '&', '+', ';' or the end"));
  EXPECT_THAT(
      refusal("topk(8)|full"),
      testing::HasSubstr("column 8: unexpected '|'; patterns come before all stages; expected '+', ';' or the end"));
  EXPECT_THAT(refusal("ReLA-g"), testing::HasSubstr("did you mean 'rela-g'?"));
  EXPECT_THAT(refusal("topk(8,kep=window(3))"), testing::HasSubstr("column 8: topk takes one number and keep=PAIRS"));
  EXPECT_THAT(refusal("4*full;topk(3)"), testing::HasSubstr("column 8: with several head groups each needs"));
  EXPECT_THAT(refusal("full;4*topk(3)"), testing::HasSubstr("each needs its number of heads"));
  EXPECT_THAT(refusal("2*full+relu;2*full)"), testing::HasSubstr("expected '|', '&', '+', ';' or the end"));
  EXPECT_THAT(refusal("0*full"), testing::HasSubstr("column 1: the number of heads is 0; it must be at least 1"));
  EXPECT_THAT(refusal("4full"), testing::HasSubstr("column 2: expected '*' between"));
  EXPECT_THAT(refusal("none"), testing::HasSubstr("unknown pattern or stage 'none'; known: full"));
  EXPECT_THAT(refusal(std::string(1000, '(')), testing::HasSubstr("more than 100 parentheses"));
  EXPECT_THAT(refusal(std::string(20000, 'a')), testing::HasSubstr("got 20000 characters; expected at most 10000"));
  EXPECT_THAT(refusal("ä"), testing::HasSubstr("column 1: expected a pattern"));
}

// A caret stands below the character, whatever its bytes; a stranger's control characters do not reach the terminal.
TEST(AttentionSpec, TheCaretStandsBelowWhatIsSeen) {
  EXPECT_THAT(refusal("äö"), testing::HasSubstr("\n  äö\n  ^"));
  EXPECT_THAT(refusal("(full|xä"), testing::HasSubstr("column 7: "));
  EXPECT_THAT(refusal("full\x1b[31m"), testing::HasSubstr("\n  full [31m\n      ^"));
  EXPECT_THAT(refusal("\u4f60\u009bfull\u202e"), testing::HasSubstr("\n  \u4f60 full \n  ^"));
  EXPECT_THAT(refusal("full \u009b31m"), testing::HasSubstr("column 6: unexpected ' '; expected "));
  EXPECT_THAT(refusal("full \u009b31m"), testing::HasSubstr("\n  full  31m\n       ^"));
}

// The limit is on parentheses inside one another.
TEST(AttentionSpec, ParenthesesBesideOneAnotherAreAnyNumber) {
  std::string text = "(full)";
  for (int i = 0; i < 150; ++i) text += "|(local(3))";
  EXPECT_EQ(canonical_text(text), "full");
}

// Aliases may be shorter than what they stand for.
TEST(AttentionSpec, WhatIsParsedIsPrintedWithinTheLimits) {
  std::vector<std::string> parts;
  for (int i = 1; i <= 700; ++i) parts.push_back(cat("bigbird(", 4 * i, ")"));
  EXPECT_THAT(refusal(join(parts, "|")), testing::HasSubstr(" in canonical form; expected at most 10000"));
  EXPECT_THAT(message_of([&] { parse_attention(join(parts, "|")); }), testing::HasSubstr(" in canonical form"));
  parts.resize(200);
  const std::string text = canonical_text(join(parts, "|"));
  EXPECT_EQ(canonical_text(text), text);

  const auto nested = [](int depth) {
    std::string inner = "bigbird(4)";
    for (int i = 1; i <= depth; ++i) inner = cat("window(", i, ")&(block(", i, ")|window(999)&", inner, ")");
    return inner;
  };
  EXPECT_THAT(refusal(nested(100)), testing::HasSubstr("more than 100 parentheses"));
  EXPECT_EQ(canonical_text(canonical_text(nested(99))), canonical_text(nested(99)));
}

TEST(AttentionSpec, ClausesStandAlone) {
  for (const std::string text :
       {"clause(1)", "clause(6)+topk(8)+entmax(1.5)+rmsnorm", "mix(full,clause(1),clause(2))",
        "mix(full,clause(2))+topk(4)", "mix(full,clause(1),clause(3),constant(0.25))", "mix(full,clause(1),token)"})
    EXPECT_EQ(canonical_text(text), text);
  EXPECT_EQ(canonical_text(" mix ( full , clause ( 1 ) , constant ( .50 ) )"), "mix(full,clause(1),constant(0.5))");
  EXPECT_EQ(print(parse_layer_spec("2*mix(full,clause(1));2*full")), "2*mix(full,clause(1));2*full");
  const AttentionSpec spec = parse_attention("mix(full,clause(1),clause(2))");
  ASSERT_NE(spec.clauses(), nullptr);
  EXPECT_THAT(spec.clauses()->levels, testing::ElementsAre(1, 2));
  EXPECT_NO_THROW(validate(spec, AttentionKind::kSelf));
  for (const AttentionKind kind : {AttentionKind::kCausal, AttentionKind::kCross})
    EXPECT_THAT(message_of([&] { validate(spec, kind); }),
                testing::HasSubstr("use it in the encoder's self-attention alone"));
}

TEST(AttentionSpec, ClausesDoNotGoWithRoutedHeads) {
  EXPECT_THAT(message_of([] { resolve(parse_layer_spec("2*clause(1);2*routed(2,4)"), 4); }),
              testing::HasSubstr("heads with clauses do not go with routed heads in one layer; use a pattern"));
  EXPECT_EQ(resolve(parse_layer_spec("2*clause(1);2*window(16)"), 4).size(), 2U);
}

TEST(AttentionSpec, ClauseErrorsPointAtTheMistake) {
  EXPECT_THAT(refusal("clause(0)"), testing::HasSubstr("column 8: level of clause is 0; it must be at least 1"));
  EXPECT_THAT(refusal("clause(7)"), testing::HasSubstr("column 8: level of clause is 7; it must be at most 6"));
  EXPECT_THAT(refusal("clause(1)|global(1)"), testing::HasSubstr("column 10: 'clause' stands alone before the stages"));
  EXPECT_THAT(refusal("full|clause(1)"), testing::HasSubstr("column 6: 'clause' stands alone before the stages"));
  EXPECT_THAT(refusal("window(4)&mix(full,clause(1))"), testing::HasSubstr("column 11: 'mix' stands alone"));
  EXPECT_THAT(refusal("mix(clause(1))"), testing::HasSubstr("column 5: mix begins with full"));
  EXPECT_THAT(refusal("mix(full)"), testing::HasSubstr("column 9: expected ',' before clause(level) of mix"));
  EXPECT_THAT(refusal("mix(full,window(3))"), testing::HasSubstr("column 10: expected clause(level)"));
  EXPECT_THAT(refusal("mix(full,clause(2),clause(2))"),
              testing::HasSubstr("column 20: the levels of mix rise; got 2 after 2"));
  EXPECT_THAT(refusal("mix(full,clause(1),tokens)"),
              testing::HasSubstr("column 20: expected clause(level), constant(P) or token"));
  EXPECT_THAT(refusal("mix(full,clause(1),constant(2))"),
              testing::HasSubstr("column 29: expected a number from 0 to 1"));
  EXPECT_THAT(refusal("mix(full,clause(1),token,clause(2))"),
              testing::HasSubstr("expected ')' after the arguments of mix"));
}

TEST(AttentionSpec, SpanReadsTheKeysBeforeTheQueryOfACausalLayer) {
  for (const std::string text : {"span(8192,32)", "span(8192,32)+topk(8)", "span(4,1)+rmsnorm"}) {
    EXPECT_EQ(canonical_text(text), text);
    EXPECT_NO_THROW(validate(parse_attention(text), AttentionKind::kCausal)) << text;
    EXPECT_NE(adaptive_span(parse_attention(text)), nullptr);
  }
  EXPECT_EQ(adaptive_span(parse_attention("local(4)")), nullptr);
  EXPECT_THAT(refusal("span(0,4)"), testing::HasSubstr("column 6: limit of span is 0; it must be at least 1"));
  EXPECT_THAT(refusal("span(8,0)"), testing::HasSubstr("column 8: ramp of span is 0; it must be at least 1"));
  const auto refused = [](const char* text, AttentionKind kind) {
    return message_of([&] { validate(parse_attention(text), kind); });
  };
  EXPECT_EQ(refused("span(8,2)", AttentionKind::kSelf),
            "attention 'span(8,2)': 'span' reads the keys before a query, so it needs causal self-attention, such as a "
            "decoder's; got self-attention that is not causal, use full or random(k) there");
  EXPECT_THAT(refused("span(8,2)", AttentionKind::kCross), testing::HasSubstr("got cross-attention, use full"));
  EXPECT_EQ(refused("span(8,2)|global(1)", AttentionKind::kCausal),
            "attention 'span(8,2)|global(1)': 'span' joins no other pattern; write span(limit,ramp) alone, or "
            "span(limit,ramp)+topk(k)");
  EXPECT_THAT(refused("topk(2,keep=span(8,2))", AttentionKind::kCausal), testing::HasSubstr("joins no other pattern"));
  EXPECT_THAT(refused("span(8,2)+topk(2,keep=local(1))", AttentionKind::kCausal),
              testing::HasSubstr("'span' takes topk(k) without keep; leave keep out"));
  EXPECT_THAT(refused("span(8,2)+sparsemax", AttentionKind::kCausal),
              testing::HasSubstr("'span' weighs with softmax; got sparsemax, leave that stage out"));
}

TEST(AttentionSpec, RoutedStandsAlone) {
  for (const std::string text : {"routed(16,256)", "routed(16,256,causal)", "routed(16,256,random)",
                                 "routed(16,256)+topk(8)", "routed(16,256)+topk(8,keep=local(4))+entmax(1.5)+rmsnorm"})
    EXPECT_EQ(canonical_text(text), text);
  EXPECT_EQ(canonical_text(" routed ( 2 , 4 , causal ) + softmax"), "routed(2,4,causal)");
  EXPECT_EQ(print(parse_layer_spec("4*blocks(256,1);4*routed(16,256)")), "4*blocks(256,1);4*routed(16,256)");
  const AttentionSpec spec = parse_attention("routed(2,4,random)+topk(3)");
  ASSERT_NE(spec.route(), nullptr);
  EXPECT_EQ(spec.route()->members, Routed::Members::kRandom);
  EXPECT_TRUE(spec.pairs().is_full());
  EXPECT_TRUE(uses_random(spec));
  EXPECT_FALSE(uses_random(parse_attention("routed(2,4)")));
}

TEST(AttentionSpec, ChosenBlocksStandAlone) {
  for (const std::string text : {"blocktopk(64,16)", "blocktopk(64,16,bounds)", "blocktopk(1,1)",
                                 "blocktopk(4,2)+topk(8,keep=local(4))+entmax(1.5)+rmsnorm"})
    EXPECT_EQ(canonical_text(text), text);
  EXPECT_EQ(print(parse_layer_spec("4*full;4*blocktopk( 8 , 2 )+softmax")), "4*full;4*blocktopk(8,2)");
  const AttentionSpec spec = parse_attention("blocktopk(8,2,bounds)+topk(3)");
  ASSERT_NE(spec.blocks(), nullptr);
  EXPECT_EQ(*spec.blocks(), (BlockChoice{8, 2, BlockChoice::Score::kBounds}));
  EXPECT_TRUE(spec.pairs().is_full());
  EXPECT_THAT(refusal("blocktopk(64)"), testing::HasSubstr("expected ',' before best of blocktopk, got ')'"));
  EXPECT_THAT(refusal("blocktopk(2,3,mean)"),
              testing::HasSubstr("expected bounds as the third argument of blocktopk, got 'mean'"));
  EXPECT_THAT(refusal("topk(2,keep=blocktopk(2,3))"),
              testing::HasSubstr("'blocktopk' stands alone before the stages, as in blocktopk(64,16)"));
  EXPECT_EQ(message_of([] { validate(parse_attention("blocktopk(8,2)"), AttentionKind::kCross); }),
            "attention 'blocktopk(8,2)': 'blocktopk' compares the positions of queries and keys, which belong to "
            "different texts in cross-attention; use full or random(k) there, with any selection and transform");
  EXPECT_EQ(print(across_texts(parse_layer_spec("4*blocktopk(8,2)+sink;4*topk(2)"))), "4*sink;4*topk(2)");
  const AttentionLayerPointer layer = resolved_layer("1*blocktopk(8,2)+topk(3);1*local(2)", 2);
  EXPECT_TRUE(layer->positional);
  EXPECT_EQ(print(layer->groups[0].spec), "blocktopk(8,2)+topk(3)");
  EXPECT_EQ(print(layer->listed[0].spec), "topk(3)");
  EXPECT_EQ(layer->listed[1].spec, layer->groups[1].spec);
}

TEST(AttentionSpec, RoutedErrorsPointAtTheMistake) {
  EXPECT_THAT(refusal("routed(16)"), testing::HasSubstr("column 10: expected ',' before window of routed, got ')'"));
  EXPECT_THAT(refusal("routed(0,3)"), testing::HasSubstr("column 8: clusters of routed is 0; it must be at least 1"));
  EXPECT_THAT(refusal("routed(2,3,casual)"),
              testing::HasSubstr("column 12: expected causal or random as the third argument of routed, got 'casual'"));
  EXPECT_THAT(refusal("routed(2,3)|local(4)"),
              testing::HasSubstr("column 12: 'routed' stands alone before the stages; expected '+', ';' or the end"));
  for (const char* text : {"local(4)&routed(2,3)", "(routed(2,3))", "topk(2,keep=routed(2,3))"})
    EXPECT_THAT(refusal(text), testing::HasSubstr("'routed' stands alone before the stages, as in routed(16,256)"));
  EXPECT_THAT(refusal("relu+routed(2,3)"), testing::HasSubstr("patterns come first"));
}

TEST(AttentionSpec, RoutedInCrossAttentionHasNoOrder) {
  for (const char* text : {"routed(2,3)", "routed(2,3,random)+topk(2)"})
    EXPECT_NO_THROW(validate(parse_attention(text), AttentionKind::kCross)) << text;
  EXPECT_EQ(message_of([] { validate(parse_attention("routed(2,3,causal)"), AttentionKind::kCross); }),
            "attention 'routed(2,3,causal)': 'causal' compares the positions of queries and keys, which belong to "
            "different texts in cross-attention; use routed(2,3) there");
}

TEST(AttentionSpec, PositionsBelongToSelfAttention) {
  for (const char* text : {"window(3)", "full&block(2)", "random(3)|strided(2)", "topk(3,keep=local(2))"}) {
    const AttentionSpec spec = parse_attention(text);
    EXPECT_NO_THROW(validate(spec, AttentionKind::kSelf));
    EXPECT_NO_THROW(validate(spec, AttentionKind::kCausal));
    EXPECT_THROW(validate(spec, AttentionKind::kCross), Error) << text;
  }
  for (const char* text : {"full", "random(3)+topk(2)", "topk(3,keep=random(2))"})
    EXPECT_NO_THROW(validate(parse_attention(text), AttentionKind::kCross)) << text;
}

TEST(AttentionSpec, HeadGroups) {
  const LayerSpec all = resolve(parse_layer_spec("topk(8)"), 6);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].num_heads, 6);
  const LayerSpec groups = resolve(parse_layer_spec("4*local(256); 2*topk(8)"), 6);
  EXPECT_EQ(print(groups), "4*local(256);2*topk(8)");
  EXPECT_EQ(print(parse_layer_spec("2*full;3*full")), "5*full");
  EXPECT_THROW(resolve(parse_layer_spec("4*full;2*topk(8)"), 8), Error);
  EXPECT_THROW(resolve(parse_layer_spec("4*relu+rmsnorm;2*relu"), 6), Error);
}

TEST(AttentionSpec, AlphaIsReadWhereAnyGroupLearnsIt) {
  EXPECT_TRUE(parameters_of(parse_layer_spec("1*full;1*entmax(learned)")).alpha);
  EXPECT_FALSE(parameters_of(parse_layer_spec("1*full;1*entmax(1.5)")).alpha);
}

TEST(AttentionSpec, RandomTextNeverCrashesAndWhatParsesReadsBack) {
  Rng rng(3);
  const std::vector<std::string> pieces = {"window", "(",    ")",     "|",          "&",       "+",          ";",
                                           "*",      ",",    "keep=", "topk(",      "8",       "0",          "-1",
                                           "1.5",    "full", "relu",  "entmax(",    "learned", "rela-g",     "oow(4)",
                                           " ",      "\n",   "\xff",  "9999999999", "mix(",    "routed(2,3", "causal"};
  int parsed = 0;
  for (int i = 0; i < 50000; ++i) {
    std::string text;
    for (uint64_t n = rng.below(9); n > 0; --n) text += pieces[rng.below(pieces.size())];
    try {
      const LayerSpec spec = parse_layer_spec(text);
      EXPECT_EQ(parse_layer_spec(print(spec)), spec) << text;
      ++parsed;
    } catch (const SpecError& e) {
      EXPECT_GE(e.column(), 1U);
      EXPECT_LE(e.column(), text.size() + 1);
    }
  }
  EXPECT_GT(parsed, 100);
}

}  // namespace
}  // namespace fovea::attention_spec_test
