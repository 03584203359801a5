#include "fovea/text/clauses.h"

#include <gmock/gmock.h>

#include <map>

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"
#include "fovea/text/clause_command.h"
#include "fovea/text/clause_flags.h"
#include "fovea/text/words.h"

namespace fovea::text::clauses_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

std::vector<std::string> split_english(std::string_view text, int64_t level) {
  return clauses(text, clause_starts(text, ClauseDictionary::english()), level);
}

TEST(Clauses, SignalsOfEachLevelAddBoundaries) {
  const std::string text = "He came, and she who won went to Rome to sing.";
  EXPECT_THAT(split_english(text, 1), ElementsAre("He came, ", "and she who won went to Rome to sing."));
  EXPECT_THAT(split_english(text, 2), ElementsAre("He came, ", "and she who won went to Rome to sing."));
  EXPECT_THAT(split_english(text, 3), ElementsAre("He came, ", "and she ", "who won went to Rome to sing."));
  EXPECT_THAT(split_english(text, 5), ElementsAre("He came, ", "and she ", "who won went ", "to Rome ", "to sing."));
}

TEST(Clauses, PunctuationEndsAClauseWithWhatClosesIt) {
  EXPECT_THAT(split_english("\"Go!\" (Now.) He went?!", 1), ElementsAre("\"Go!\" ", "(Now.) ", "He went?!"));
  EXPECT_THAT(split_english("Mr. Lee paid 3.5 or 1,000 at 10:30.", 1),
              ElementsAre("Mr. Lee paid 3.5 or 1,000 at 10:30."));
  EXPECT_THAT(split_english("well-known, don't", 1), ElementsAre("well-known, ", "don't"));
  EXPECT_THAT(split_english("他来了，但是她没来。", 1), ElementsAre("他来了，", "但是她没来。"));
}

TEST(Clauses, JoinedAreTheText) {
  for (const std::string text :
       {"", " ", " a , b ", ",,,", "and and and", "a\xc3\xa4, \xff b", "。，x", "(", "to", ". to ."}) {
    std::vector<size_t> places;
    for (const ClauseStart& start : clause_starts(text, ClauseDictionary::english())) places.push_back(start.at);
    EXPECT_TRUE(std::ranges::is_sorted(places));
    size_t before = 0;
    for (int64_t level = 1; level <= kClauseLevels; ++level) {
      const std::vector<std::string> parts = split_english(text, level);
      EXPECT_EQ(join(parts, ""), text);
      EXPECT_GE(parts.size(), before);  // the levels are nested
      before = parts.size();
    }
  }
  std::string words;
  for (int i = 0; i < 10000; ++i) words += "word ";
  EXPECT_THAT(split_english(words, 6), ElementsAre(words));
}

TEST(Clauses, TagsDecide) {
  const ClauseDictionary& english = ClauseDictionary::english();
  const std::vector<std::string> words = {"the", "fact", "that", "that", "singing", "ended"};
  const auto levels = [&](const std::vector<std::string>& tags) {
    std::vector<int64_t> result;
    for (const ClauseStart& start : clause_starts(words, tags, english))
      result.push_back(start.level * 10 + static_cast<int64_t>(start.at));
    return result;
  };
  EXPECT_THAT(levels({"DT", "NN", "IN", "DT", "VBG", "VBD"}), ElementsAre(32, 64));
  EXPECT_THAT(levels({"DT", "NN", "IN", "DT", "NN", "VBD"}), ElementsAre(32));
  EXPECT_THAT(levels({}), ElementsAre(32, 33));
}

TEST(Clauses, OpeningMarksEndNothingAndAreNoWords) {
  EXPECT_THAT(split_english("He said: \u201cAnd now (that) [x].\u201d", 2),
              ElementsAre("He said: ", "\u201cAnd now (that) [x].\u201d"));
  EXPECT_THAT(split_english("a (\u201cand b", 2), ElementsAre("a ", "(\u201cand b"));
  EXPECT_THAT(split_english("(and b", 2), ElementsAre("(and b"));
  const std::vector<std::string> words = {"Go", ",", "``", "now", "''", ".", "-LRB-", "he", "-RRB-"};
  std::vector<size_t> places;
  for (const ClauseStart& start :
       clause_starts(words, std::vector<std::string>{"VB", ",", "``", "RB", "''", ".", "-LRB-", "PRP", "-RRB-"},
                     ClauseDictionary::english()))
    places.push_back(start.at);
  EXPECT_THAT(places, ElementsAre(2, 6));
}

