#pragma once
#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/serve/engine.h"
#include "fovea/serve/queue.h"

// Engines without a model, whose steps can be counted, for tests of the server.
namespace fovea::serve {

// The steps of a part: how many there are, how many of them only read, and the output of each other one.
struct FakePart {
  int64_t reads = 0, steps = 1;
  int64_t reading_tokens = 1, tokens = 1;  // that it counts in a step that reads, and in another one
  std::function<EngineOutput(Ticket ticket, int64_t made)> output;  // made: from 1 to `steps`
};

// Computes every part in every step. Remembers the steps, from 1, in which each part was computed.
class FakeSteps : public Engine {
 public:
  bool step() override {
    if (parts_.empty()) return false;
    ++steps;
    before_step(*this);
    rows_ = std::ssize(parts_);
    most_rows = std::max(most_rows, rows_);
    for (auto place = parts_.begin(); place != parts_.end();) {
      auto& [ticket, running] = *place;
      computed[ticket].push_back(steps);
      const int64_t made = ++running.done - running.part.reads;
      if (made > 0) outputs_.push_back(running.part.output(ticket, made));
      place = made == running.part.steps ? parts_.erase(place) : std::next(place);
    }
    return true;
  }
  std::vector<EngineOutput> take() override { return std::exchange(outputs_, {}); }
  void cancel(Ticket ticket) override {
    parts_.erase(ticket);
    std::erase_if(outputs_, [&](const EngineOutput& output) { return output.ticket == ticket; });
  }
  EngineCounts counts() const override {
    EngineCounts counts{.rows = rows_, .running = std::ssize(parts_)};
    for (const auto& [ticket, running] : parts_)
      counts.running_tokens += running.done < running.part.reads ? running.part.reading_tokens : running.part.tokens;
    return counts;
  }

  std::function<void(FakeSteps& engine)> before_step = [](FakeSteps&) {};  // may throw
  void lose_all() { parts_.clear(), outputs_.clear(); }                    // as an engine does that throws
  int64_t steps = 0, most_rows = 0;
  std::map<Ticket, std::vector<int64_t>> computed;

 protected:
  Ticket begin(FakePart part) {
    parts_.emplace(next_, Running{std::move(part)});
    return next_++;
  }

 private:
  struct Running {
    FakePart part;
    int64_t done = 0;
  };
  std::map<Ticket, Running> parts_;
  std::vector<EngineOutput> outputs_;
  Ticket next_ = 0;
  int64_t rows_ = 0;
};

// Continues a text by "abc...", a byte in each step behind the pieces of its prompt.
class FakeCompleter final : public FakeSteps, public UnitReader {
 public:
  const SentenceReader* sentences() const override { return nullptr; }
  const UnitReader* texts() const override { return this; }
  Ticket add(PartInput input) override {
    const auto request = std::get<language::CompletionRequest>(std::move(input));
    const auto output = [most = request.max_units](Ticket ticket, int64_t made) {
      language::CompletionPart part{.ticket = ticket};
      if (made >= most) part.end = language::CompletionEnd::kLength;
      if (most > 0) {
        const int64_t unit = 'a' + (made - 1) % 26;
        part.units.push_back({{unit, -1.0F}});
        part.text = static_cast<char>(unit);
      }
      return EngineOutput{ticket, std::move(part)};
    };
    const Ticket ticket = begin({.reads = std::ssize(request.prompt) / models::kPromptPiece,
                                 .steps = std::max<int64_t>(request.max_units, 1),
                                 .reading_tokens = models::kPromptPiece,
                                 .output = output});
    tickets[request.seed] = ticket;
    return ticket;
  }
  const text::Units& units() const override { return units_; }
  std::optional<int64_t> longest(int64_t /*prompt_units*/) const override { return std::nullopt; }
  bool ends_texts() const override { return false; }

  std::map<uint64_t, Ticket> tickets;  // by the seeds of the requests

 private:
  text::Units units_ = text::Units::bytes();
};

// Translates a sentence into itself in square brackets, in as many steps as it has words. A word is a token.
class FakeTranslator final : public FakeSteps, public SentenceReader {
 public:
  const SentenceReader* sentences() const override { return this; }
  const UnitReader* texts() const override { return nullptr; }
  Ticket add(PartInput input) override {
    const auto sentence = std::get<SentenceInput>(std::move(input));
    if (sentence.request.text == "refused") throw Error("the fake engine refuses this");
    const int64_t words = std::max<int64_t>(std::ssize(tokens(sentence.request.text, "")), 1);
    const auto output = [sentence, words](Ticket ticket, int64_t /*made*/) {
      return EngineOutput{ticket, translated(sentence, words)};
    };
    return begin({.reads = words - 1, .reading_tokens = words + 1, .tokens = words + 1, .output = output});
  }
  models::Sentence tokens(const std::string& sentence, const std::string& /*source*/) const override {
    models::Sentence words;
    for (const std::string& word : split(sentence, ' '))
      if (!word.empty()) words.push_back(std::ssize(word));
    return words;
  }
  int64_t count_unknown(const models::Sentence& /*tokens*/) const override { return 0; }
  std::string_view language_mark(std::string_view /*text*/) const override { return {}; }
  std::vector<std::string> languages() const override { return {}; }
  int64_t longest_sentence() const override { return 100; }
  int64_t longest_sentence_bytes() const override { return 6400; }

 private:
  static SentenceOutput translated(const SentenceInput& sentence, int64_t words) {
    SentenceOutput output;
    for (int64_t rank = 0; rank < sentence.request.beam.num_best; ++rank) {
      translation::Translation best;
      best.text = cat("[", sentence.request.text, "]");
      best.score = best.log_prob = -1.0 - static_cast<double>(rank);
      if (sentence.request.alignment)
        for (int64_t word = 0; word < words; ++word) best.links.push_back({word, word});
      output.result.best.push_back(std::move(best));
    }
    output.result.source_tokens = output.result.target_tokens = words + 1;
    if (sentence.wants_attention) output.attention = {{"</s>"}, {"</s>"}, {1.0F}, {{{1.0F}}}, {1, 1}};
    return output;
  }
};

// A model of that name around an engine.
inline std::shared_ptr<ServedModel> served(const std::string& name, std::unique_ptr<Engine> engine) {
  ModelPlace place;
  place.name = name;
  return std::make_shared<ServedModel>(std::move(place), std::move(engine));
}

// An exchange whose answer nobody reads.
struct SilentExchange final : Exchange {
  const Request& request() const override { return asked; }
  void answer(Response /*response*/) override {}
  void begin(const Response& /*head*/) override {}
  void push(std::string /*part*/) override {}
  void end() override {}
  bool is_over() const override { return over; }
  Request asked = {};
  bool over = false;
};

}  // namespace fovea::serve
