#include "fovea/text/corpus.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>
#include <map>
#include <set>

#include "fovea/base/file.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_folder.h"
#include "fovea/base/test_message.h"
#include "fovea/text/unicode.h"

namespace fovea::text::corpus_test {
namespace {
namespace fs = std::filesystem;

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class CorpusTest : public testing::Test {
 protected:
  // Numbered sentences with a few variants of case and a few sources with two translations.
  CorpusTest() {
    std::string source, target;
    for (int i = 0; i < 300; ++i) {
      source += cat(i % 7 == 0 ? "Sentence" : "sentence", " of number ", i / 2, "\n");
      target += cat("Satz mit der Nummer ", i / 2, i % 2 == 0 ? "" : " hier", "\n");
    }
    write_file(folder_ / "c.en", source);
    write_file(folder_ / "c.de", target);
  }
  CorpusOptions options(const std::string& output = "out") const {
    CorpusOptions options;
    options.inputs = {folder_ / "c.en", folder_ / "c.de"};
    options.output = folder_ / output;
    options.valid = 20;
    options.test = 30;
    return options;
  }
  // All of the inputs goes to the training part.
  CorpusOptions training_of(std::vector<std::string> inputs) const {
    CorpusOptions all = options();
    all.inputs = std::move(inputs);
    all.valid = all.test = 0;
    return all;
  }
  std::string file(const std::string& name, const std::string& content) const {
    fs::create_directories(fs::path(folder_ / name).parent_path());
    write_file(folder_ / name, content);
    return folder_ / name;
  }
  std::vector<std::string> lines(const std::string& name) const { return read_lines(folder_ / name); }
  TestFolder folder_;
};

TEST_F(CorpusTest, WritesThreePartsWithLanguageSuffixes) {
  const CorpusReport report = run_corpus(options());
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_ / "out")) names.insert(entry.path().filename());
  EXPECT_THAT(names, ElementsAre("test.de", "test.en", "train.de", "train.en", "valid.de", "valid.en"));
  EXPECT_EQ(lines("out/valid.en").size(), 20);
  EXPECT_EQ(lines("out/test.de").size(), 30);
  EXPECT_EQ(lines("out/train.en").size(), lines("out/train.de").size());
  EXPECT_EQ(report.read, 300);
  EXPECT_EQ(report.files.size(), 6);
}

TEST_F(CorpusTest, PairsStayPairs) {
  run_corpus(options());
  for (const std::string part : {"train", "valid", "test"}) {
    const std::vector<std::string> source = lines("out/" + part + ".en"), target = lines("out/" + part + ".de");
    for (size_t i = 0; i < source.size(); ++i) {
      const std::string number = source[i].substr(source[i].rfind(' ') + 1);
      EXPECT_THAT(target[i] + " ", HasSubstr(" " + number + " "));
    }
  }
}

TEST_F(CorpusTest, NoSourceIsOnTwoSides) {
  run_corpus(options());
  std::map<std::string, std::set<std::string>> sides;
  for (const std::string part : {"train", "valid", "test"})
    for (const std::string& line : lines("out/" + part + ".en")) sides[folded(line)].insert(part);
  for (const auto& [line, parts] : sides) EXPECT_EQ(parts.size(), 1) << line;
  EXPECT_EQ(sides.size(), 150);
}

TEST_F(CorpusTest, TheSplitHangsOnTheSeedNotOnTheOrder) {
  run_corpus(options("a"));
  CorpusOptions reversed = options("b");
  for (const std::string side : {"en", "de"}) {
    std::vector<std::string> all = lines("c." + side);
    std::reverse(all.begin(), all.end());
    write_file(folder_ / ("r." + side), join(all, "\n") + "\n");
  }
  reversed.inputs = {folder_ / "r.en", folder_ / "r.de"};
  run_corpus(reversed);
  const auto set_of = [&](const std::string& name) {
    std::set<std::string> all;
    for (const std::string& line : lines(name)) all.insert(folded(line));
    return all;
  };
  EXPECT_EQ(set_of("a/test.en"), set_of("b/test.en"));
  EXPECT_EQ(set_of("a/valid.en"), set_of("b/valid.en"));
  CorpusOptions other = options("c");
  other.seed = 2;
  run_corpus(other);
  EXPECT_NE(set_of("a/test.en"), set_of("c/test.en"));
  run_corpus(options("d"));
  for (const char* name : {"train.en", "train.de", "valid.en", "valid.de", "test.en", "test.de"})
    EXPECT_EQ(read_file(folder_ / (std::string("a/") + name)), read_file(folder_ / (std::string("d/") + name)));
}

