#include "fovea/text/corpus_clean.h"

#include <gmock/gmock.h>

namespace fovea::text::corpus_clean_test {
namespace {

using testing::ElementsAre;
using testing::Field;

struct Captions {
  std::string source, target;
};

Captions without_marks(Captions captions, Kind kind = Kind::kInterface) {
  strip_accelerators(captions.source, captions.target, kind);
  return captions;
}

TEST(Clean, AcceleratorsOfCaptions) {
  for (const char* mark : {"_", "~", "&"}) {
    const std::string m = mark;
    const Captions captions = without_marks({m + "File", "Da" + m + "tei"});
    EXPECT_EQ(captions.source, "File");
    EXPECT_EQ(captions.target, "Datei");
  }
  EXPECT_EQ(without_marks({"Save _As", "Speichern unter"}).source, "Save As");
  EXPECT_EQ(without_marks({"_Open", "打开(_O)"}).target, "打开");
  EXPECT_EQ(without_marks({"_Öffnen", "Op_en"}).source, "Öffnen");
}

TEST(Clean, WhatOnlyLooksLikeAnAcceleratorStays) {
  EXPECT_EQ(without_marks({"Set max_size", "max_size setzen"}).source, "Set max_size");
  EXPECT_EQ(without_marks({"Cut & paste", "Schneiden & kleben"}).source, "Cut & paste");
  EXPECT_EQ(without_marks({"a_b_c", "x"}).source, "a_b_c");
  EXPECT_EQ(without_marks({"R&D", "R&D"}).source, "R&D");
  EXPECT_EQ(without_marks({"~5 of them", "etwa 5 davon"}, Kind::kProse).source, "~5 of them");
  EXPECT_EQ(without_marks({"_File", "_Datei"}, Kind::kProse).source, "File");
  EXPECT_EQ(without_marks({"takes ~5 minutes", "dauert ~5 Minuten"}, Kind::kProse).source, "takes ~5 minutes");
  EXPECT_EQ(without_marks({"few (~8) members", "wenige (~8) Mitglieder"}, Kind::kProse).source, "few (~8) members");
  EXPECT_EQ(without_marks({"the flag (_x)", "die Option (_x)"}, Kind::kProse).target, "die Option (_x)");
  EXPECT_EQ(without_marks({"The _private member", "Das Feld _private"}, Kind::kProse).source, "The _private member");
  EXPECT_EQ(without_marks({"_Open", "打开(_O)"}, Kind::kProse).target, "打开");
  EXPECT_EQ(without_marks({"_OK", "_OK"}).target, "OK");
  EXPECT_EQ(without_marks({"R&D is good", "F&E ist gut"}).source, "R&D is good");
  EXPECT_EQ(without_marks({"R&D is good", "F&E ist gut"}, Kind::kProse).target, "F&E ist gut");
  for (const char* entity : {"Tom &amp; Jerry", "a mcdonald &apos;s .", "it&#39;s"}) {
    EXPECT_EQ(without_marks({entity, entity}, Kind::kProse).source, entity);
    EXPECT_EQ(without_marks({entity, entity}).target, entity);
  }
}

TEST(Clean, MarkupGoesAndComparisonsStay) {
  EXPECT_EQ(strip_markup("<b>bold</b> and <a href=\"x\">link</a>"), "bold and link");
  EXPECT_EQ(strip_markup("Press<br/>the<BR CLEAR=all>green<br />button<br>"), "Press the green button ");
  EXPECT_EQ(strip_markup("<p>One</p><ul><li>two</li></ul>"), " One   two  ");
  EXPECT_EQ(strip_markup("un<b>bro</b>ken<wbr><brand>"), "unbroken");
  EXPECT_EQ(strip_markup("if a < b and c > d"), "if a < b and c > d");
  EXPECT_EQ(strip_markup("5 <6> 7"), "5 <6> 7");
  EXPECT_EQ(strip_markup("&lt;kept&gt; &amp; <!-- gone -->"), "<kept> & ");
  EXPECT_EQ(strip_markup("open <b never closed"), "open <b never closed");
  EXPECT_EQ(strip_markup("<"), "<");
}

TEST(Clean, RewriterCountsWhatItChanged) {
  const CorpusOptions options;
  Rewriter rewriter(options);
  Pair marked{"_File  name", "_Datei\tname"}, tagged{"<b>x</b>", "y"}, entity{"a", "R&amp;D"}, good{"a", "b"},
      broken{"\xff _x", "y"};
  for (Pair* pair : {&marked, &tagged, &entity, &good, &broken}) rewriter.rewrite(*pair, Kind::kInterface);
  EXPECT_EQ(marked.source, "File name");
  EXPECT_EQ(marked.target, "Datei name");
  EXPECT_EQ(tagged.source, "x");
  EXPECT_EQ(entity.target, "R&D");
  EXPECT_EQ(broken.source, "\xff _x");  // dropped later, and counted there
  std::vector<int64_t> counts;
  for (const auto& count : rewriter.counts()) counts.push_back(count.pairs);
  EXPECT_THAT(counts, ElementsAre(1, 1, 1, 1));
}

TEST(Clean, MarksAndMarkupStayWhereAsked) {
  CorpusOptions options;
  options.keep_accelerators = options.keep_markup = true;
  Rewriter rewriter(options);
  Pair pair{"_File <b>x</b> &amp;", "_Datei <b>x</b> &amp;"};
  rewriter.rewrite(pair, Kind::kInterface);
  EXPECT_EQ(pair.source, "_File <b>x</b> &amp;");
  EXPECT_EQ(pair.target, "_Datei <b>x</b> &amp;");
}

struct Dropped {
  std::vector<Pair> kept;
  std::map<std::string, int64_t> reasons;
};

Dropped drop(std::vector<Pair> pairs, const CorpusOptions& options = {}) {
  Dropped result{.kept = std::move(pairs), .reasons = {}};
  std::vector<CorpusReport::Count> counts;
  drop_unusable(result.kept, options, counts);
  for (const auto& [what, number] : counts)
    if (number > 0) result.reasons[what] = number;
  return result;
}

using Reasons = std::map<std::string, int64_t>;

TEST(Clean, EachReasonToDrop) {
  const std::string long_line(1000, 'x');
  std::string words = "w";
  for (int i = 0; i < 100; ++i) words += " w";
  EXPECT_EQ(drop({{"\xff", "a"}, {"so", "s\ufffd"}}).reasons, (Reasons{{"cannot be decoded", 2}}));
  EXPECT_EQ(drop({{std::string("h\0i\0", 4), "a"}}).reasons, (Reasons{{"cannot be decoded", 1}})) << "UTF-16";
  EXPECT_EQ(drop({{"", "a"}, {"a", ""}}).reasons, (Reasons{{"empty", 2}}));
  EXPECT_EQ(drop({{"12:30", "12.30 Uhr"}}).reasons, (Reasons{{"no letters", 1}}));
  EXPECT_EQ(drop({{words, "kurz"}}).reasons, (Reasons{{"longer than 100 words", 1}}));
  EXPECT_EQ(drop({{"Basic", "Basic"}}).reasons, (Reasons{{"untranslated", 1}}));
  EXPECT_EQ(drop({{"a very short text", "x" + long_line}, {"so long", "auf Wiedersehen"}}).reasons,
            (Reasons{{"lengths too different", 1}}));
  EXPECT_EQ(drop({{"Click OK.", "Auf OK klicken."}, {"click ok", "auf OK klicken"}}).reasons,
            (Reasons{{"duplicate", 1}}));
  EXPECT_EQ(drop({{"cat", "Katze"}, {"cat", "Kater"}}).reasons, (Reasons{}));
}

TEST(Clean, MostlyCopiedIsUntranslated) {
  EXPECT_EQ(drop({{"the quick brown fox sleeps", "the quick brown fox schläft"}}).kept.size(), 0);
  EXPECT_EQ(drop({{"Open LibreOffice Writer now please", "Bitte LibreOffice Writer jetzt öffnen"}}).kept.size(), 1);
  CorpusOptions options;
  options.max_copied = 1;
  EXPECT_EQ(drop({{"the quick brown fox sleeps", "the quick brown fox schläft"}}, options).kept.size(), 1);
}

TEST(Clean, LimitsAreOptions) {
  CorpusOptions options;
  options.min_words = 2;
  options.max_words = 3;
  options.keep_duplicates = true;
  const Dropped result = drop({{"eins", "a"}, {"a b", "c d"}, {"a b", "c d"}, {"a b c d", "x y z w"}}, options);
  EXPECT_THAT(result.kept, ElementsAre(Field(&Pair::source, "a b"), Field(&Pair::source, "a b")));
  EXPECT_EQ(result.reasons, (Reasons{{"shorter than 2 words", 1}, {"longer than 3 words", 1}}));
}

TEST(Clean, LimitsAreInclusiveAndOfBothSides) {
  const auto keeps = [](const Pair& pair, const CorpusOptions& options = {}) {
    return drop({pair}, options).kept.size() == 1;
  };
  EXPECT_TRUE(keeps({"a b c d e", "a b c x y"}));         // copied: 3 of 5, the limit,
  EXPECT_TRUE(keeps({"a b c", "a b c eins zwei drei"}));  // 3 of the longer side's 6,
  EXPECT_TRUE(keeps({"x x x x", "x u v w"}));             // and 1 of 4: a word is copied once
  EXPECT_FALSE(keeps({"12", "zwölf"}));
  EXPECT_FALSE(keeps({"twelve", "12"}));
  CorpusOptions options;
  options.max_words = 3;
  EXPECT_TRUE(keeps({"a b c", "eins zwei drei"}, options));
  EXPECT_FALSE(keeps({"a b", "eins zwei drei vier"}, options));
  options.min_words = 2;
  EXPECT_TRUE(keeps({"a b", "eins zwei"}, options));
  EXPECT_FALSE(keeps({"a b", "eins"}, options));
  EXPECT_FALSE(keeps({"a", "eins zwei"}, options));
}

TEST(Clean, LengthsAreComparedInTheCorpussProportion) {
  // Every target is a quarter of its source, as Chinese to English; one is as long as it.
  std::vector<Pair> pairs;
  pairs.reserve(51);
  for (int i = 0; i < 50; ++i)
    pairs.push_back({std::string(160, static_cast<char>('a' + i % 26)) + std::to_string(i),
                     std::string(40, static_cast<char>('a' + i % 26)) + "z" + std::to_string(i)});
  pairs.push_back({std::string(160, 'q'), std::string(400, 'r')});
  const Dropped result = drop(pairs);
  EXPECT_EQ(result.reasons, (Reasons{{"lengths too different", 1}}));
}

TEST(Clean, AMillionTokensAreOnlyTooLong) {
  std::string line;
  for (int i = 0; i < 1'000'000; ++i) line += "x ";
  EXPECT_EQ(drop({{line, line + "y"}}).reasons, (Reasons{{"longer than 100 words", 1}}));
}

}  // namespace
}  // namespace fovea::text::corpus_clean_test
