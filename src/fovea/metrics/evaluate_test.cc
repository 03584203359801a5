#include "fovea/metrics/evaluate.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <sstream>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"

namespace fovea::metrics::evaluate_test {
namespace {
namespace fs = std::filesystem;

using testing::AllOf;
using testing::HasSubstr;

class EvaluateTest : public testing::Test {
 protected:
  EvaluateTest() {
    fs::create_directories(folder_);
    write_file(folder_ / "hyp", "the cat sat on the mat\nhello world\n");
    write_file(folder_ / "ref", "the cat is on the mat\nhello world\n");
  }
  ~EvaluateTest() override { fs::remove_all(folder_); }

  EvaluateOptions options() const {
    EvaluateOptions options;
    options.reference = {folder_ / "ref"};
    options.input = folder_ / "hyp";
    return options;
  }
  static std::string run(const EvaluateOptions& options) {
    std::ostringstream out;
    evaluate(options, out);
    return out.str();
  }
  static std::string refusal(const EvaluateOptions& options) {
    return message_of([&] { run(options); });
  }
  fs::path folder_ = fs::temp_directory_path() / cat("fovea-evaluate-test-", getpid());
};

TEST_F(EvaluateTest, OneLineWithItsSignature) {
  EXPECT_EQ(run(options()),
            "BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0 = 39.48 87.5/66.7/25.0/16.7 (BP = 1.000 "
            "ratio = 1.000 hyp_len = 8 ref_len = 8)\n");
}

TEST_F(EvaluateTest, SeveralMetricsStandAtTheEqualsSign) {
  EvaluateOptions several = options();
  several.metrics = {"chrf++", "bleu", "chrf"};
  const std::vector<std::string> lines = split(run(several), '\n');
  ASSERT_EQ(lines.size(), 4);
  EXPECT_THAT(lines[0], HasSubstr("BLEU|"));
  EXPECT_THAT(lines[1], HasSubstr("chrF2|"));
  EXPECT_THAT(lines[2], HasSubstr("chrF2++|"));
  EXPECT_EQ(lines[0].find(" = "), lines[1].find(" = "));
  EXPECT_EQ(lines[0].find(" = "), lines[2].find(" = "));
}

TEST_F(EvaluateTest, FormsOfOutput) {
  EvaluateOptions form = options();
  form.score_only = true;
  EXPECT_EQ(run(form), "39.48\n");
  form.width = 0;
  EXPECT_EQ(run(form), "39\n");
  form = options();
  form.sentence_level = true;
  EXPECT_THAT(run(form), AllOf(HasSubstr("eff:yes"), HasSubstr(" = 37.99 "), HasSubstr(" = 100.00 ")));
  form = options();
  form.json = true;
  EXPECT_THAT(run(form),
              AllOf(HasSubstr("{\n \"name\": \"BLEU\",\n \"score\": 39.48,"), HasSubstr(" \"tok\": \"13a\",")));
  form = options();
  form.metrics = {"multi-bleu"};
  EXPECT_THAT(run(form), HasSubstr("BLEU = 0.00, 87.5/66.7/25.0/0.0 (BP=1.000"));
  form = options();
  form.reference.push_back(folder_ / "hyp");
  EXPECT_THAT(run(form), AllOf(HasSubstr("nrefs:2"), HasSubstr(" = 100.00 ")));
}

TEST_F(EvaluateTest, SeveralMetricsInJsonAreAList) {
  EvaluateOptions form = options();
  form.json = true;
  form.metrics = {"bleu", "chrf"};
  EXPECT_THAT(run(form), AllOf(HasSubstr("[\n{\n \"name\": \"BLEU\","), HasSubstr("\n},\n{\n \"name\": \"chrF2\",")));
  form.score_only = true;
  EXPECT_EQ(run(form), "[\n39.48,\n76.50\n]\n");
  form.metrics = {"chrf"};
  EXPECT_EQ(run(form), "76.50\n");
}

// Segments that are alike: every resample has the score of all, and the interval is a point.
TEST_F(EvaluateTest, MultiBleusIntervalStandsBehindItsLine) {
  const std::string line = "a b c d e f g\n", near = "a b c d e f x\n";
  write_file(folder_ / "hyp", near + near + near);
  write_file(folder_ / "ref", line + line + line);
  EvaluateOptions form = options();
  form.metrics = {"multi-bleu"};
  const std::string plain = run(form);
  form.confidence = true;
  form.confidence_n = 50;
  EXPECT_EQ(run(form), cat(plain.substr(0, plain.size() - 1), " μ = ", plain.substr(7, 5), " ± 0.00\n"));
}

// A hundred lines that end in a full stop by itself; other metrics and other tokens do not mind.
TEST_F(EvaluateTest, WarnsOfTextThatLooksTokenised) {
  const auto warning = [](const EvaluateOptions& form) {
    testing::internal::CaptureStderr();
    run(form);
    return testing::internal::GetCapturedStderr();
  };
  std::string text = "The end.\n";
  for (int i = 0; i < 99; ++i) text += "The end .\n";
  write_file(folder_ / "hyp", text);
  write_file(folder_ / "ref", text);
  EXPECT_THAT(warning(options()), testing::Not(HasSubstr("looks tokenised")));
  for (const char* file : {"hyp", "ref"}) write_file(folder_ / file, text + "The end .\n");
  EXPECT_THAT(warning(options()),
              AllOf(HasSubstr("100 lines end in ' .', so the text looks tokenised"), HasSubstr("say --tokenize none")));
  EvaluateOptions other = options();
  other.tokenize = "none";
  EXPECT_THAT(warning(other), testing::Not(HasSubstr("looks tokenised")));
  other = options();
  other.metrics = {"chrf"};
  EXPECT_THAT(warning(other), testing::Not(HasSubstr("looks tokenised")));
}

TEST_F(EvaluateTest, MistakesAreNamed) {
  EvaluateOptions bad = options();
  bad.reference = {};
  EXPECT_THAT(refusal(bad), HasSubstr("--reference: got none"));
  bad.reference = {folder_ / "none"};
  EXPECT_THAT(refusal(bad), HasSubstr("--reference: no such file"));
  bad.reference = {folder_};
  EXPECT_THAT(refusal(bad), HasSubstr("is a folder"));
  write_file(folder_ / "short", "one\n");
  bad.reference = {folder_ / "short"};
  EXPECT_THAT(refusal(bad), AllOf(HasSubstr("got 2 translations"), HasSubstr("and 1 references"), HasSubstr("short")));
  write_file(folder_ / "empty", "");
  bad.reference = {folder_ / "empty"};
  bad.input = folder_ / "empty";
  EXPECT_THAT(refusal(bad), HasSubstr("got no translations"));
  bad = options();
  bad.metrics = {"blue"};
  EXPECT_THAT(refusal(bad), HasSubstr("did you mean 'bleu'?"));
  bad.metrics = {"multi-bleu"};
  bad.tokenize = "13b";
  EXPECT_THAT(refusal(bad), HasSubstr("--tokenize: got '13b'"));
  bad.tokenize = "13a";
  bad.metrics = {"bleu", "chrf"};
  bad.sentence_level = true;
  EXPECT_THAT(refusal(bad), HasSubstr("--sentence-level: got 2 metrics; expected one"));
  bad.metrics = {"bleu"};
  bad.confidence = true;
  EXPECT_THAT(refusal(bad), HasSubstr("--confidence: a single sentence has no confidence interval"));
  bad = options();
  bad.input = "-";
  bad.reference = {"-"};
  EXPECT_THAT(refusal(bad), HasSubstr("'-' is standard input"));
}

TEST_F(EvaluateTest, MistakesInComparisonsAreNamed) {
  EvaluateOptions bad = options();
  bad.baseline = {folder_ / "none"};
  EXPECT_THAT(refusal(bad), HasSubstr("--baseline: no such file"));
  write_file(folder_ / "short", "one\n");
  bad.baseline = {folder_ / "short"};
  EXPECT_THAT(refusal(bad), AllOf(HasSubstr("got 2 translations"), HasSubstr("and 1 translations of a baseline"),
                                  HasSubstr("short"), HasSubstr("expected as many lines of each")));
  bad.baseline = {"-", "-"};
  EXPECT_THAT(refusal(bad), HasSubstr("--baseline: '-' is standard input, where another file comes from"));
  bad.baseline = {folder_ / "ref"};
  bad.score_only = true;
  EXPECT_THAT(refusal(bad), HasSubstr("leave out --score-only"));
  bad.score_only = false;
  bad.sentence_level = true;
  EXPECT_THAT(refusal(bad), HasSubstr("--baseline: systems are compared on all sentences together"));
  bad = options();
  bad.compound_split = true;
  EXPECT_THAT(refusal(bad), HasSubstr("--compound-split: got the metric bleu; expected multi-bleu"));
  bad.metrics = {"multi-bleu", "chrf"};
  EXPECT_THAT(refusal(bad), HasSubstr("--compound-split: got the metric chrf; expected multi-bleu"));
}

// The system's segments equal the reference and the baseline's share nothing with it, so every resample differs by 100,
// and no difference is larger than the mean one.
TEST_F(EvaluateTest, ComparesWithBaselines) {
  const std::string line = "a b c d e\n", other = "v w x y z\n";
  for (const char* file : {"hyp", "ref"}) write_file(folder_ / file, line + line + line);
  write_file(folder_ / "bad", other + other + other);
  EvaluateOptions form = options();
  form.baseline = {folder_ / "bad", folder_ / "hyp"};
  form.confidence_n = 99;
  form.metrics = {"bleu", "chrf"};
  const std::string text = run(form);
  EXPECT_THAT(text, HasSubstr("BLEU|nrefs:1|bs:99|seed:12345|case:mixed"));
  EXPECT_THAT(text, HasSubstr(cat("\nbaseline ", (folder_ / "bad").string(),
                                  ":\n  BLEU   0.00; difference +100.00, 95% interval +100.00 to +100.00, p = 0.0100\n"
                                  "  chrF2  0.00; difference +100.00,")));
  EXPECT_THAT(text, HasSubstr("BLEU   100.00 (μ = 100.00 ± 0.00); difference +0.00, 95% interval +0.00 to +0.00, "
                              "p = 1.0000\n"));
  form.metrics = {"bleu"};
  form.json = true;
  EXPECT_THAT(run(form), AllOf(HasSubstr("\"baselines\": [\n  {\n"), HasSubstr("\"difference\": 100.0,"),
                               HasSubstr("\"difference_low\": 100.0,"), HasSubstr("\"p_value\": 0.01\n")));
}

// A system that is better than its baseline has the lower TER.
TEST_F(EvaluateTest, TerIsBetterIfItIsLower) {
  const std::string line = "a b c d\n", other = "a b c x\n";
  for (const char* file : {"hyp", "ref"}) write_file(folder_ / file, line + line);
  write_file(folder_ / "bad", other + other);
  EvaluateOptions form = options();
  form.baseline = {folder_ / "bad"};
  form.confidence_n = 99;
  form.metrics = {"ter", "bleu"};
  const std::string text = run(form);
  EXPECT_THAT(text, HasSubstr("TER|nrefs:1|bs:99|seed:12345|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:"));
  EXPECT_THAT(text, HasSubstr("  TER   25.00 (μ = 25.00 ± 0.00); difference -25.00 (lower is better), 95% interval "
                              "-25.00 to -25.00, p = 0.0100\n"));
  EXPECT_THAT(text, testing::ContainsRegex("BLEU  [0-9.]+ [^;]*; difference [+][0-9.]+, 95% interval"));
  form.json = true;
  EXPECT_THAT(run(form), AllOf(HasSubstr("\"lower_is_better\": false,"), HasSubstr("\"lower_is_better\": true,"),
                               HasSubstr("\"tok\": \"tercom\",\n \"norm\": \"no\",\n \"punct\": \"yes\",")));
}

TEST_F(EvaluateTest, OptionsOfTer) {
  EvaluateOptions form = options();
  form.metrics = {"ter"}, form.score_only = true;
  write_file(folder_ / "hyp", "The cat.\nhello world\n");
  write_file(folder_ / "ref", "the cat .\nhello world\n");
  EXPECT_EQ(run(form), "40.00\n");
  form.ter_case_sensitive = true;
  EXPECT_EQ(run(form), "60.00\n");
  form.ter_normalized = true;
  EXPECT_EQ(run(form), "20.00\n");
  form.lowercase = true;
  EXPECT_THAT(refusal(form), HasSubstr("--ter-case-sensitive: got --lowercase too; leave out one of them"));
  form.ter_case_sensitive = false;
  EXPECT_EQ(run(form), "0.00\n");
  form = options();
  form.metrics = {"ter"}, form.ter_asian_support = true;
  EXPECT_THAT(refusal(form),
              HasSubstr("--ter-asian-support: adds to what other options do; expected --ter-normalized"));
  form.ter_no_punct = true;
  EXPECT_NO_THROW(run(form));
  form.metrics = {"bleu", "chrf"};
  EXPECT_THAT(refusal(form), HasSubstr("--ter-no-punct: got the metric bleu, chrf; only ter reads this option"));
}

TEST_F(EvaluateTest, TerWarnsOfTextWithoutBlanks) {
  const auto warning = [&](const std::string& text, bool splits) {
    for (const char* file : {"hyp", "ref"}) write_file(folder_ / file, text);
    EvaluateOptions form = options();
    form.metrics = {"ter"}, form.ter_normalized = form.ter_asian_support = splits;
    testing::internal::CaptureStderr();
    run(form);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(warning("我们喜欢北京\n", false), HasSubstr("TER needs --ter-normalized --ter-asian-support"));
  EXPECT_EQ(warning("我们喜欢北京\n", true), "");
  EXPECT_THAT(warning("สวัสดีชาวโลก\n", true), HasSubstr("put blanks between the words of both texts first"));
  EXPECT_EQ(warning("the cat\n", false), "");
}

TEST_F(EvaluateTest, TheSeedDrawsTheResamples) {
  EvaluateOptions form = options();
  form.confidence = true;
  form.metrics = {"chrf"};
  form.width = 4;
  const std::string standard = run(form);
  form.seed = 1;
  EXPECT_THAT(run(form), AllOf(HasSubstr("|seed:1|"), testing::Ne(standard)));
}

TEST_F(EvaluateTest, StopsBetweenSegments) {
  install_signal_handlers();
  for (const bool sentence_level : {false, true}) {
    EvaluateOptions each = options();
    each.sentence_level = sentence_level;
    const NamedLines system = {{}, {"the cat sat on the mat"}};
    const std::vector<NamedLines> references = {{{}, {"the cat is on the mat"}}};
    raise(SIGTERM);
    EXPECT_THROW(report(each, system, references), Interrupted);
    clear_interrupt();
    EXPECT_NO_THROW(report(each, system, references));
  }
}

TEST_F(EvaluateTest, TheHelpIsThatOfTheLists) {
  EvaluateOptions options;
  const auto help = [&](std::string_view name) {
    for (const FieldView& field : field_views(options))
      if (field.name == name) return cat(field.help, " {", field.choices, "}");
    return std::string("no field");
  };
  EXPECT_EQ(help("metrics"),
            "what to compute: bleu, chrf, chrf++, ter (lower is better), multi-bleu (of text tokenised already), "
            "coco-bleu (of captions "
            "tokenised already), cider (the same), meteor (by --meteor-jar), bertscore (by "
            "--bertscore-model) {}");
  EXPECT_THAT(help("tokenize"), HasSubstr("tokens of BLEU; 13a: as mteval-v13a.pl, for most languages; none: "));
  EXPECT_THAT(help("smooth-method"), HasSubstr("{exp|floor|add-k|none}"));
  EXPECT_EQ(help("smooth-value"), "value of floor and add-k; -1: their defaults, 0.1 and 1 {}");
}

TEST_F(EvaluateTest, ASmoothingBelowZeroIsRefused) {
  EvaluateOptions floor = options();
  floor.smooth_method = "floor";
  floor.smooth_value = -1;
  const std::string usual = run(floor);
  floor.smooth_value = 0.1;
  EXPECT_EQ(run(floor), usual);
  floor.smooth_value = -0.5;
  EXPECT_THAT(refusal(floor), HasSubstr("--smooth-value: got -0.5; expected a value from 0 on, or -1"));
}

TEST_F(EvaluateTest, OptionsThatNoMetricReadsAreRefused) {
  EvaluateOptions bad = options();
  bad.metrics = {"chrf", "multi-bleu"}, bad.tokenize = "zh";
  EXPECT_THAT(refusal(bad), HasSubstr("--tokenize: got the metric chrf, multi-bleu; only bleu reads this option"));
  bad.tokenize = "none";
  EXPECT_NO_THROW(run(bad)) << "what these metrics do";
  bad.smooth_method = "floor";
  EXPECT_THAT(refusal(bad), HasSubstr("--smooth-method: got the metric chrf, multi-bleu; only bleu reads"));
  bad = options();
  bad.chrf_whitespace = true;
  EXPECT_THAT(refusal(bad), HasSubstr("--chrf-whitespace: got the metric bleu; only chrf and chrf++ read"));
  bad.metrics = {"bleu", "chrf++"};
  EXPECT_NO_THROW(run(bad));
  bad.smooth_value = 0.5;
  EXPECT_THAT(refusal(bad), HasSubstr("--smooth-value: got 0.5, but --smooth-method exp has no value"));
  bad = options();
  bad.confidence_n = 50;
  EXPECT_THAT(refusal(bad), HasSubstr("--confidence-n: is for resampling; expected --confidence or --baseline too"));
  bad.confidence = true, bad.seed = 3;
  EXPECT_NO_THROW(run(bad));
  bad.confidence = false, bad.confidence_n = 1000;
  EXPECT_THAT(refusal(bad), HasSubstr("--seed: is for resampling"));
}

TEST_F(EvaluateTest, NamesOfFilesThatAreNotTextAreWrittenInJson) {
  EvaluateOptions named = options();
  write_file(folder_ / "n\xff", read_file(folder_ / "ref"));
  named.baseline = {folder_ / "n\xff"}, named.confidence_n = 2, named.json = true;
  EXPECT_THAT(run(named), HasSubstr("n\uFFFD\","));
}

TEST_F(EvaluateTest, LongLinesAreScoredAndInvalidBytesRefused) {
  std::string line;
  for (int i = 0; i < 1'000'000; ++i) line += i % 3 == 0 ? "a " : "b ";
  write_file(folder_ / "hyp", line + "\nb\n");
  write_file(folder_ / "ref", line + "\nb\n");
  EXPECT_THAT(run(options()), HasSubstr(" = 100.00 "));
  write_file(folder_ / "hyp", "a\n\xff\xfe\n");
  EXPECT_THAT(refusal(options()), HasSubstr("hyp', line 2: is not UTF-8"));
}

}  // namespace
}  // namespace fovea::metrics::evaluate_test