TEST_F(CorpusTest, EveryPairReadIsAccountedFor) {
  CorpusOptions noisy = options();
  write_file(folder_ / "n.en", "good one\n\nsame\n\xff\ngood one\n1 2 3\n");
  write_file(folder_ / "n.de", "gut\nx\nsame\ny\ngut\n4 5 6\n");
  noisy.inputs.insert(noisy.inputs.end(), {folder_ / "n.en", folder_ / "n.de"});
  const CorpusReport report = run_corpus(noisy);
  int64_t left = report.segments;
  for (const auto& count : report.dropped) left -= count.pairs;
  for (const auto& part : report.parts) left -= part.pairs;
  EXPECT_EQ(left, 0);
  EXPECT_THAT(describe(report),
              AllOf(HasSubstr("pairs read"), HasSubstr("dropped: cannot be decoded"), HasSubstr("dropped: empty"),
                    HasSubstr("dropped: untranslated"), HasSubstr("dropped: duplicate"),
                    HasSubstr("dropped: no letters"), HasSubstr("train")));
}

TEST_F(CorpusTest, ParagraphsAreSplitWhereTheCountsAgree) {
  CorpusOptions few = options();
  few.valid = 0;
  few.test = 0;
  few.sentences = "split";
  write_file(folder_ / "p.en", "One here. Two here.\nAll in one. Really.\n");
  write_file(folder_ / "p.de", "Eins hier. Zwei hier.\nAlles in einem.\n");
  few.inputs = {folder_ / "p.en", folder_ / "p.de"};
  const CorpusReport report = run_corpus(few);
  EXPECT_EQ(report.segments, 3);
  EXPECT_THAT(lines("out/train.en"), ElementsAre("One here.", "Two here.", "All in one. Really."));
  EXPECT_THAT(lines("out/train.de"), ElementsAre("Eins hier.", "Zwei hier.", "Alles in einem."));
  EXPECT_TRUE(lines("out/test.de").empty());
}

// The character set is the one that the file declares: bytes outside of it show as U+FFFD once they are read.
TEST_F(CorpusTest, WhatTheDeclaredCharacterSetHasNotIsDropped) {
  const std::string header = "msgid \"\"\nmsgstr \"Language: ja\\nContent-Type: text/plain; charset=Shift_JIS\\n\"\n\n";
  const std::string memory =
      "<?xml version='1.0' encoding='Shift_JIS'?><tmx><header srclang='en'/><body>"
      "<tu><tuv xml:lang='en'><seg>a cat</seg></tuv><tuv xml:lang='ja'><seg>\x94\x4c</seg></tuv></tu>"
      "<tu><tuv xml:lang='en'><seg>a dog</seg></tuv><tuv "
      "xml:lang='ja'><seg>\x8c\xa2\xff.</seg></tuv></tu></body></tmx>";
  for (const std::string& input :
       {file("a.po", header + "msgid \"a cat\"\nmsgstr \"\x94\x4c\"\n\nmsgid \"a dog\"\nmsgstr \"\x8c\xa2\xff.\"\n"),
        file("a.tmx", memory)}) {
    EXPECT_THAT(describe(run_corpus(training_of({input}))), HasSubstr("dropped: cannot be decoded")) << input;
    EXPECT_THAT(lines("out/train.ja"), ElementsAre("猫")) << input;
  }
}