TEST(Clauses, AnApostropheOfAGenitiveIsNoMark) {
  const std::vector<std::string> words = {"officials", "'", "cars", ",", "'"};
  const auto signals =
      ClauseDictionary::english().signals(words, std::vector<std::string>{"NNS", "POS", "NNS", ",", "''"});
  EXPECT_EQ(signals[1].role, ClauseDictionary::Role::kOther);
  EXPECT_EQ(signals[4].role, ClauseDictionary::Role::kClosing);
}

TEST(Clauses, EntriesWithAContextNeedTags) {
  const ClauseDictionary dictionary =
      ClauseDictionary::parse("conjunction\tuntil\tIN\tclause\nrelative\tplus\t\ttagged\n", "d");
  const std::vector<std::string> words = {"until", "plus", "he", "came"};
  const auto levels = [&](const std::vector<std::string>& tags) {
    std::vector<bool> signals;
    for (const auto& word : dictionary.signals(words, tags))
      signals.push_back(word.role == ClauseDictionary::Role::kSignal);
    return signals;
  };
  EXPECT_THAT(levels({"IN", "CC", "PRP", "VBD"}), ElementsAre(true, true, false, false));
  EXPECT_THAT(levels({"IN", "CC", "PRP", "NN"}), ElementsAre(false, true, false, false));
  EXPECT_THAT(levels({}), testing::Each(false));
}

TEST(Clauses, DictionaryErrorsNameTheLine) {
  const auto refusal = [](const std::string& bytes) {
    return message_of([&] { ClauseDictionary::parse(bytes, "d.txt"); });
  };
  EXPECT_THAT(refusal(""), HasSubstr("'d.txt' has no signal words"));
  EXPECT_THAT(refusal("# only\n\n"), HasSubstr("has no signal words"));
  EXPECT_THAT(refusal("conjunction and"), HasSubstr("line 1: got 1 column; expected a kind, words and perhaps tags"));
  EXPECT_THAT(refusal("conjunction\tand\nrelativ\twho\n"),
              HasSubstr("line 2: got the kind 'relativ'; expected one of"));
  EXPECT_THAT(refusal("relativ\twho"), HasSubstr("did you mean 'relative'?"));
  EXPECT_THAT(refusal("relative\t \tWP"), HasSubstr("line 1: got 0 words; expected 1 to 16"));
  EXPECT_THAT(refusal("participle\t*"), HasSubstr("'*' stands for any word with certain tags"));
  EXPECT_THAT(refusal("relative\twh\xff"), HasSubstr("line 1: is not UTF-8"));
  EXPECT_THAT(refusal("relative\twho\t\t\t"), HasSubstr("got 5 columns"));
  EXPECT_THAT(refusal("relative\twho\tWP\tclaus"),
              HasSubstr("line 1: got the context 'claus'; expected one of anywhere"));
  EXPECT_THAT(refusal("relative\twho\tWP\t"), HasSubstr("got the context ''"));
  EXPECT_EQ(ClauseDictionary::parse("relative\tqui\r\n", "d").bytes(), "relative\tqui\r\n");
}

TEST(Clauses, OtherLanguagesByTheirDictionary) {
  const ClauseDictionary chinese = ClauseDictionary::parse("punctuation\t，\nconjunction\t但是\n", "zh");
  const std::string text = "他来但是她，走";
  EXPECT_THAT(clauses(text, clause_starts(text, chinese), 2), ElementsAre("他来", "但是她，", "走"));
}

TEST(Clauses, CapitalsOfAnyAlphabetAreTheSameWords) {
  const ClauseDictionary words =
      ClauseDictionary::parse("punctuation\t.\nconjunction\tи\nconjunction\tÄhnlich wie\n", "words");
  for (const std::string text : {"x и y", "x И y", "x ähnlich wie y", "x ÄHNLICH Wie y"})
    EXPECT_THAT(clause_starts(text, words), ElementsAre(ClauseStart{2, 2})) << text;
}

TEST(Clauses, ALineNamesSeveralAbbreviations) {
  const ClauseDictionary words = ClauseDictionary::parse("punctuation\t.\nabbreviation\tdr mrs. Ü.\n", "words");
  const std::string text = "Dr. A and Mrs. B and ü. C. They left";
  EXPECT_THAT(clauses(text, clause_starts(text, words), 1), ElementsAre("Dr. A and Mrs. B and ü. C. ", "They left"));
}

