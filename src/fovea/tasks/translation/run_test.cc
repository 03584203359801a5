#include "fovea/tasks/translation/run.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <torch/torch.h>

#include <csignal>
#include <fstream>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/rng.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/models/batches.h"
#include "fovea/models/line_source.h"
#include "fovea/nn/checkpoint.h"
#include "fovea/nn/checkpoint_module.h"
#include "fovea/nn/model.h"
#include "fovea/tasks/translation/task.h"
#include "fovea/tasks/translation/test_translation_run.h"
#include "fovea/tasks/translation/translator.h"
#include "fovea/text/vocab.h"

namespace fovea::translation::run_test {
namespace {

std::string sample(int lines) {
  std::string text;
  Rng rng(2);
  for (int i = 0; i < lines; ++i) {
    if (rng.below(6) > 0) {
      for (uint64_t n = 1 + rng.below(6); n > 0; --n) text += rng.below(2) > 0 ? "Katze " : "läuft ";
    }
    text += "\n";
  }
  return text;
}

TEST_F(RunTest, LinesInAreLinesOutWhateverTheBatches) {
  DecodeConfig one = config(sample(40));
  one.mini_batch = one.maxi_batch = 1;
  const std::vector<std::string> alone = translate(one);
  ASSERT_EQ(alone.size(), 40U);
  const std::vector<std::string> input = read_lines(one.input);
  for (size_t i = 0; i < 40; ++i) EXPECT_TRUE(!trim(input[i]).empty() || alone[i].empty()) << i;
  DecodeConfig many = one;
  many.mini_batch = 7;
  many.maxi_batch = 3;
  many.mini_batch_words = 30;
  EXPECT_EQ(translate(many), alone);
  many.mini_batch = 64;
  many.maxi_batch = 100;
  EXPECT_EQ(translate(many), alone);
}

TEST_F(RunTest, RefusesWeightsOfOtherSizesBeforeTheModelTakesMemory) {
  const auto refusal = [&](const std::function<void(EncoderDecoderConfig&)>& change) {
    nn::Checkpoint checkpoint = nn::load_checkpoint(folder_ / "model", nn::Load::kModel);
    EncoderDecoderConfig config = nn::config_of<EncoderDecoderConfig>(checkpoint.identity, "config.yml");
    change(config);
    checkpoint.identity.config = to_yaml(config);
    nn::save_checkpoint(folder_ / "other", checkpoint);
    DecodeConfig of = this->config("Hund\n");
    of.model = folder_ / "other";
    return message([&] { run_translate(of); });
  };
  const std::string weights = (folder_ / "other/model.safetensors").string();
  EXPECT_EQ(refusal([](EncoderDecoderConfig& c) { c.dim_emb = 65536; }),
            weights + ": tensor 'decoder.embeddings.weight' has the shape [48, 16], the model needs [48, 65536]");
  EXPECT_EQ(refusal([](EncoderDecoderConfig& c) { c.transformer_dim_ffn = 1 << 20; }),
            weights + ": tensor 'decoder.layers.0.feed_forward.in.bias' has the shape [16], the model needs [1048576]");
  EXPECT_EQ(refusal([](EncoderDecoderConfig& c) { c.dec_depth = 900; }),
            weights + ": tensor 'decoder.layers.1.cross_attention.kv.bias' is missing");
  EXPECT_EQ(refusal([](EncoderDecoderConfig& c) { c.transformer_positions = "learned", c.max_positions = 1 << 24; }),
            weights + ": tensor 'decoder.positions.weight' is missing");
}

TEST_F(RunTest, OddLinesKeepTheirPlaces) {
  const std::string odd = "Hund\n\n \t \n\xff\xfe Katze\n" + std::string(5000, 'x') + "\nKatze";
  DecodeConfig of = config(odd);
  of.max_length = 20;
  const std::vector<std::string> out = translate(of);
  ASSERT_EQ(out.size(), 6U);
  EXPECT_EQ(out[1], "");
  EXPECT_EQ(out[2], "");
  of = config("");
  EXPECT_EQ(translate(of).size(), 0U);
}

TEST_F(RunTest, LongLinesAreCutAndCounted) {
  std::string line;
  for (int i = 0; i < 300; ++i) line += "Katze ";
  DecodeConfig of = config("");
  of.max_length = 20;
  of.max_length_factor = 0.5;
  Translator translator(of);
  const std::vector<std::string> lines = {line, "Katze", line};
  const auto results = translator.translate(lines);
  EXPECT_EQ(results[0][0].text, results[2][0].text);
  EXPECT_EQ(translator.counts().cut, 2);
  EXPECT_EQ(translator.counts().lines, 3);
}

TEST_F(RunTest, ACallerThatFailsLeavesATranslatorThatGoesOn) {
  Translator translator(config(""));
  const std::vector<std::string> lines = {"Hund und Katze", "Katze", "der Hund sieht die Katze"};
  const auto expected = translator.translate(lines);
  EXPECT_THROW(translator.translate(lines, [](size_t, const auto&) { throw Error("the disk is full"); }), Error);
  const auto again = translator.translate(lines);
  for (size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(again[i].front().text, expected[i].front().text);
}

TEST_F(RunTest, ScoresAndListsOfTheBest) {
  DecodeConfig of = config("Hund und Katze\n\nder Hund\n");
  const std::vector<std::string> plain = translate(of);
  of.scores = true;
  const std::vector<std::string> scored = translate(of);
  of.scores = false;
  of.n_best = true;
  of.beam_size = 3;
  const std::vector<std::string> lists = translate(of);
  std::vector<int> count(3);
  for (const std::string& line : lists) {
    const size_t first = line.find(" ||| "), last = line.rfind(" ||| "), f0 = line.find(" ||| F0= ");
    ASSERT_TRUE(first != std::string::npos && f0 != std::string::npos && last > f0) << line;
    ++count.at(std::stoul(line));
  }
  EXPECT_EQ(count[0], 3);
  EXPECT_EQ(count[1], 1);  // an empty line
  EXPECT_EQ(count[2], 3);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(scored[i].substr(scored[i].find(" ||| ") + 5), plain[i]);
}

// A model that prefers the unknown word to any other.
TEST_F(RunTest, TheUnknownWordIsChosenOnlyWhereItMayBe) {
  const text::Vocab vocab = text::Vocab::load(folder_ / "v.spm");
  nn::Checkpoint checkpoint = nn::load_checkpoint(folder_ / "model", nn::Load::kModel);
  checkpoint.model.at("output.bias")[vocab.unk()] = 3.0F;
  nn::save_checkpoint(folder_ / "unsure", checkpoint);
  DecodeConfig of = config("Hund und Katze\nder Hund\n");
  of.model = folder_ / "unsure";
  for (const char* precision : {"float32", "bfloat16", "int8"}) {
    for (const int64_t beam : {1, 4}) {
      SCOPED_TRACE(cat(precision, ", beam ", beam));
      of.precision = precision;
      of.beam_size = beam;
      of.n_best = beam > 1;
      of.allow_unk = false;
      for (const std::string& line : translate(of)) EXPECT_EQ(line.find("\u2047"), std::string::npos) << line;
      of.allow_unk = true;
      for (const std::string& line : translate(of)) EXPECT_NE(line.find("\u2047"), std::string::npos) << line;
    }
  }
}

TEST_F(RunTest, AnotherMechanismByRequest) {
  DecodeConfig of = config("Hund und Katze und Hund und Katze\nder Hund läuft heute weg\n");
  of.attention = "full";
  of.scores = true;
  const std::vector<std::string> dense = translate(of);
  of.attention = "topk(1)";
  EXPECT_NE(translate(of), dense);
  of.attention = "rela-g";
  EXPECT_NE(message([&] { translate(of); }).find("does not have; use a mechanism without it"), std::string::npos);
}

TEST_F(RunTest, AForeignVocabularyIsRefused) {
  text::train_vocab({.inputs = {folder_ / "text"}, .output = folder_ / "other.spm", .size = 40, .type = "bpe"});
  DecodeConfig of = config("Hund\n");
  of.output = folder_ / "other-out";
  of.vocabs = {folder_ / "v.spm", folder_ / "other.spm"};
  EXPECT_NE(message([&] { translate(of); }).find("other.spm: the target vocabulary has 40 pieces, but the model in"),
            std::string::npos);
  std::string capitals = read_file(folder_ / "text");
  for (char& c : capitals) c = static_cast<char>('a' <= c && c <= 'z' ? c - 'a' + 'A' : c);
  write_file(folder_ / "capitals", capitals);
  text::train_vocab({.inputs = {folder_ / "capitals"}, .output = folder_ / "same-size.spm", .size = 48, .type = "bpe"});
  of.vocabs = {folder_ / "same-size.spm", folder_ / "v.spm"};
  EXPECT_NE(message([&] { translate(of); }).find("same-size.spm: is not the source vocabulary of the model in"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(of.output));
}

TEST_F(RunTest, AScoreIsTheTranslationsLogProbability) {
  write_file(folder_ / "source", "Hund und Katze\n\nder Hund\n");
  write_file(folder_ / "target", "die Katze\nweg\n\n");
  ScoreConfig of;
  of.model = folder_ / "model";
  of.train_sets = {folder_ / "source", folder_ / "target"};
  of.output = folder_ / "scores";
  of.cpu_threads = 1;
  EXPECT_EQ(run_score(of), 3);
  const std::vector<std::string> scores = read_lines(of.output);
  ASSERT_EQ(scores.size(), 3U);
  double sum = 0;
  for (const std::string& score : scores) {
    EXPECT_LT(std::stod(score), 0);
    sum += std::stod(score);
  }
  of.summary = true;
  run_score(of);
  const std::vector<std::string> words = split_words(read_lines(of.output).at(0));
  ASSERT_EQ(words.size(), 10U);
  EXPECT_EQ(words[1], "3");
  EXPECT_NEAR(std::stod(words[5]), sum, 1e-3);                         // printed with four digits
  EXPECT_NEAR(std::stod(words[7]), -sum / std::stod(words[3]), 1e-4);  // the sum's rounding, over several tokens

  write_file(folder_ / "target", "die Katze\nweg\n");
  EXPECT_NE(message([&] { run_score(of); }).find("target' ends after 2 lines, '"), std::string::npos);
}

TEST_F(RunTest, AnInterruptEndsBetweenBatches) {
  const DecodeConfig of = config(sample(20));
  fs::remove(folder_ / "out");
  install_signal_handlers();
  std::raise(SIGTERM);
  EXPECT_THROW(run_translate(of), Interrupted);
  clear_interrupt();
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

// Ctrl-C ends both sides of a pipe: what is at an end then is not the text.
TEST_F(RunTest, AnInterruptAtTheEndOfTheInputIsNotItsEnd) {
  write_file(folder_ / "lines", "1\n");
  models::LineSource source(folder_ / "lines");
  EXPECT_EQ(source.next(100).size(), 1U);
  install_signal_handlers();
  std::raise(SIGTERM);
  EXPECT_THROW(source.next(100), Interrupted);
  clear_interrupt();
}

// A writer that waits after a line gets its answer before the end of the input.
TEST_F(RunTest, AWindowEndsWhereAPipePauses) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  models::LineSource source(pipe);
  std::ofstream writer(pipe);
  writer << "one\ntwo\n" << std::flush;
  std::vector<std::string> answered;
  while (answered.size() < 2) {
    const std::vector<std::string> window = source.next(100);
    ASSERT_FALSE(window.empty());
    answered.insert(answered.end(), window.begin(), window.end());
  }
  EXPECT_EQ(answered, (std::vector<std::string>{"one", "two"}));
  writer << "three\n" << std::flush;
  writer.close();
  EXPECT_EQ(source.next(100), (std::vector<std::string>{"three"}));
  EXPECT_TRUE(source.next(100).empty());
}

TEST_F(RunTest, WindowsOfAFileAreFull) {
  write_file(folder_ / "lines", "1\n2\n3\n4\n5\n");
  models::LineSource source(folder_ / "lines");
  EXPECT_EQ(source.next(3).size(), 3U);
  EXPECT_EQ(source.next(3).size(), 2U);
  EXPECT_EQ(source.next(3).size(), 0U);
  EXPECT_NE(message([] { models::LineSource missing("/nowhere/at/all"); }).find("no such file"), std::string::npos);
}

TEST_F(RunTest, AWindowEndsWhereLinesAreLong) {
  const std::string line(models::kWindowBytes / 2, 'x');
  write_file(folder_ / "lines", line + "\n" + line + "\n" + line + "\n");
  models::LineSource source(folder_ / "lines");
  EXPECT_EQ(source.next(100).size(), 2U);
  EXPECT_EQ(source.next(100).size(), 1U);
  EXPECT_EQ(source.next(100).size(), 0U);
}

TEST_F(RunTest, ACutLineKeepsNoMoreMemoryThanItNeeds) {
  std::string line;
  for (int i = 0; i < 3000; ++i) line += "Katze ";
  const Encoded encoded = encode_line(text::Vocab::load(folder_ / "v.spm"), line, 20);
  EXPECT_GE(encoded.cut_from, 3000);
  EXPECT_EQ(encoded.tokens.size(), 21U);
  EXPECT_LT(encoded.tokens.capacity(), 100U);
}

TEST_F(RunTest, ACutLineIsBlamedOnWhatLimitsIt) {
  EncoderDecoderConfig model;
  model.max_positions = 30;
  const auto says = [&](int64_t max_length) { return cut_message({{}, 2000}, line_limit(model, max_length)); };
  EXPECT_EQ(says(1000), "has 2,000 tokens; cut to 1,000 (--max-length)");
  model.transformer_positions = "learned";
  EXPECT_EQ(says(1000), "has 2,000 tokens; cut to 29 (the model's learned positions)");
  EXPECT_EQ(says(20), "has 2,000 tokens; cut to 20 (--max-length)");
}

}  // namespace
}  // namespace fovea::translation::run_test
