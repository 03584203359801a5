#include "fovea/serve/batcher.h"

#include <algorithm>
#include <exception>
#include <set>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"

namespace fovea::serve {

Budget budget_of(const ServedModel& model, const ServeOptions& options) {
  const int64_t rows_of_a_part = model.translates() ? options.beam_size : 1;
  return {.rows = options.mini_batch * rows_of_a_part, .tokens = options.mini_batch_words};
}

bool may_start(const Job& job, const Load& load, const Budget& budget) {
  if (load.rows == 0) return true;  // also for a part that is larger than the budget
  const int64_t more = job.tokens_at_once(job.next_part);
  const int64_t rows = load.rows + job.part_rows;
  const int64_t tokens = load.counts.running_tokens + load.counts.waiting_tokens + more;
  if (rows <= budget.rows && tokens <= budget.tokens) return true;
  if (job.running_rows == 0) return rows <= 2 * budget.rows;
  const bool is_within_share = load.requests * (job.running_rows + job.part_rows) <= budget.rows &&
                               load.requests * (job.running_tokens + more) <= budget.tokens;
  return is_within_share && 2 * rows <= 3 * budget.rows && 2 * tokens <= 3 * budget.tokens;
}

ModelList Batcher::load() const {
  ModelList list;
  for (const ModelPlace& place : model_places(options_.model))
    list.push_back(std::make_shared<ServedModel>(place, loader_(place)));
  return list;
}

void Batcher::load_again() {
  try {
    room_.models.set(load());
    ++room_.metrics.reloads;
    log::info("loaded the models again");
  } catch (const std::exception& error) {
    ++room_.metrics.failed_reloads;
    log::warn(cat("cannot load the models again; the old ones stay: ", error.what()));
  }
}

void Batcher::run() {
  const Stopwatch watch;
  ModelList list = load();
  log::info(cat("ready: ", list.size(), list.size() == 1 ? " model" : " models", " loaded in ",
                fixed(watch.seconds(), 1), " s"));
  room_.models.set(std::move(list));
  while (!stops_)
    if (!turn()) room_.queue.wait();
}

bool Batcher::turn() {
  if (reloads_.exchange(false)) load_again();
  drop_left();
  admit();
  return step();
}

void Batcher::stop() {
  stops_ = true;
  room_.queue.wake();
}

void Batcher::reload() {
  reloads_ = true;
  room_.queue.wake();
}

std::map<Ticket, Batcher::RunningPart>::iterator Batcher::release(Running& running,
                                                                  std::map<Ticket, RunningPart>::iterator place) {
  Job& job = *place->second.part.job;
  running.rows -= job.part_rows;
  job.running_rows -= job.part_rows;
  job.running_tokens -= job.tokens_at_once(place->second.part.index);
  return running.parts.erase(place);
}

// Frees the rows of parts for whose answer nobody waits any more.
void Batcher::drop_left() {
  for (const auto& running : running_) {
    for (auto place = running->parts.begin(); place != running->parts.end();) {
      const Job& job = *place->second.part.job;
      if (!job.exchange->is_over() && !job.has_failed) {
        ++place;
        continue;
      }
      running->model->engine().cancel(place->first);
      place = release(*running, place);
    }
  }
  forget_old_models();
}

void Batcher::forget_old_models() {
  const auto list = room_.models.now();
  std::erase_if(running_, [&](const auto& running) {
    return running->parts.empty() && (list == nullptr || std::ranges::find(*list, running->model) == list->end());
  });
}

Batcher::Running& Batcher::running_of(const std::shared_ptr<ServedModel>& model) {
  for (const auto& running : running_)
    if (running->model == model) return *running;
  running_.push_back(std::make_unique<Running>(Running{.model = model}));
  return *running_.back();
}

Load Batcher::load_of(const Running& running) const {
  std::set<const Job*> requests;
  for (const auto& [ticket, running_part] : running.parts) requests.insert(running_part.part.job.get());
  for (const auto& job : room_.queue.jobs(running.model.get())) requests.insert(job.get());
  return {running.model->engine().counts(), running.rows, std::ssize(requests)};
}

// Lets parts join. The engines wait with nothing: the order of turns is the queue's.
void Batcher::admit() {
  for (const auto& model : room_.queue.models()) {
    Running& running = running_of(model);
    const Budget budget = budget_of(*model, options_);
    Load load = load_of(running);
    while (const auto part =
               room_.queue.next(model.get(), [&](const Job& job) { return may_start(job, load, budget); })) {
      add(running, *part);
      load.rows = running.rows;
      load.counts = model->engine().counts();
    }
  }
}

// A model that was idle counts as if it had used as much time as the others, so it has no turns to make up for.
void Batcher::begin_work(Running& running) const {
  running.since = room_.now();
  double least = -1;
  for (const auto& other : running_)
    if (!other->parts.empty() && (least < 0 || other->used < least)) least = other->used;
  running.used = std::max(running.used, least);
}

void Batcher::add(Running& running, const Part& part) {
  Job& job = *part.job;
  if (job.has_failed) return;
  try {
    const Ticket ticket = running.model->engine().add(job.input(part.index));
    if (running.parts.empty()) begin_work(running);
    running.parts.emplace(ticket, RunningPart{part});
    running.rows += job.part_rows;
    job.running_rows += job.part_rows;
    job.running_tokens += job.tokens_at_once(part.index);
  } catch (const Error& error) {
    fail(part, {400, error.what()});
  }
}

void Batcher::fail(const Part& part, const JobFailure& failure) {
  if (std::exchange(part.job->has_failed, true)) return;
  room_.worker.add([held = part.job, failure] { held->fail(failure); });
}

// Steps the model that has used the least time, so that no model waits for the many long steps of another one.
bool Batcher::step() {
  std::vector<Running*> turns;
  for (const auto& running : running_)
    if (!running->parts.empty()) turns.push_back(running.get());
  std::ranges::stable_sort(turns, {}, &Running::used);
  const bool has_worked = std::ranges::any_of(turns, [this](Running* running) { return step_model(*running); });
  if (has_worked) ++room_.metrics.steps;
  count_rows();
  return has_worked;
}

bool Batcher::step_model(Running& running) {
  const double begin = room_.now();
  try {
    const bool has_worked = running.model->engine().step();
    const int64_t rows = running.model->engine().counts().rows;
    const double finished = take(running);
    const double end = room_.now();
    running.used += end - begin;
    // Texts finish a token in each row; of a sentence nothing is known before its end.
    const double tokens = running.model->translates() ? finished : static_cast<double>(rows);
    if (has_worked) running.model->pace().add({end - running.since, tokens, rows});
    running.since = end;
    return has_worked;
  } catch (const std::exception& error) {
    fail_all(running, error.what());
    return false;
  }
}

void Batcher::fail_all(Running& running, const std::string& what) {
  log::warn(cat("model '", running.model->place().name, "': ", what.substr(0, what.find('\n'))));
  for (auto place = running.parts.begin(); place != running.parts.end();) {
    fail(place->second.part, {500, "the model failed with this request or another one; see the server's log"});
    place = release(running, place);
  }
}

// Hands the engine's outputs to the worker. Returns the work of the sentences among them.
double Batcher::take(Running& running) {
  double work = 0;
  for (EngineOutput& output : running.model->engine().take()) {
    const auto found = running.parts.find(output.ticket);
    if (found == running.parts.end()) continue;
    const Part part = found->second.part;
    work += count(running, found->second, output.value);
    const auto* const text = std::get_if<language::CompletionPart>(&output.value);
    if (text == nullptr || text->end) release(running, found);
    room_.worker.add([part, value = std::move(output.value)]() mutable { part.job->take(part.index, value); });
  }
  return work;
}

double Batcher::count(Running& running, RunningPart& from, const PartOutput& output) {
  Metrics& metrics = room_.metrics;
  if (const auto* const sentence = std::get_if<SentenceOutput>(&output)) {
    metrics.source_tokens += sentence->result.source_tokens;
    metrics.target_tokens += sentence->result.target_tokens;
    ++metrics.sentences;
    return from.part.job->work(from.part.index);
  }
  const auto& text = std::get<language::CompletionPart>(output);
  metrics.target_tokens += std::ssize(text.units);
  from.made += std::ssize(text.units);
  if (text.end) {
    metrics.source_tokens += from.part.job->part_tokens[from.part.index];
    ++metrics.sentences;
    running.model->pace().add_text(from.made);
  }
  return 0;
}

void Batcher::count_rows() {
  int64_t rows = 0, parts = 0;
  for (const auto& running : running_) {
    rows += running->model->engine().counts().rows;
    parts += std::ssize(running->parts);
  }
  room_.metrics.rows = rows;
  room_.metrics.running = parts;
}

}  // namespace fovea::serve