// A catalogue's messages stand by themselves; the lines of aligned files are as somebody meant them.
constexpr const char* kParagraph =
    "msgid \"\"\nmsgstr \"Language: de\\n\"\n\n"
    "msgid \"One here. Two here.\"\nmsgstr \"Eins hier. Zwei hier.\"\n";

TEST_F(CorpusTest, CataloguesAreSplitByThemselvesAndAlignedFilesAreNot) {
  run_corpus(training_of({file("a.po", kParagraph)}));
  EXPECT_THAT(lines("out/train.de"), ElementsAre("Eins hier.", "Zwei hier."));
  run_corpus(training_of({file("p.en", "One here. Two here.\n"), file("p.de", "Eins hier. Zwei hier.\n")}));
  EXPECT_THAT(lines("out/train.de"), ElementsAre("Eins hier. Zwei hier."));
}

TEST_F(CorpusTest, FormatsAreKnownByNamesPackedOrNot) {
  for (const char* ending : {"", ".gz", ".xz", ".bz2", ".zst"}) {
    const std::string path = folder_ / cat("a.po", ending);
    LineWriter packed(path);
    packed.write(kParagraph);
    packed.close();
    run_corpus(training_of({path}));
    EXPECT_EQ(lines("out/train.de").size(), 2U) << ending;
  }
  EXPECT_THAT(message_of([&] { run_corpus(training_of({file("a.gmo", "x")})); }),
              HasSubstr("a.gmo' is a compiled catalogue; expected its text, which `msgunfmt "));
  CorpusOptions told = training_of({file("a.txt", "1\tcat\tKatze\n")});
  told.format = "tsv";
  told.source_column = 3, told.target_column = 2;
  run_corpus(told);
  EXPECT_THAT(lines("out/train.src"), ElementsAre("Katze"));
  EXPECT_THAT(lines("out/train.trg"), ElementsAre("cat"));
}

TEST_F(CorpusTest, TwoSidesNeverShareAFile) {
  run_corpus(training_of({file("a.en", "one cat\n"), file("b.en", "a feline\n")}));
  EXPECT_THAT(lines("out/train.en"), ElementsAre("one cat"));
  EXPECT_THAT(lines("out/train.trg"), ElementsAre("a feline"));
}

TEST_F(CorpusTest, GeneratesSentencesWithAlignments) {
  CorpusOptions generated = options();
  generated.inputs.clear();
  generated.generate = 200;
  generated.languages = {"aa", "bb"};
  run_corpus(generated);
  EXPECT_EQ(lines("out/train.aa").size(), 150);
  EXPECT_EQ(lines("out/train.bb").size(), 150);
  EXPECT_EQ(lines("out/train.align").size(), 150);
  EXPECT_EQ(lines("out/test.align").size(), 30);
}

// A full disk, say: no file of another choice beside those of the first.
TEST_F(CorpusTest, WhatFailsChangesNothing) {
  const auto all_files = [&] {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(folder_ / "out")) files[entry.path().filename()] = read_file(entry);
    return files;
  };
  run_corpus(options());
  const auto before = all_files();
  CorpusOptions other = options();
  other.seed = 2;
  install_signal_handlers();
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  // The English side of the training text fits, the German one does not.
  const size_t english = before.at("train.en").size(), german = before.at("train.de").size();
  const rlimit small = {.rlim_cur = (english + german) / 2, .rlim_max = limit.rlim_max};
  ASSERT_LT(english + 300, german);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THAT(message_of([&] { run_corpus(other); }), HasSubstr("train.de': File too large"));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_EQ(all_files(), before);
}

TEST_F(CorpusTest, WhatCannotBeWrittenShowsBeforeTheReading) {
  CorpusOptions bad = options();
  write_file(folder_ / "bad.tmx", "<tmx><body><tu>");
  bad.inputs = {folder_ / "bad.tmx"};
  bad.output = folder_ / "c.en/out";
  EXPECT_THAT(message_of([&] { run_corpus(bad); }), HasSubstr("--output: cannot make the folder"));
  bad.output = folder_ / "some/where";
  EXPECT_THAT(message_of([&] { run_corpus(bad); }), HasSubstr("not well-formed"));
  EXPECT_FALSE(fs::exists(folder_ / "some")) << "an empty folder was left";
}

