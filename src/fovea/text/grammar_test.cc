#include "fovea/text/grammar.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "fovea/base/strings.h"
#include "fovea/text/grammar_lexicon.h"

namespace fovea::text::grammar_test {
namespace {

using Links = std::set<std::pair<size_t, size_t>>;

Links links_of(const std::string& alignment) {
  Links links;
  for (const std::string& link : split_words(alignment)) {
    const size_t dash = link.find('-');
    links.emplace(std::stoul(link.substr(0, dash)), std::stoul(link.substr(dash + 1)));
  }
  return links;
}

// Every form of a source word with the stem that its translation must contain, made from the lexicon alone.
std::map<std::string, std::set<std::string>> stems() {
  std::map<std::string, std::set<std::string>> stems = {
      {"ke", {"dr"}}, {"un", {"en"}}, {"no", {"nik"}}, {"sat", {"dasch"}}, {".", {"."}}};
  for (const auto* words : {&lexicon().nouns, &lexicon().names, &lexicon().verbs, &lexicon().adjectives,
                            &lexicon().adverbs, &lexicon().prepositions})
    for (const Entry& word : *words)
      for (const char* ending : {"", "s", "t"}) stems[word.source + ending].insert(word.target);
  for (const Entry& verb : lexicon().verbs) stems[verb.source + "ed"] = {verb.target, "ha"};  // and the auxiliary
  return stems;
}

TEST(Grammar, EveryWordIsAlignedToItsTranslation) {
  const auto known = stems();
  for (const Pair& pair : generate_bitext({.pairs = 500}).pairs) {
    const std::vector<std::string> source = split_words(pair.source), target = split_words(pair.target);
    const Links links = links_of(pair.alignment);
    std::set<size_t> from, to;
    for (const auto& [i, j] : links) {
      ASSERT_LT(i, source.size());
      ASSERT_LT(j, target.size());
      from.insert(i);
      to.insert(j);
      const auto& wanted = known.at(source[i]);
      EXPECT_TRUE(std::any_of(wanted.begin(), wanted.end(),
                              [&](const std::string& stem) { return target[j].find(stem) != std::string::npos; }))
          << source[i] << " and " << target[j] << " in " << pair.source << " | " << pair.target;
    }
    EXPECT_EQ(from.size(), source.size()) << pair.source;
    EXPECT_EQ(to.size(), target.size()) << pair.target;
  }
}

TEST(Grammar, OrderAndFusionDiffer) {
  int64_t crossing = 0, fused = 0, split_verbs = 0;
  for (const Pair& pair : generate_bitext({.pairs = 500}).pairs) {
    const Links links = links_of(pair.alignment);
    std::map<size_t, int> of_source, of_target;
    bool crosses = false;
    for (const auto& [i, j] : links) {
      ++of_source[i];
      ++of_target[j];
      for (const auto& [k, l] : links) crosses = crosses || (i < k && j > l);
    }
    crossing += crosses ? 1 : 0;
    for (const auto& [i, count] : of_source) split_verbs += count == 2 ? 1 : 0;
    for (const auto& [j, count] : of_target) fused += count == 2 ? 1 : 0;
  }
  // More than a tenth of 500 sentences show each: an identity grammar would show none.
  EXPECT_GT(crossing, 50);
  EXPECT_GT(fused, 50);
  EXPECT_GT(split_verbs, 50);
}

TEST(Grammar, ArticlesAndAdjectivesAgreeWithTheirNoun) {
  const Entry& adjective = lexicon().adjectives[0];
  for (size_t a = 0; a < 3; ++a) {
    for (size_t b = a + 1; b < 3; ++b) {
      EXPECT_NE(target_adjective(adjective, a, Number::kSingular), target_adjective(adjective, b, Number::kSingular));
      for (const bool definite : {true, false})
        EXPECT_NE(target_article(definite, a, Number::kSingular), target_article(definite, b, Number::kSingular));
    }
    EXPECT_NE(target_adjective(adjective, a, Number::kPlural), target_adjective(adjective, a, Number::kSingular));
    for (const bool definite : {true, false})
      EXPECT_NE(target_article(definite, a, Number::kPlural), target_article(definite, a, Number::kSingular));
  }
}

TEST(Grammar, SameSeedSameSentencesAndNoneTwice) {
  const Bitext one = generate_bitext({.pairs = 300, .seed = 5}), again = generate_bitext({.pairs = 300, .seed = 5}),
               other = generate_bitext({.pairs = 300, .seed = 6});
  std::set<std::string> sources;
  int64_t shared = 0;
  for (size_t i = 0; i < one.pairs.size(); ++i) {
    EXPECT_EQ(one.pairs[i].source, again.pairs[i].source);
    EXPECT_EQ(one.pairs[i].target, again.pairs[i].target);
    sources.insert(one.pairs[i].source);
    shared += one.pairs[i].source == other.pairs[i].source ? 1 : 0;
  }
  EXPECT_EQ(sources.size(), 300);
  EXPECT_LT(shared, 3);
}

}  // namespace
}  // namespace fovea::text::grammar_test
