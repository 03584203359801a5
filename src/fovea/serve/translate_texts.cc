#include "fovea/serve/translate_texts.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "fovea/base/empty_line.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/models/beam_options.h"

namespace fovea::serve {
namespace {

// Tags take a hundred times the memory of their bytes.
constexpr int64_t kMostTags = 100'000;

void take_room(TextJob& job, size_t bytes) {
  if (!job.room.take(bytes)) throw HttpError(503, "other requests fill the memory; ask again later");
}

// Adds the sentences of a text to a job.
class Planner {
 public:
  Planner(Context& context, const TextTask& task, TextJob& job) : context_(context), task_(task), job_(job) {}

  void add(const std::string& text) {
    PlannedText& planned = job_.texts.emplace_back();
    mark_ = {};
    if (task_.markup) {
      plan_markup(text, planned);
    } else if (task_.splitting) {
      SplitText split = split_text(text, *task_.splitting, splitter());
      for (const std::string& sentence : split.sentences) add_sentence(sentence, planned, false);
      planned.form = std::move(split);
    } else {
      if (text.find_first_of("\r\n") != std::string::npos)
        throw HttpError(400, "text: got a line end; send the lines as a list, or \"split\": true for a longer text",
                        "text");
      add_sentence(text, planned, false);
    }
  }

 private:
  text::SentenceSplitter& splitter() { return splitter_of(task_.source_language); }
  void plan_markup(const std::string& text, PlannedText& planned) {
    tags_ += std::ranges::count(text, '<');
    if (tags_ > kMostTags)
      throw HttpError(413, cat("the texts have ", tags_, " times '<'; expected at most ", kMostTags,
                               " tags; send the text in several requests"));
    const bool splits = task_.splitting && *task_.splitting != Splitting::kNever;
    std::vector<MarkupPart> parts = parse_markup(text, *task_.markup, splits ? &splitter() : nullptr);
    size_t marks = 0;
    for (const MarkupPart& part : parts) marks += part.marks.size();
    take_room(job_, marks * sizeof(InlineMark));
    for (const MarkupPart& part : parts)
      if (!part.text.empty()) add_sentence(part.text, planned, !part.marks.empty());
    planned.form = std::move(parts);
  }
  // A mark of the wanted language holds for the sentences behind it, up to another one.
  std::string marked(const std::string& sentence) {
    const std::string_view own = job_.model->sentences().language_mark(sentence);
    if (!own.empty()) mark_ = own;
    if (!own.empty() || mark_.empty() || is_empty_line(sentence)) return sentence;
    job_.marked.push_back(job_.requests.size());
    return cat(mark_, " ", sentence);
  }
  // Refuses a sentence by its bytes before it is encoded, which takes longer.
  void require_short(const std::string& sentence) const {
    const int64_t most = job_.model->sentences().longest_sentence_bytes();
    if (std::ssize(sentence) > most && !is_empty_line(sentence))
      throw HttpError(400, cat("a sentence has ", sentence.size(), " bytes; expected at most ", most,
                               "; divide it by full stops or line ends"));
  }
  void add_sentence(const std::string& sentence, PlannedText& planned, bool needs_links) {
    require_waiting(*job_.exchange);
    require_short(sentence);
    translation::EngineRequest request = task_.search;
    request.text = marked(sentence);
    request.tokens = job_.model->sentences().tokens(request.text, request.source_lang);
    const int64_t tokens = std::ssize(*request.tokens), most = job_.model->sentences().longest_sentence();
    if (tokens > most)
      throw HttpError(400, cat("a sentence has ", tokens, " tokens; expected at most ", most,
                               "; divide it by full stops or line ends"));
    context_.metrics.unknown_tokens += job_.model->sentences().count_unknown(*request.tokens);
    if (needs_links && !request.alignment) request.alignment.emplace();
    planned.sentences.push_back(job_.requests.size());
    job_.requests.push_back(std::move(request));
    job_.part_tokens.push_back(tokens + 1);  // and </s>
    tokens_ += tokens + 1;
    require_tokens(context_, tokens_);
  }