TEST_F(CorpusTest, UnfinishedTranslationsAreCounted) {
  write_file(folder_ / "a.po",
             "msgid \"\"\nmsgstr \"Language: de\\n\"\n\n#, fuzzy\nmsgid \"a dog\"\nmsgstr \"eine Katze\"\n\n"
             "msgid \"a cat\"\nmsgstr \"eine Katze\"\n");
  CorpusOptions few = options();
  few.valid = few.test = 0;
  few.inputs = {folder_ / "a.po"};
  const CorpusReport report = run_corpus(few);
  EXPECT_EQ(report.read, 2);
  EXPECT_EQ(report.segments, 2);
  EXPECT_EQ(report.parts.at(0).pairs, 1);
  EXPECT_THAT(describe(report), HasSubstr("dropped: marked as unfinished"));
}

TEST_F(CorpusTest, FormatsAreTold) {
  EXPECT_EQ(corpus_format_choices(), "auto|po|tsv|tmx|xliff|aligned");
  EXPECT_EQ(corpus_inputs_in_words(), ".po, .pot, .tsv, .tab, .tmx, .xlf, .xliff or two aligned files");
  EXPECT_EQ(without_packed_ending("de.po.gz"), "de.po");
}

TEST_F(CorpusTest, NothingLeftSaysWhy) {
  CorpusOptions bad = options();
  write_file(folder_ / "x.en", "same\n\n");
  write_file(folder_ / "x.de", "same\nx\n");
  bad.inputs = {folder_ / "x.en", folder_ / "x.de"};
  EXPECT_THAT(message_of([&] { run_corpus(bad); }),
              AllOf(HasSubstr("nothing is left of 2 pairs"), HasSubstr("1 empty"), HasSubstr("1 untranslated")));
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  write_file(folder_ / "x.en", "");
  write_file(folder_ / "x.de", "");
  EXPECT_THAT(message_of([&] { run_corpus(bad); }), HasSubstr("nothing is left of 0 pairs; expected files"));
}

TEST_F(CorpusTest, TooFewForTheParts) {
  CorpusOptions greedy = options();
  greedy.valid = 100;
  greedy.test = 50;
  EXPECT_THAT(message_of([&] { run_corpus(greedy); }),
              AllOf(HasSubstr("--valid 100 --test 50: only 150 different sources"), HasSubstr("ask for fewer")));
}

TEST_F(CorpusTest, WrongInputs) {
  CorpusOptions bad = options();
  bad.inputs = {folder_ / "c.en"};
  EXPECT_THAT(message_of([&] { run_corpus(bad); }), AllOf(HasSubstr("alone"), HasSubstr("a second, aligned file")));
  bad.inputs = {folder_ / "c.en", folder_ / "none.de"};
  EXPECT_THAT(message_of([&] { run_corpus(bad); }), HasSubstr("no such file"));
  bad.inputs = {folder_.path(), folder_ / "c.en"};
  EXPECT_THAT(message_of([&] { run_corpus(bad); }), HasSubstr("is a folder"));
  bad.inputs = {folder_ / "c.en", folder_.path()};
  EXPECT_THAT(message_of([&] { run_corpus(bad); }), HasSubstr("is a folder"));
  bad.inputs = {};
  EXPECT_THAT(message_of([&] { run_corpus(bad); }), HasSubstr("got no files"));
  bad = options();
  bad.output.clear();
  EXPECT_THAT(message_of([&] { run_corpus(bad); }), HasSubstr("--output: got none"));
  bad = options();
  bad.generate = 5;
  EXPECT_THAT(message_of([&] { run_corpus(bad); }), HasSubstr("--generate: got files too"));
  bad = options();
  for (const std::vector<std::string>& languages : {std::vector<std::string>{"en"}, {"en", "en"}}) {
    bad.languages = languages;
    EXPECT_THAT(message_of([&] { run_corpus(bad); }), HasSubstr("expected two different ones"));
  }
  bad = options();
  bad.output = folder_ / "c.en";
  EXPECT_THAT(message_of([&] { run_corpus(bad); }), HasSubstr("cannot make the folder"));
}