struct Columns {
  TestFolder folder;
  ClauseOptions options;
  explicit Columns(const std::string& text) {
    write_file(folder / "in", text);
    options.input = folder / "in";
    options.output = folder / "out";
  }
  std::string run() const {
    run_clauses(options);
    return read_file(options.output);
  }
  std::string refusal() const {
    return message_of([&] { run_clauses(options); });
  }
};

TEST(ClauseCommand, PrintsALinePerLineAndLevel) {
  Columns text("He came, and left.\n\nyes\tno\n");
  text.options.level = 2;
  EXPECT_EQ(text.run(), "He came, \tand left.\n\nyes no\n");
  text.options.level = 0;
  EXPECT_THAT(split(text.run(), '\n'), testing::SizeIs(3 * kClauseLevels + 1));
}

TEST(ClauseCommand, FlagsSignalWords) {
  Columns text("He came,and left.\n\nno\n");
  text.options.flags = true;
  EXPECT_EQ(text.run(), "He came <c1> , <c2> and left <c1> .\n\nno\n");
  text.options.level = 1;
  EXPECT_EQ(text.run(), "He came <c1> ,and left <c1> .\n\nno\n");
  text.options.label = true;
  EXPECT_THAT(text.refusal(), HasSubstr("--flags: it reads text"));
}

TEST(ClauseCommand, LabelsWordsAndLetsCorrectionsWin) {
  Columns text("He PRP x\ncame VBD x\n, , x\nthat WDT x\n\nto TO x\n");
  text.options.label = true;
  EXPECT_EQ(text.run(), "He PRP x O\ncame VBD x O\n, , x PUNCT\nthat WDT x PRON\n\nto TO x TO\n\n");
  write_file(text.folder / "fix", "# fixes\nThat * SCONJ\ncame VBD PART\ncame VB TO\n");
  text.options.corrections = text.folder / "fix";
  EXPECT_EQ(text.run(), "He PRP x O\ncame VBD x PART\n, , x PUNCT\nthat WDT x SCONJ\n\nto TO x TO\n\n");
}

TEST(ClauseCommand, SplitsColumnsByTags) {
  Columns text("Who WP\nleft VBD\nsinging VBG\n\n\nhe PRP\n");
  text.options.tag_column = 2;
  text.options.level = 6;
  EXPECT_EQ(text.run(), "Who left \tsinging\nhe\n");
  // Tags in small letters are tags if the dictionary has one of them.
  Columns own("who wp\nruns vbz\n");
  write_file(own.folder / "words", "relative\twho\twp\n");
  own.options.dictionary = own.folder / "words";
  own.options.tag_column = 2;
  own.options.level = 3;
  EXPECT_EQ(own.run(), "who runs\n");
}

// Tags by the words alone, as a model would.
ClauseTagger tagger_of(const std::map<std::string, std::string>& tags, bool gives_labels, size_t* calls) {
  return {.tag = [=](std::span<const ClauseTagger::Sentence> sentences) -> std::vector<ClauseTagger::Sentence> {
            ++*calls;
            std::vector<ClauseTagger::Sentence> result;
            for (const ClauseTagger::Sentence& words : sentences) {
              EXPECT_FALSE(words.empty());
              result.emplace_back();
              for (const std::string& word : words)
                result.back().push_back(tags.contains(word) ? tags.at(word) : gives_labels ? "O" : "NN");
            }
            return result;
          },
          .gives_labels = gives_labels};
}

TEST(ClauseCommand, TagsComeFromAModel) {
  Columns text("The fact that that song, singing.\n\n\tthat\n");
  text.options.tagger = "model";
  text.options.level = 6;
  size_t calls = 0;
  const auto run = [&](const ClauseTagger& tagger) {
    calls = 0;
    run_clauses(text.options, [&] { return tagger; });
    return read_file(text.options.output);
  };
  const ClauseTagger pos = tagger_of({{"that", "DT"}, {"singing", "VBG"}, {",", ","}, {".", "."}}, false, &calls);
  EXPECT_EQ(run(pos), "The fact that that song, \tsinging.\n\n that\n") << "no 'that' is a relative word";
  EXPECT_EQ(calls, 1U) << "all sentences at once";
  text.options.window = 2;
  EXPECT_EQ(run(pos), "The fact that that song, \tsinging.\n\n that\n");
  EXPECT_EQ(calls, 2U);
  // The labels of a model count, not the dictionary; names among them are not signals.
  const ClauseTagger labels = tagger_of({{"fact", "SCONJ"}, {"song", "B-PER"}, {",", "PUNCT"}}, true, &calls);
  EXPECT_EQ(run(labels), "The \tfact that that song, \tsinging.\n\n that\n");
  text.options.level = 0;
  text.options.flags = true;
  EXPECT_EQ(run(labels), "The <c2> fact that that song <c1> , singing.\n\n that\n");
}