  Context& context_;
  const TextTask& task_;
  TextJob& job_;
  std::string mark_;  // of the language that the text wants
  int64_t tokens_ = 0, tags_ = 0;
};

void warn_of_missing_terms(const TextJob& job) {
  size_t missing = 0;
  for (const SentenceOutput& output : job.outputs) missing += output.result.missing.size();
  if (missing > 0)
    log::warn(
        cat("request ", job.exchange->request().id, ": ", missing, " terms have no room in the longest translation"));
}

}  // namespace

void choose_languages(TextTask& task, const std::string& source, const std::string& target) {
  const AskedLanguages languages = asked_languages(*task.model, source, target);
  task.search.source_lang = languages.source;
  task.search.target_lang = languages.target;
}

void TextJob::take(size_t part, PartOutput& output) {
  outputs[part] = std::move(std::get<SentenceOutput>(output));
  if (--left == 0) finish();
}

void TextJob::fail(const JobFailure& failure) {
  exchange->answer(dialect->refusal(failure.status, failure.message, {}));
}

void TextJob::finish() {
  forget_marks();
  warn_of_missing_terms(*this);
  const Response response = answer(*this);
  if (response.status != 0) exchange->answer(response);
}

void TextJob::forget_marks() {
  for (const size_t part : marked) {
    for (translation::Translation& hypothesis : outputs[part].result.best) {
      std::erase_if(hypothesis.links, [](const analysis::Link& link) { return link.source == 0; });
      for (analysis::Link& link : hypothesis.links) --link.source;
    }
  }
}

std::string TextJob::translation(size_t text, size_t rank) const {
  const PlannedText& planned = texts[text];
  const auto best_of = [&](size_t sentence) -> const translation::Translation& {
    const auto& best = outputs[planned.sentences[sentence]].result.best;
    return best[std::min(rank, best.size() - 1)];
  };
  if (const auto* split = std::get_if<SplitText>(&planned.form)) {
    std::vector<std::string> sentences;
    for (size_t i = 0; i < planned.sentences.size(); ++i) sentences.push_back(best_of(i).text);
    return join_text(*split, sentences);
  }
  if (const auto* parts = std::get_if<std::vector<MarkupPart>>(&planned.form)) {
    std::string markup;
    size_t sentence = 0;
    for (const MarkupPart& part : *parts) {
      if (part.text.empty()) {
        markup += part.bytes;
        continue;
      }
      const translation::Translation& best = best_of(sentence++);
      markup += translated_markup(part, best.text, best.links);
    }
    return markup;
  }
  return best_of(0).text;
}

int64_t TextJob::source_tokens() const { return std::accumulate(part_tokens.begin(), part_tokens.end(), int64_t{0}); }

int64_t TextJob::target_tokens() const {
  return std::accumulate(outputs.begin(), outputs.end(), int64_t{0},
                         [](int64_t sum, const auto& output) { return sum + output.result.target_tokens; });
}

translation::EngineRequest usual_search(const ServeOptions& options) {
  translation::EngineRequest request;
  request.beam = models::beam_options(options);
  request.max_length_factor = options.max_length_factor;
  request.allow_unk = options.allow_unk;
  return request;
}

void require_tokens(const Context& context, int64_t tokens) {
  if (tokens > context.queue.max_tokens())
    throw HttpError(413, cat("the request has at least ", tokens, " tokens; expected at most ",
                             context.queue.max_tokens(), "; send the text in several requests"));
}

void queue_job(Context& context, const std::shared_ptr<Job>& job) {
  const ServedModel* const model = job->model.get();
  require_tokens(context, std::accumulate(job->part_tokens.begin(), job->part_tokens.end(), int64_t{0}));
  Work work{.steps = job->least_steps()};
  for (size_t part = 0; part < job->part_tokens.size(); ++part) work.tokens += job->work(part);
  const int64_t rows = budget_of(*model, context.options).rows;
  const double timeout = context.options.timeout;
  const double seconds = model->pace().least_seconds(work, context.queue.work_before(model, work.tokens), rows);
  if (seconds > timeout && !job->answers_in_parts)
    throw BusyError(cat("at its present speed the model needs ", std::llround(seconds),
                        " s for this, and --timeout is ", shortest(timeout), " s; send less text, or ask again later"),
                    seconds - timeout);
  if (!context.queue.push(job)) {
    const int64_t waiting = context.queue.tokens(model);
    throw BusyError(cat(waiting, " tokens of other requests wait; ask again later"),
                    model->pace().least_seconds({.tokens = static_cast<double>(waiting)}, 0, rows));
  }
}

void translate_texts(Context& context, const std::shared_ptr<Exchange>& exchange, const Dialect& dialect, TextTask task,
                     std::function<Response(TextJob& job)> answer) {
  if (std::ssize(task.texts) > context.options.max_texts)
    throw HttpError(413, cat("got ", task.texts.size(), " texts; expected at most ", context.options.max_texts,
                             "; send them in several requests"));
  const auto job = std::make_shared<TextJob>(exchange, task.model);
  job->wants_attention = task.wants_attention;
  job->part_rows = task.search.beam.beam_size;
  job->dialect = &dialect;
  job->answer = std::move(answer);
  job->room = RoomShare(context.room);
  const bool has_own_terms = task.search.terms.use_count() == 1;  // or they are a glossary's
  if (has_own_terms) take_room(*job, task.search.terms->memory());
  Planner planner(context, task, *job);
  for (const std::string& text : task.texts) planner.add(text);
  job->left = job->requests.size();
  job->outputs.resize(job->left);
  if (job->left == 0) return job->finish();
  queue_job(context, job);
}

}  // namespace fovea::serve