TEST_F(CorpusTest, LanguagesTurnACatalogueRound) {
  write_file(folder_ / "a.po", "msgid \"\"\nmsgstr \"Language: de\\n\"\n\nmsgid \"a cat\"\nmsgstr \"eine Katze\"\n");
  CorpusOptions few = options();
  few.valid = few.test = 0;
  few.inputs = {folder_ / "a.po"};
  for (const std::vector<std::string>& languages : {std::vector<std::string>{"de", "en"}, {"en", "de"}}) {
    few.languages = languages;
    run_corpus(few);
    EXPECT_THAT(lines("out/train.de"), ElementsAre("eine Katze"));
    EXPECT_THAT(lines("out/train.en"), ElementsAre("a cat"));
  }
  few.languages = {"xx", "yy"};  // the user knows better
  run_corpus(few);
  EXPECT_THAT(lines("out/train.yy"), ElementsAre("eine Katze"));
  few =
      training_of({file("b.xlf",
                        "<xliff version='1.2'><file source-language='en' target-language='de'><body><trans-unit "
                        "id='1'><source>a dog</source><target>ein Hund</target></trans-unit></body></file></xliff>")});
  few.languages = {"de", "en"};
  run_corpus(few);
  EXPECT_THAT(lines("out/train.de"), ElementsAre("ein Hund"));
  EXPECT_THAT(lines("out/train.en"), ElementsAre("a dog"));
}

// XLIFF 1.2 may leave out the target's language, but states the source's; a gettext catalogue states neither.
TEST_F(CorpusTest, ASourceLanguageThatIsStatedCountsByItself) {
  const std::string xliff =
      file("a.xlf",
           "<xliff version='1.2'><file source-language='en'><body><trans-unit id='1'><source>a dog</source><target>ein "
           "Hund</target></trans-unit></body></file></xliff>");
  const std::string catalogue = file("a.po", "msgid \"ein Hund\"\nmsgstr \"a dog\"\n");
  for (const std::string& input : {xliff, catalogue}) {
    CorpusOptions turned = training_of({input});
    turned.languages = {"de", "en"};
    run_corpus(turned);
    EXPECT_THAT(lines("out/train.de"), ElementsAre("ein Hund")) << input;
    EXPECT_THAT(lines("out/train.en"), ElementsAre("a dog")) << input;
  }
  CorpusOptions other = training_of({xliff});
  other.languages = {"fr", "de"};
  testing::internal::CaptureStderr();
  run_corpus(other);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("a.xlf' says that it is in 'en'; it is read as 'fr' and 'de', as --languages say"));
  EXPECT_THAT(lines("out/train.fr"), ElementsAre("a dog"));
}

TEST_F(CorpusTest, LanguagesMustAgreeAndNameNoOtherFolder) {
  write_file(folder_ / "a.po", "msgid \"\"\nmsgstr \"Language: de\\n\"\n\nmsgid \"cat\"\nmsgstr \"Katze\"\n");
  write_file(folder_ / "b.po", "msgid \"\"\nmsgstr \"Language: fr\\n\"\n\nmsgid \"cat\"\nmsgstr \"chat\"\n");
  write_file(folder_ / "c.po", "msgid \"\"\nmsgstr \"Language: ../evil\\n\"\n\nmsgid \"cat\"\nmsgstr \"chat\"\n");
  CorpusOptions few = options();
  few.valid = few.test = 0;
  few.inputs = {folder_ / "a.po", folder_ / "b.po"};
  EXPECT_THAT(message_of([&] { run_corpus(few); }), AllOf(HasSubstr("b.po' is in 'fr'"), HasSubstr("in 'de'")));
  few.inputs = {folder_ / "c.po"};
  run_corpus(few);
  EXPECT_THAT(lines("out/train.trg"), ElementsAre("chat"));
}

}  // namespace
}  // namespace fovea::text::corpus_test
