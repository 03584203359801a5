#include "fovea/tasks/translation/engine.h"

#include <gtest/gtest.h>

#include <map>

#include "fovea/base/strings.h"
#include "fovea/base/test_message.h"
#include "fovea/tasks/translation/test_translation_run.h"
#include "fovea/tasks/translation/translator.h"

namespace fovea::translation::engine_test {
namespace {

class TranslationEngineTest : public RunTest {
 protected:
  LoadedModel loaded() const { return load_model(config("")); }
  std::map<Ticket, EngineResult> run(TranslationEngine& engine) const {
    std::map<Ticket, EngineResult> results;
    bool works = true;
    while (works) {
      works = engine.step();
      for (auto& [ticket, result] : engine.take()) results[ticket] = std::move(result);
    }
    return results;
  }
};

std::vector<std::string> some_lines() {
  return {"Hund und Katze", "", "die Katze läuft weg", "nicht heute", " ", "der Hund sieht die Katze und läuft weg",
          "\xff Katze",     "x"};
}

// A server's engine: its encoder is laid out, and its sentences join in their order and are linked one by one.
TEST_F(TranslationEngineTest, GivesTheBytesOfTheTranslator) {
  const std::vector<std::string> lines = some_lines();
  DecodeConfig of = config("");
  of.beam_size = 3, of.n_best = true, of.alignment = true, of.normalize = 0.7;
  Translator translator(of);
  const auto expected = translator.translate(lines);
  TranslationEngine engine(loaded(), {.limits = {.max_rows = 7, .max_tokens = 30}, .owns_model = true});
  std::vector<Ticket> tickets;
  for (const std::string& line : lines) {
    EngineRequest request{line};
    request.beam.beam_size = request.beam.num_best = 3;
    request.beam.normalize = 0.7;
    request.alignment = LinkChoice{};
    tickets.push_back(engine.add(std::move(request)));
  }
  EXPECT_EQ(engine.counts().waiting, 6);
  const std::map<Ticket, EngineResult> results = run(engine);
  ASSERT_EQ(results.size(), lines.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::vector<Translation>& best = results.at(tickets[i]).best;
    ASSERT_EQ(best.size(), expected[i].size()) << i;
    for (size_t j = 0; j < best.size(); ++j) {
      EXPECT_EQ(best[j].text, expected[i][j].text) << i;
      EXPECT_EQ(best[j].score, expected[i][j].score) << i;
      EXPECT_EQ(analysis::print(best[j].links), analysis::print(expected[i][j].links)) << i;
    }
  }
}

TEST_F(TranslationEngineTest, OptionsOutOfRangeAndLayersThatAreNotThereAreRefused) {
  TranslationEngine engine(loaded(), {});
  const auto message = [&](const auto& change) {
    EngineRequest request{"Hund"};
    change(request);
    return message_of([&] { engine.add(std::move(request)); });
  };
  EXPECT_EQ(message([](EngineRequest& r) { r.beam.beam_size = 0; }), "beam size: got 0; expected 1 to 1000");
  EXPECT_EQ(message([](EngineRequest& r) { r.beam.num_best = 6; }), "n-best: got 6; expected 1 to 5");
  EXPECT_EQ(message([](EngineRequest& r) { r.beam.normalize = -1; }), "normalize: got -1; expected 0 to 100");
  EXPECT_EQ(message([](EngineRequest& r) { r.max_length_factor = 0; }),
            "max length factor: got 0; expected 0.1 to 1000");
  EXPECT_EQ(message([](EngineRequest& r) { r.alignment = LinkChoice{.layer = 2}; }),
            "alignment-layer: got 2; the model's decoder has 1 layers");
  EXPECT_FALSE(engine.step());
  EXPECT_TRUE(engine.take().empty());
}

TEST_F(TranslationEngineTest, ACancelledRequestGivesNoResult) {
  TranslationEngine engine(loaded(), {.limits = {.max_rows = 10}});
  std::vector<Ticket> tickets;
  for (int i = 0; i < 4; ++i) tickets.push_back(engine.add({"Hund und Katze"}));
  EXPECT_TRUE(engine.step());
  EXPECT_EQ(engine.counts().running, 2);
  engine.cancel(tickets[0]);
  engine.cancel(tickets[3]);
  engine.cancel(77);
  const std::map<Ticket, EngineResult> results = run(engine);
  EXPECT_EQ(results.size(), 2U);
  EXPECT_EQ(results.at(tickets[1]).best[0].text, results.at(tickets[2]).best[0].text);
}

// Words of the target between blanks; the first may have a capital.
size_t count(const std::string& text, const std::string& word) {
  const std::vector<std::string> words = split_words(text);
  const bool begins = !words.empty() && words.front() != word && words.front() == text::with_capital(word);
  return static_cast<size_t>(std::ranges::count(words, word)) + (begins ? 1 : 0);
}

TEST_F(TranslationEngineTest, TranslationsSayTheirTerms) {
  TranslationEngine engine(loaded(), {});
  const auto terms = std::make_shared<const text::TermList>(
      text::TermList::from_text("Hund\theute\nKatze\tnicht\ndie\tläuft weg\nund\tsieht\nund\tdie\n", "t.tsv"));
  for (const int64_t beam : {1, 2, 5}) {
    std::vector<Ticket> tickets;
    for (const std::string& line : some_lines()) {
      EngineRequest request{line};
      request.beam.beam_size = request.beam.num_best = beam;
      request.terms = terms;
      tickets.push_back(engine.add(std::move(request)));
    }
    std::map<Ticket, EngineResult> results = run(engine);
    for (const Translation& best : results.at(tickets[0]).best) {
      EXPECT_GE(count(best.text, "heute"), 1U) << best.text;
      EXPECT_GE(count(best.text, "nicht"), 1U) << best.text;
      EXPECT_GE(count(best.text, "sieht") + count(best.text, "die"), 1U) << best.text;
    }
    for (const Translation& best : results.at(tickets[2]).best) {
      const std::string spaced = cat(" ", best.text, " ");
      EXPECT_TRUE(spaced.find(" läuft weg ") != std::string::npos || spaced.starts_with(" Läuft weg ")) << best.text;
      EXPECT_GE(count(best.text, "nicht"), 1U) << best.text;
    }
    for (const auto& [ticket, result] : results) EXPECT_TRUE(result.missing.empty());
  }
}

TEST_F(TranslationEngineTest, TermsWithoutRoomAreReportedAndUnwritableOnesRefused) {
  TranslationEngine engine(loaded(), {});
  const auto list = [](const char* text) {
    return std::make_shared<const text::TermList>(text::TermList::from_text(text, "t.tsv"));
  };
  EngineRequest request{"Hund Katze"};
  request.terms = list("Hund\tläuft weg heute nicht und sieht die Katze weg heute\nKatze\tHund\n");
  request.max_length_factor = 1;
  const Ticket ticket = engine.add(request);
  const EngineResult result = run(engine).at(ticket);
  ASSERT_EQ(result.missing.size(), 1U);
  EXPECT_EQ(result.missing[0].source, "Hund");
  EXPECT_GE(count(result.best[0].text, "Hund"), 1U);
  request.terms = list("x\ty\nKatze\tqqq\n");
  EXPECT_EQ(
      message_of([&] { engine.add(request); }),
      "t.tsv, line 2: got the target 'qqq', which has characters that the model's vocabulary lacks; expected text "
      "that the model can write");
}

}  // namespace
}  // namespace fovea::translation::engine_test
