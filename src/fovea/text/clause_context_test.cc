#include "fovea/text/clause_context.h"

#include <gmock/gmock.h>

#include "fovea/base/strings.h"
#include "fovea/text/clause_dictionary.h"

namespace fovea::text::clause_context_test {
namespace {

// The labels of words with tags, "He/PRP left/VBD": only those of the word `wanted`.
std::string labels_of(const std::string& text, const std::string& wanted) {
  std::vector<std::string> words, tags, labels;
  for (const std::string& token : split_words(text)) {
    const size_t slash = token.rfind('/');
    words.push_back(token.substr(0, slash));
    tags.push_back(token.substr(slash + 1));
  }
  const auto signals = ClauseDictionary::english().signals(words, tags);
  for (size_t i = 0; i < words.size(); ++i) {
    if (lower(words[i]) != wanted) continue;
    const bool is_signal = signals[i].role == ClauseDictionary::Role::kSignal;
    labels.emplace_back(is_signal ? kSignalLabels[static_cast<size_t>(signals[i].signal)] : kNoSignalLabel);
  }
  return join(labels, " ");
}

TEST(ClauseContext, ConjunctionsBeforeAClauseWithAVerb) {
  EXPECT_EQ(labels_of("He/PRP left/VBD after/IN the/DT game/NN ended/VBD ./.", "after"), "SCONJ");
  EXPECT_EQ(labels_of("He/PRP left/VBD after/IN the/DT game/NN ./.", "after"), "ADP");
  EXPECT_EQ(labels_of("After/IN the/DT war/NN ,/, he/PRP left/VBD ./.", "after"), "ADP");
  EXPECT_EQ(labels_of("He/PRP fell/VBD as/IN he/PRP ran/VBD ./.", "as"), "SCONJ");
  EXPECT_EQ(labels_of("He/PRP works/VBZ as/IN a/DT cook/NN in/IN the/DT house/NN ./.", "as"), "ADP");
  EXPECT_EQ(labels_of("Profits/NNS fell/VBD as/IN expected/VBN ./.", "as"), "SCONJ");
  EXPECT_EQ(labels_of("Since/IN 1990/CD he/PRP has/VBZ lived/VBN here/RB ./.", "since"), "ADP");
  EXPECT_EQ(labels_of("I/PRP know/VBP him/PRP since/IN he/PRP was/VBD born/VBN ./.", "since"), "SCONJ");
  EXPECT_EQ(labels_of("He/PRP has/VBZ since/IN gone/VBN and/CC is/VBZ lost/VBN ./.", "since"), "ADP");
  EXPECT_EQ(labels_of("Shares/NNS fell/VBD before/IN the/DT bank/NN of/IN the/DT town/NN opened/VBD ./.", "before"),
            "SCONJ");
  EXPECT_EQ(labels_of("They/PRP ate/VBD before/IN leaving/VBG ./.", "before"), "ADP");
  EXPECT_EQ(labels_of("Wait/VB until/IN it/PRP is/VBZ done/VBN ./.", "until"), "SCONJ");
  EXPECT_EQ(labels_of("He/PRP stayed/VBD until/IN 1986/CD and/CC voted/VBD ./.", "until"), "ADP");
  EXPECT_EQ(labels_of("They/PRP earn/VBP more/JJR than/IN we/PRP do/VBP ./.", "than"), "SCONJ");
  EXPECT_EQ(labels_of("More/JJR than/IN 20/CD people/NNS died/VBD ./.", "than"), "ADP");
  EXPECT_EQ(labels_of("He/PRP is/VBZ taller/JJR than/IN me/PRP ./.", "than"), "ADP");
}

TEST(ClauseContext, VerbsOfOtherClausesDoNotCount) {
  EXPECT_EQ(labels_of("She/PRP left/VBD after/IN the/DT man/NN who/WP came/VBD ./.", "after"), "ADP");
  EXPECT_EQ(labels_of("She/PRP left/VBD after/IN the/DT man/NN who/WP came/VBD spoke/VBD ./.", "after"), "SCONJ");
  EXPECT_EQ(labels_of("Banks/NNS ,/, which/WDT until/IN last/JJ year/NN were/VBD free/JJ ,/, fell/VBD ./.", "until"),
            "ADP");
  EXPECT_EQ(labels_of("He/PRP slept/VBD before/IN lunch/NN but/CC the/DT noise/NN woke/VBD him/PRP ./.", "before"),
            "ADP");
  EXPECT_EQ(labels_of("It/PRP fell/VBD after/IN a/DT stone/NN (/( it/PRP was/VBD big/JJ )/) ./.", "after"), "ADP");
  EXPECT_EQ(labels_of("It/PRP fell/VBD after/IN a/DT stone/NN (/( a/DT big/JJ one/CD )/) hit/VBD it/PRP ./.", "after"),
            "SCONJ");
}

TEST(ClauseContext, ForAndWhen) {
  EXPECT_EQ(labels_of("He/PRP ran/VBD ,/, for/IN he/PRP was/VBD late/JJ ./.", "for"), "SCONJ");
  EXPECT_EQ(labels_of("He/PRP ran/VBD for/IN a/DT man/NN who/WP was/VBD late/JJ ./.", "for"), "ADP");
  EXPECT_EQ(labels_of("He/PRP paid/VBD ,/, for/IN years/NNS ,/, what/WP he/PRP owed/VBD ./.", "for"), "ADP");
  EXPECT_EQ(labels_of("When/WRB he/PRP came/VBD ,/, she/PRP left/VBD ./.", "when"), "SCONJ");
  EXPECT_EQ(labels_of("She/PRP left/VBD when/WRB asked/VBN ./.", "when"), "SCONJ");
  EXPECT_EQ(labels_of("When/WRB did/VBD he/PRP come/VB ?/.", "when"), "PRON");
  EXPECT_EQ(labels_of("the/DT day/NN when/WRB he/PRP came/VBD", "when"), "PRON");
  EXPECT_EQ(labels_of("on/IN Monday/NNP ,/, when/WRB he/PRP came/VBD", "when"), "PRON");
  EXPECT_EQ(labels_of("I/PRP asked/VBD when/WRB he/PRP came/VBD ./.", "when"), "PRON");
  EXPECT_EQ(labels_of("since/IN when/WRB he/PRP came/VBD ./.", "when"), "PRON");
  EXPECT_EQ(labels_of("He/PRON left/VERB when/SCONJ it/PRON rained/VERB ./PUNCT", "when"), "SCONJ");
}

// Participles behind a form of "be" or "have" belong to the predicate.
TEST(ClauseContext, ParticiplesThatModify) {
  EXPECT_EQ(labels_of("He/PRP was/VBD arrested/VBN by/IN police/NN ./.", "arrested"), "O");
  EXPECT_EQ(labels_of("A/DT man/NN arrested/VBN by/IN police/NN left/VBD ./.", "arrested"), "PART");
  EXPECT_EQ(labels_of("She/PRP 's/VBZ n't/RB yet/RB gone/VBN ./.", "gone"), "O");
  EXPECT_EQ(labels_of("The/DT man/NN 's/POS lost/VBN dog/NN ./.", "lost"), "PART");
  EXPECT_EQ(labels_of("Having/VBG been/VBN asked/VBN ,/, she/PRP left/VBD singing/VBG ./.", "having"), "PART");
  EXPECT_EQ(labels_of("Having/VBG been/VBN asked/VBN ,/, she/PRP left/VBD singing/VBG ./.", "been"), "O");
  EXPECT_EQ(labels_of("Having/VBG been/VBN asked/VBN ,/, she/PRP left/VBD singing/VBG ./.", "asked"), "O");
  EXPECT_EQ(labels_of("Having/VBG been/VBN asked/VBN ,/, she/PRP left/VBD singing/VBG ./.", "singing"), "PART");
  EXPECT_EQ(labels_of("They/PRP are/VBP being/VBG watched/VBN ./.", "watched"), "O");
  EXPECT_EQ(labels_of("a/DT human/JJ being/NN loved/VBN by/IN all/DT", "loved"), "PART");
  EXPECT_EQ(labels_of("It/PRP is/VBZ very/RB slowly/RB falling/VBG ./.", "falling"), "O");
  EXPECT_EQ(labels_of("Singing/VBG ,/, he/PRP left/VBD ./.", "singing"), "PART");
}

TEST(ClauseContext, ToBeforeAnInfinitiveAndOtherwise) {
  EXPECT_EQ(labels_of("to/TO go/VB to/TO Rome/NNP", "to"), "TO ADP");
  EXPECT_EQ(labels_of("to/TO boldly/RB go/VB near/RB to/TO him/PRP", "to"), "TO ADP");
  EXPECT_EQ(labels_of("he/PRP wants/VBZ to/TO ./.", "to"), "TO");
  EXPECT_EQ(labels_of("he/PRP wants/VBZ to/TO", "to"), "TO");
  EXPECT_EQ(labels_of("to/PART go/VERB to/ADP Rome/PROPN", "to"), "TO ADP");
}

TEST(ClauseContext, WordsAtTheEnds) {
  for (const char* word : {"after", "as", "since", "before", "until", "than", "for", "when", "to"})
    for (const char* tag : {"IN", "WRB", "TO", "ADV"})
      EXPECT_NE(labels_of(cat(word, "/", tag), word), "SCONJ") << word << tag;
}

}  // namespace
}  // namespace fovea::text::clause_context_test
