#include "fovea/tasks/translation/engine.h"

#include <c10/core/InferenceMode.h>

#include <cmath>
#include <map>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/models/beam_engine.h"
#include "fovea/tasks/translation/hypothesis_links.h"
#include "fovea/tasks/translation/term_demands.h"

namespace fovea::translation {
namespace {

void require_range(const char* what, double got, double least, double most) {
  if (got >= least && got <= most) return;
  throw Error(cat(what, ": got ", got, "; expected ", shortest(least), " to ", shortest(most)));
}

void check(const EngineRequest& request) {
  const search::BeamOptions& beam = request.beam;
  require_range("beam size", static_cast<double>(beam.beam_size), 1, 1000);
  require_range("n-best", static_cast<double>(beam.num_best), 1, static_cast<double>(beam.beam_size));
  require_range("normalize", beam.normalize, 0, 100);
  require_range("max length factor", request.max_length_factor, 0.1, 1000);
  if (beam.ends_twice) throw Error("translation: got a search for documents; expected one for sentences");
}

}  // namespace

struct TranslationEngine::Parts {
  // A request that is not done.
  struct Pending {
    EngineRequest request;
    EngineResult result;  // as far as it is known before the search
    TermDemands::Found terms;
  };

  Parts(LoadedModel from, const Options& options)
      : loaded(std::move(from)),
        limit(line_limit(loaded.model->config(), options.max_length)),
        model(loaded.model, options.layers),
        engine(model, options.limits, loaded.target.eos()),
        term_demands(loaded.target) {
    this->model.model->freeze_encoder();
  }

  void take_done() {
    for (models::BeamEngine::Done& done : engine.take()) {
      const auto found = pending.find(done.ticket);
      Pending of = std::move(found->second);
      pending.erase(found);
      finish(of, done.best);
      ready.emplace_back(done.ticket, std::move(of.result));
    }
  }

  void finish(Pending& of, const std::vector<search::Hypothesis>& best) {
    for (const search::Hypothesis& hypothesis : best) {
      EngineTranslation translation{models::written_text(loaded.target, hypothesis)};
      for (const int64_t token : hypothesis.tokens) translation.pieces.push_back(loaded.target.piece(token));
      translation.log_probs = hypothesis.log_probs;
      translation.is_cut = hypothesis.is_cut;
      of.result.best.push_back(std::move(translation));
    }
    of.result.target_tokens = std::ssize(best.front().tokens) + 1;
    for (const size_t demand : of.terms.demands.unsaid(best.front().tokens))
      of.result.missing.push_back(of.terms.terms[demand]);
    if (of.request.alignment) add_links(of, best);
  }

  void add_links(Pending& of, const std::vector<search::Hypothesis>& best) {
    std::vector<std::vector<Sentence>> hypotheses(1);
    for (const search::Hypothesis& hypothesis : best) hypotheses[0].push_back(hypothesis.tokens);
    const LinkPass pass{*of.request.alignment, limit.tokens, {}, nullptr};
    std::vector<std::vector<analysis::Links>> links = links_of(loaded, {&of.request.text, 1}, hypotheses, pass);
    for (size_t i = 0; i < best.size(); ++i) of.result.best[i].links = std::move(links[0][i]);
  }

  LoadedModel loaded;
  LineLimit limit;
  SearchModel model;
  models::BeamEngine engine;
  TermDemands term_demands;
  Ticket next_ticket = 0;
  std::map<Ticket, Pending> pending;
  std::vector<std::pair<Ticket, EngineResult>> ready;
};

TranslationEngine::TranslationEngine(LoadedModel loaded, const Options& options)
    : parts_(std::make_unique<Parts>(std::move(loaded), options)) {}
TranslationEngine::~TranslationEngine() = default;

Ticket TranslationEngine::add(EngineRequest request) {
  check(request);
  Parts& parts = *parts_;
  const ModelConfig& config = parts.loaded.model->config();
  if (request.alignment) require_layer_and_head(config, *request.alignment, "alignment-");
  const text::Vocab& vocab = parts.loaded.source;
  Encoded source = request.tokens ? with_limit(std::move(*request.tokens), vocab.eos(), parts.limit.tokens)
                                  : encode_line(vocab, request.text, parts.limit.tokens);
  Parts::Pending pending;
  pending.result.source_tokens = std::ssize(source.tokens);
  pending.result.cut_from = source.cut_from;
  const Ticket ticket = parts.next_ticket;
  if (source.tokens.size() == 1) {
    pending.result.best.emplace_back();
    parts.ready.emplace_back(ticket, std::move(pending.result));
    ++parts.next_ticket;
    return ticket;
  }
  const int64_t longest = longest_translation(config, request.max_length_factor, pending.result.source_tokens);
  if (request.terms) {
    pending.terms = parts.term_demands.find(*request.terms, request.text, longest);
    pending.result.missing = pending.terms.missing;
  }
  search::BeamOptions beam = request.beam;
  beam.start = beam.eos = parts.loaded.target.eos();
  beam.never = never_written(parts.loaded.target, request.allow_unk);
  parts.engine.add({ticket, std::move(source.tokens), {beam, longest, pending.terms.demands}});
  pending.request = std::move(request);
  parts.pending.emplace(ticket, std::move(pending));
  ++parts.next_ticket;
  return ticket;
}

bool TranslationEngine::step() {
  const c10::InferenceMode guard;
  try {
    if (!parts_->engine.step()) return false;
    parts_->take_done();
  } catch (...) {
    parts_->pending.clear();
    parts_->ready.clear();
    throw;
  }
  return true;
}

std::vector<std::pair<Ticket, EngineResult>> TranslationEngine::take() { return std::exchange(parts_->ready, {}); }

void TranslationEngine::cancel(Ticket ticket) {
  parts_->engine.cancel(ticket);
  parts_->pending.erase(ticket);
  std::erase_if(parts_->ready, [&](const auto& ready) { return ready.first == ticket; });
}

EngineCounts TranslationEngine::counts() const { return parts_->engine.counts(); }
const LineLimit& TranslationEngine::limit() const { return parts_->limit; }
const LoadedModel& TranslationEngine::model() const { return parts_->loaded; }

}  // namespace fovea::translation