TEST(ClauseCommand, LabelsByAModel) {
  Columns text("that x\n\" x\n, x\n\" x\n\nsinging\tx\n");
  text.options.tagger = "model";
  text.options.label = true;
  size_t calls = 0;
  const auto run = [&](const ClauseTagger& tagger) {
    run_clauses(text.options, [&] { return tagger; });
    return read_file(text.options.output);
  };
  EXPECT_EQ(run(tagger_of({{"that", "WDT"}, {"singing", "VBG"}, {",", ","}}, false, &calls)),
            "that x PRON\n\" x PUNCT\n, x PUNCT\n\" x PUNCT\n\nsinging\tx\tPART\n\n");
  EXPECT_EQ(run(tagger_of({{"that", "ADP"}, {"\"", "PUNCT"}}, true, &calls)),
            "that x ADP\n\" x PUNCT\n, x O\n\" x PUNCT\n\nsinging\tx\tO\n\n");
  write_file(text.folder / "fix", "that * TO\n");
  text.options.corrections = text.folder / "fix";
  EXPECT_THAT(run(tagger_of({}, true, &calls)), StartsWith("that x TO\n"));
}

TEST(ClauseCommand, RefusesOptionsThatDoNotGoWithATagger) {
  Columns text("a\n");
  text.options.window = 5;
  EXPECT_THAT(text.refusal(), HasSubstr("--window: it is for --tagger"));
  text.options.tagger = "model";
  text.options.tag_column = 2;
  EXPECT_THAT(text.refusal(), HasSubstr("--tagger and --tag-column: both say where tags come from"));
}

TEST(Clauses, LabelsOfWordsAreSignals) {
  const std::vector<std::string> words = {"\"", "Go", "!", "\"", "when", "x"};
  const auto signals = ClauseDictionary::english().labelled_signals(
      words, std::vector<std::string>{"PUNCT", "O", "PUNCT", "PUNCT", "SCONJ", "NN"});
  using Role = ClauseDictionary::Role;
  std::vector<Role> roles;
  for (const auto& signal : signals) roles.push_back(signal.role);
  EXPECT_THAT(roles,
              ElementsAre(Role::kClosing, Role::kOther, Role::kSignal, Role::kClosing, Role::kSignal, Role::kOther));
  EXPECT_EQ(signals[4].signal, Signal::kConjunction);
  EXPECT_THAT(clause_starts(signals), ElementsAre(ClauseStart{4, 1}));
}

// A vocabulary with flags, of a text.
Vocab flagged_vocab(const TestFolder& folder, const std::string& type, const std::string& text) {
  write_file(folder / "words", text);
  train_vocab({.inputs = {folder / "words"},
               .output = folder / "v.spm",
               .size = type == "word" || type == "char" ? 0 : 40,
               .type = type,
               .control_pieces = clause_flags()});
  return Vocab::load(folder / "v.spm");
}

