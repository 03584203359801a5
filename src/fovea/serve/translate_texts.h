#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "fovea/serve/context.h"
#include "fovea/serve/markup.h"
#include "fovea/serve/split_text.h"

namespace fovea::serve {

// Texts to translate, as a dialect asks for it.
struct TextTask {
  std::shared_ptr<ServedModel> model;
  std::string source_language;  // for splitting
  std::vector<std::string> texts;
  std::optional<Splitting> splitting;  // none: a text is one line, as `fovea translate` reads it
  std::optional<MarkupKind> markup;
  translation::EngineRequest search;  // the options of each sentence
  bool wants_attention = false;
};

// Sets the languages of the sentences, if the model has many (asked_languages() in served_model.h).
void choose_languages(TextTask& task, const std::string& source, const std::string& target);

// A text's way through the model: a line, sentences with gaps, or markup. Its sentences are parts of the job.
struct PlannedText {
  std::variant<std::monostate, SplitText, std::vector<MarkupPart>> form;
  std::vector<size_t> sentences;  // numbers of parts
};

struct TextJob : Job {
  using Job::Job;
  PartInput input(size_t part) override { return SentenceInput{requests[part], wants_attention}; }
  void take(size_t part, PartOutput& output) override;
  void fail(const JobFailure& failure) override;
  double work(size_t part) const override { return static_cast<double>(part_tokens[part] * part_rows); }
  void finish();  // answers, when all parts have their results

  std::vector<translation::EngineRequest> requests;  // one for each part
  std::vector<SentenceOutput> outputs;               // the same
  size_t left = 0;                                   // parts without an output
  bool wants_attention = false;
  const Dialect* dialect = nullptr;
  std::function<Response(TextJob& job)> answer;
  std::vector<PlannedText> texts;
  RoomShare room;              // what the parsed texts take
  std::vector<size_t> marked;  // numbers of the parts before whose sentences a mark of the language was put

  // Makes the links of these parts those of the sentences without the mark, which is a word of its own.
  void forget_marks();
  // The text's translation out of each sentence's translation `rank`, from 0; its last one if it has fewer.
  std::string translation(size_t text, size_t rank = 0) const;
  // Sums over all texts: of what was read, and of the best translations.
  int64_t source_tokens() const, target_tokens() const;
};

// Queues the texts, and answers with what `answer` makes of the finished job; status 0 means that it has answered
// itself. Throws an HttpError for no text, a text that is too long, too many texts, or what queue_job() refuses.
void translate_texts(Context& context, const std::shared_ptr<Exchange>& exchange, const Dialect& dialect, TextTask task,
                     std::function<Response(TextJob& job)> answer);

// Throws an HttpError if a request of that many tokens can never be queued.
void require_tokens(const Context& context, int64_t tokens);

// Queues a job whose parts are filled in. Throws an HttpError if the queue has no room, or the model cannot be ready
// within the timeout at the speed that was measured.
void queue_job(Context& context, const std::shared_ptr<Job>& job);

// The search of a request without options of its own.
translation::EngineRequest usual_search(const ServeOptions& options);

}  // namespace fovea::serve
