#include "fovea/tasks/language/engine.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <map>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/models/sample_engine.h"
#include "fovea/text/unit_decoder.h"

namespace fovea::language {

std::string StopTexts::push(std::string_view text) {
  if (has_stopped_) return {};
  held_ += text;
  size_t end = held_.size(), certain = held_.size();
  for (const std::string& stop : stops_) {
    if (stop.empty()) continue;
    end = std::min(end, held_.find(stop));
    // The longest end of the text that begins the stop.
    for (size_t size = std::min(stop.size() - 1, held_.size()); size > 0; --size) {
      if (!held_.ends_with(std::string_view(stop).substr(0, size))) continue;
      certain = std::min(certain, held_.size() - size);
      break;
    }
  }
  has_stopped_ = end < held_.size();
  const std::string result = held_.substr(0, has_stopped_ ? end : certain);
  held_ = has_stopped_ ? std::string() : held_.substr(certain);
  return result;
}

std::string StopTexts::finish() { return std::exchange(held_, {}); }

struct CompletionEngine::Parts {
  // A text that is not done.
  struct Running {
    text::UnitDecoder decoder;
    StopTexts stops;
  };

  Parts(LoadedModel from, const Options& options)
      : loaded(std::move(from)),
        model(loaded.model, options.layers),
        engine(model, options.limits,
               {unit_rules(loaded, true).ends, stream_cut(loaded.config), cache_type(loaded, options.cache_precision),
                options.prefix_bytes}) {}

  CompletionPart& part_of(Ticket ticket) {
    const auto place = std::ranges::find(parts, ticket, &CompletionPart::ticket);
    if (place != parts.end()) return *place;
    parts.push_back({.ticket = ticket});
    return parts.back();
  }

  void take_chosen() {
    for (const models::SampleEngine::Chosen& chosen : engine.take()) {
      const auto found = running.find(chosen.ticket);
      if (found == running.end()) continue;
      add(chosen, found->second, part_of(chosen.ticket));
      if (part_of(chosen.ticket).end) running.erase(found);
    }
  }

  void add(const models::SampleEngine::Chosen& chosen, Running& text, CompletionPart& part) {
    using End = models::SampleEngine::End;
    part.kept += chosen.kept;
    if (chosen.end != End::kLast) {
      CompletionUnit unit{{chosen.unit, chosen.log_prob}};
      for (const kernels::Candidate& one : chosen.top) unit.top.push_back({one.token, one.log_prob});
      (chosen.is_given ? part.prompt : part.units).push_back(std::move(unit));
      if (!chosen.is_given) part.text += text.stops.push(text.decoder.push(chosen.unit));
    }
    if (chosen.end != End::kNone) part.text += text.stops.push(text.decoder.finish());
    if (text.stops.has_stopped()) {
      engine.cancel(part.ticket);
    } else if (chosen.end != End::kNone) {
      part.text += text.stops.finish();
    }
    if (text.stops.has_stopped() || chosen.end == End::kLast) {
      part.end = CompletionEnd::kStop;
    } else if (chosen.end == End::kLength) {
      part.end = CompletionEnd::kLength;
    }
  }

  LoadedModel loaded;
  models::SearchModel model;
  models::SampleEngine engine;
  Ticket next_ticket = 0;
  std::map<Ticket, Running> running;
  std::vector<CompletionPart> parts;
};

CompletionEngine::CompletionEngine(LoadedModel loaded, const Options& options)
    : parts_(std::make_unique<Parts>(std::move(loaded), options)) {}
CompletionEngine::~CompletionEngine() = default;

std::optional<int64_t> CompletionEngine::longest(int64_t prompt_units) const {
  const LanguageConfig& config = parts_->loaded.config;
  if (!has_learned_positions(config) || config.memory_length > 0) return std::nullopt;
  return config.max_positions - prompt_units;
}

Ticket CompletionEngine::add(CompletionRequest request) {
  Parts& parts = *parts_;
  search::validate(request.choice);
  const text::Units& units = parts.loaded.units;
  for (const int64_t unit : request.prompt) {
    if (unit < 0 || unit >= units.size())
      throw Error(cat("prompt: got unit ", unit, "; expected 0 to ", units.size() - 1));
  }
  if (request.has_begin && request.prompt.empty())
    throw Error("prompt: got no units; expected at least the one that begins a text");
  const auto most = longest(std::ssize(request.prompt) - (request.has_begin ? 1 : 0));
  const int64_t least = request.scores_prompt ? 0 : 1;
  if (request.max_units < least || (most && request.max_units > *most)) {
    throw Error(cat("max_tokens: got ", request.max_units, " behind a prompt of ", request.prompt.size(),
                    " units; expected at least ", least,
                    most ? cat(" and at most ", std::max<int64_t>(*most, 0)) : ""));
  }
  if (request.num_top && *request.num_top < 0)
    throw Error(cat("logprobs: got ", *request.num_top, "; expected at least 0"));
  const Ticket ticket = parts.next_ticket++;
  if (request.max_units == 0 && request.prompt.empty()) {
    parts.parts.push_back({.ticket = ticket, .end = CompletionEnd::kLength});
    return ticket;
  }
  // The decoder stands behind the prompt, so that a first piece with a blank before it shows the blank.
  Parts::Running running{text::UnitDecoder(units), StopTexts(std::move(request.stop))};
  for (const int64_t unit : request.prompt) running.decoder.push(unit);
  std::vector<int64_t> prompt = request.has_begin ? std::vector<int64_t>() : std::vector{units.begin()};
  prompt.insert(prompt.end(), request.prompt.begin(), request.prompt.end());
  parts.engine.add({.ticket = ticket,
                    .prompt = std::move(prompt),
                    .choice = request.choice,
                    .max_length = request.max_units,
                    .never = unit_rules(parts.loaded, request.allow_unk).never,
                    .seed = request.seed,
                    .num_top = request.num_top,
                    .scores_prompt = request.scores_prompt});
  parts.running.emplace(ticket, std::move(running));
  return ticket;
}

bool CompletionEngine::step() {
  const c10::InferenceMode guard;
  try {
    if (!parts_->engine.step()) return false;
    parts_->take_chosen();
  } catch (...) {
    parts_->running.clear();
    parts_->parts.clear();
    throw;
  }
  return true;
}

std::vector<CompletionPart> CompletionEngine::take() { return std::exchange(parts_->parts, {}); }

void CompletionEngine::cancel(Ticket ticket) {
  parts_->engine.cancel(ticket);
  parts_->running.erase(ticket);
  std::erase_if(parts_->parts, [&](const CompletionPart& part) { return part.ticket == ticket; });
}

EngineCounts CompletionEngine::counts() const { return parts_->engine.counts(); }
const LoadedModel& CompletionEngine::model() const { return parts_->loaded; }

}  // namespace fovea::language