TEST(ClauseFlags, StandBeforeThePieceInWhichTheWordBegins) {
  std::string text = "the cat , and who ran . he saw that to be it\n";
  for (const char* word :
       {"the", "then", "there", "cat", "cats", "caught", "ran", "rant", "who", "whose", "saw", "sawed"})
    for (const char* next : {"that", "those", "bed", "bet", "and", "hands"}) text += cat(word, " ", next, " to it\n");
  for (const char* type : {"word", "char", "unigram", "bpe"}) {
    SCOPED_TRACE(type);
    const TestFolder folder;
    const Vocab plain = flagged_vocab(folder, type, text);
    Vocab vocab = plain;
    add_clause_flags(vocab, ClauseDictionary::english(), "v.spm");
    for (const std::string line : {"the cat , and who ran .", "", " ", ",", "and", "cat zzz , <c1> it", "it, and"}) {
      SCOPED_TRACE(line);
      // Pieces made by hand: each piece that has the first byte of signal words has their flags before it.
      std::vector<int64_t> ids, words;
      std::vector<std::string> pieces;
      const std::vector<PieceSpan> spans = plain.encode_spans(line);
      const std::vector<std::string> own = plain.pieces(line);
      for (size_t i = 0; i < spans.size(); ++i) {
        for (const SignalWord& word : signal_words(line, ClauseDictionary::english())) {
          if (word.at < spans[i].begin || word.at >= spans[i].end) continue;
          const std::string flag = cat("<c", level_of(word.signal), ">");
          ids.push_back(*plain.find(flag));
          pieces.push_back(flag);
        }
        ids.push_back(spans[i].id);
        pieces.push_back(own[i]);
      }
      EXPECT_EQ(vocab.encode(line), ids);
      EXPECT_EQ(vocab.pieces(line), pieces);
      EXPECT_EQ(vocab.decode(ids), plain.decode(plain.encode(line))) << "flags are not printed";
      const WordPieces aligned = encode_words(vocab, line);
      if (aligned.num_words > 0) {
        EXPECT_EQ(aligned.pieces, ids);
        EXPECT_TRUE(std::ranges::is_sorted(aligned.words));
      }
    }
  }
}

TEST(ClauseFlags, BelongToTheWordBehindThem) {
  const TestFolder folder;
  Vocab vocab = flagged_vocab(folder, "word", "the cat , and ran");
  add_clause_flags(vocab, ClauseDictionary::english(), "v.spm");
  const std::string line = "the cat , and ran";
  EXPECT_EQ(join(vocab.pieces(line), " "), "\u2581the \u2581cat <c1> \u2581, <c2> \u2581and \u2581ran");
  EXPECT_THAT(encode_words(vocab, line).words, ElementsAre(0, 1, 2, 2, 3, 3, 4));
  std::vector<int64_t> ids = vocab.encode(line);
  ids.push_back(vocab.eos());
  EXPECT_THAT(clause_levels(vocab, ClauseDictionary::english(), ids), ElementsAre(1, 0, 0, 0, 1, 0, 0, 0));
}

TEST(ClauseFlags, AVocabularyWithoutThemIsRefused) {
  const TestFolder folder;
  write_file(folder / "words", "a b <c1>\n");
  train_vocab({.inputs = {folder / "words"}, .output = folder / "v.spm", .type = "word"});
  Vocab vocab = Vocab::load(folder / "v.spm");
  EXPECT_EQ(message_of([&] { add_clause_flags(vocab, ClauseDictionary::english(), "v.spm"); }),
            "v.spm: the vocabulary has no piece <c1>, which --clause-flags needs; make it with `fovea vocab "
            "--clause-flags`");
}

TEST(ClauseCommand, RefusesBadInputInOneLine) {
  Columns ragged("a NN x\nb NN\n");
  ragged.options.label = true;
  EXPECT_THAT(ragged.refusal(), HasSubstr("line 2: got 2 columns; expected 3 as in the lines before"));
  ragged.options.tag_column = 4;
  EXPECT_THAT(ragged.refusal(), HasSubstr("line 1: got 3 columns; expected at least 4"));
  Columns plain("A man in a hat\n");
  plain.options.tag_column = 2;
  EXPECT_THAT(plain.refusal(),
              HasSubstr("got 'man' in column 2 of the word 'A', and no other word has a part-of-speech "
                        "tag there; expected a word and its tag per line; for plain text leave out"));
  Columns longer("A man in a hat .\nTwo men\n");
  longer.options.tag_column = 2;
  EXPECT_THAT(longer.refusal(), HasSubstr("line 2: got 2 columns; expected 6 as in the lines before; for plain text"));
  Columns labels("a NN\n");
  labels.options.label = true;
  write_file(labels.folder / "fix", "a NN NOUN\n");
  labels.options.corrections = labels.folder / "fix";
  EXPECT_THAT(labels.refusal(),
              HasSubstr("line 1: got the label 'NOUN'; expected one of PUNCT, SCONJ, PRON, ADP, TO, PART, O"));
  write_file(labels.folder / "fix", "a NN\n");
  EXPECT_THAT(labels.refusal(), HasSubstr("line 1: got 2 columns; expected three"));
  labels.options.label = false;
  EXPECT_THAT(labels.refusal(), HasSubstr("--corrections: they are of labels"));
}

}  // namespace
}  // namespace fovea::text::clauses_test
