#include "fovea/serve/batcher.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/log.h"
#include "fovea/base/stopwatch.h"
#include "fovea/base/strings.h"

namespace fovea::serve {
namespace {

models::EngineCounts counts_of(const ServedModel& model) {
  return model.translates() ? model.translation().counts() : model.completion().counts();
}

ModelJob& job_of(const Part& part) { return static_cast<ModelJob&>(*part.job); }

}  // namespace

ModelList Batcher::load() const {
  ModelList list;
  for (const ModelPlace& place : model_places(options_.model))
    list.push_back(std::make_shared<ServedModel>(place, options_));
  return list;
}

void Batcher::load_again() {
  try {
    models_.set(load());
    ++metrics_.reloads;
    log::info("loaded the models again");
  } catch (const std::exception& error) {
    ++metrics_.failed_reloads;
    log::warn(cat("cannot load the models again; the old ones stay: ", error.what()));
  }
}

void Batcher::run() {
  const Stopwatch watch;
  ModelList list = load();
  log::info(cat("ready: ", list.size(), list.size() == 1 ? " model" : " models", " loaded in ",
                fixed(watch.seconds(), 1), " s"));
  models_.set(std::move(list));
  while (!stops_) {
    if (reloads_.exchange(false)) load_again();
    drop_left();
    admit();
    if (!step()) queue_.wait();
  }
}

void Batcher::stop() {
  stops_ = true;
  queue_.wake();
}

void Batcher::reload() {
  reloads_ = true;
  queue_.wake();
}

// Frees the rows of parts for whose answer nobody waits any more.
void Batcher::drop_left() {
  for (const auto& running : running_) {
    std::erase_if(running->parts, [&](const auto& entry) {
      const auto& [ticket, part] = entry;
      if (!part.job->exchange->is_over() && !job_of(part).has_failed) return false;
      if (running->model->translates()) {
        running->model->translation().cancel(ticket);
      } else {
        running->model->completion().cancel(ticket);
      }
      return true;
    });
  }
  forget_old_models();
}

void Batcher::forget_old_models() {
  const auto list = models_.now();
  std::erase_if(running_, [&](const auto& running) {
    return running->parts.empty() && std::ranges::find(*list, running->model) == list->end();
  });
}

Batcher::Running& Batcher::running_of(const std::shared_ptr<ServedModel>& model) {
  for (const auto& running : running_)
    if (running->model == model) return *running;
  running_.push_back(std::make_unique<Running>(Running{model, {}}));
  return *running_.back();
}

// Lets parts join while there is room. The engines wait with nothing: the order of turns is the queue's.
void Batcher::admit() {
  for (;;) {
    int64_t parts = 0, tokens = 0;
    for (const auto& running : running_) {
      const models::EngineCounts counts = counts_of(*running->model);
      parts += counts.running + counts.waiting;
      tokens += counts.running_tokens + counts.waiting_tokens;
    }
    if (parts >= options_.mini_batch || tokens >= options_.mini_batch_words) return;
    const std::optional<Part> part = queue_.next();
    if (!part) return;
    add(*part);
  }
}

void Batcher::add(const Part& part) {
  ModelJob& job = job_of(part);
  if (job.has_failed) return;
  try {
    Running& running = running_of(job.model);
    Ticket ticket = 0;
    if (auto* const translation = dynamic_cast<TranslationJob*>(&job)) {
      ticket = job.model->translation().add(translation->requests[part.index]);
    } else {
      ticket = job.model->completion().add(dynamic_cast<CompletionJob&>(job).requests[part.index]);
    }
    running.parts.emplace(ticket, part);
  } catch (const Error& error) {
    fail(part, {400, error.what()});
  }
}

void Batcher::fail(const Part& part, const JobFailure& failure) {
  ModelJob& job = job_of(part);
  if (std::exchange(job.has_failed, true)) return;
  worker_.add([held = part.job, failure] {
    auto& failed = static_cast<ModelJob&>(*held);
    failed.fail(failed, failure);
  });
}

bool Batcher::step() {
  const Stopwatch watch;
  bool has_worked = false;
  for (const auto& running : running_) has_worked = step_model(*running) || has_worked;
  if (has_worked) {
    ++metrics_.steps;
    seconds_ += watch.seconds();
    speed_ = static_cast<double>(metrics_.source_tokens) / std::max(seconds_, 1e-3);
  }
  count();
  return has_worked;
}

bool Batcher::step_model(Running& running) {
  if (running.parts.empty()) return false;
  bool has_worked = false;
  try {
    has_worked = running.model->translates() ? running.model->translation().step() : running.model->completion().step();
    if (running.model->translates()) {
      take_translations(running);
    } else {
      take_completions(running);
    }
  } catch (const std::exception& error) {
    const std::string what = error.what();
    const std::string line = what.substr(0, what.find('\n'));
    log::warn(cat("model '", running.model->place().name, "': ", line));
    for (const auto& [ticket, part] : std::exchange(running.parts, {}))
      fail(part, {500, "the model failed with this request or another one; see the server's log"});
  }
  return has_worked;
}

void Batcher::take_translations(Running& running) {
  for (auto& [ticket, result] : running.model->translation().take()) {
    const auto found = running.parts.find(ticket);
    if (found == running.parts.end()) continue;
    const Part part = found->second;
    running.parts.erase(found);
    auto& job = static_cast<TranslationJob&>(*part.job);
    metrics_.source_tokens += result.source_tokens;
    metrics_.target_tokens += result.target_tokens;
    ++metrics_.sentences;
    job.results[part.index] = std::move(result);
    if (job.wants_attention) {
      const std::string& sentence = job.requests[part.index].text;
      job.attention[part.index] = running.model->attention(sentence, job.results[part.index].best.front().pieces);
    }
    if (--job.left > 0) continue;
    worker_.add([held = part.job] {
      auto& finished = static_cast<TranslationJob&>(*held);
      finished.done(finished);
    });
  }
}

void Batcher::take_completions(Running& running) {
  for (language::CompletionPart& next : running.model->completion().take()) {
    const auto found = running.parts.find(next.ticket);
    if (found == running.parts.end()) continue;
    const Part part = found->second;
    metrics_.target_tokens += std::ssize(next.units);
    if (next.end) {
      running.parts.erase(found);
      metrics_.source_tokens += part.job->part_tokens[part.index];
      ++metrics_.sentences;
    }
    worker_.add([part, next = std::move(next)] {
      auto& running_job = static_cast<CompletionJob&>(*part.job);
      running_job.take(running_job, part.index, next);
    });
  }
}

void Batcher::count() {
  int64_t rows = 0, parts = 0;
  for (const auto& running : running_) {
    rows += counts_of(*running->model).rows;
    parts += std::ssize(running->parts);
  }
  metrics_.rows = rows;
  metrics_.running = parts;
}

}  // namespace fovea::serve
