#include "fovea/tasks/translation/engine.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/models/beam_engine.h"
#include "fovea/models/translation/languages.h"
#include "fovea/nn/index_tensor.h"
#include "fovea/tasks/translation/cross_attention.h"
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
}

}  // namespace

int64_t longest_translation(const ModelConfig& model, double max_length_factor, int64_t source_tokens) {
  const double limit = std::ceil(max_length_factor * static_cast<double>(source_tokens));
  return longest_text(model, static_cast<int64_t>(std::min(limit, 1e9)));
}

struct TranslationEngine::Parts {
  // A request that is not done.
  struct Pending {
    EngineRequest request;
    EngineResult result;  // as far as it is known before the search
    TermDemands::Found terms;
  };

  // A sentence whose translations have no links yet.
  struct Unlinked {
    Ticket ticket;
    std::string text;
    LinkChoice choice;
    EngineResult result;
  };

  Parts(LoadedModel from, const Options& given)
      : options(given),
        loaded(std::move(from)),
        limit(line_limit(loaded.model->config(), options.max_length)),
        model(loaded.model, options.layers),
        engine(model, options.limits, loaded.target.eos()),
        term_demands(loaded.target) {
    if (options.owns_model) this->model.model->freeze_encoder();
  }

  void take_done() {
    for (models::BeamEngine::Done& done : engine.take()) {
      const auto found = pending.find(done.ticket);
      Pending of = std::move(found->second);
      pending.erase(found);
      finish(done.ticket, of, std::move(done.best));
    }
    const int64_t together = options.link_batch ? options.link_batch->max_sentences : 1;
    if (std::ssize(unlinked) >= together || engine.is_idle()) link();
  }

  void finish(Ticket ticket, Pending& of, std::vector<search::Hypothesis> best) {
    EngineResult& result = of.result;
    result.target_tokens = std::ssize(best.front().tokens) + 1;
    for (const size_t demand : of.terms.demands.unsaid(best.front().tokens))
      result.missing.push_back(of.terms.terms[demand]);
    for (search::Hypothesis& hypothesis : best) {
      Translation& translation = result.best.emplace_back(models::written_text(loaded.target, hypothesis));
      translation.tokens = std::move(hypothesis.tokens);
      translation.is_cut = hypothesis.is_cut;
    }
    if (of.request.alignment) {
      unlinked.push_back({ticket, std::move(of.request.text), *of.request.alignment, std::move(result)});
    } else {
      ready.emplace_back(ticket, std::move(result));
    }
  }

  // A full pass over a translation sees the same as the search did step by step, and the search keeps no weights of
  // hypotheses that it drops.
  void link() {
    if (unlinked.empty()) return;
    std::vector<WordPair> words;
    std::vector<SentencePair> tokens;
    std::vector<std::pair<Translation*, const LinkChoice*>> places;
    for (Unlinked& of : unlinked) {
      text::WordPieces source = text::encode_words(loaded.source, of.text);
      text::cut(source, limit.tokens);
      for (Translation& translation : of.result.best) {
        WordPair pair{source, text::words_of_pieces(loaded.target, translation.tokens)};
        if (pair.is_empty()) continue;
        tokens.push_back(with_eos(pair, loaded.source.eos(), loaded.target.eos()));
        words.push_back(std::move(pair));
        places.emplace_back(&translation, &of.choice);
      }
    }
    see_cross_attention(loaded.model, tokens, options.link_batch.value_or(BatchLimits{}), options.work,
                        [&](size_t i, const at::Tensor& weights) {
                          places[i].first->links = word_links(weights, words[i], *places[i].second);
                        });
    for (Unlinked& of : unlinked) ready.emplace_back(of.ticket, std::move(of.result));
    unlinked.clear();
  }

  Options options;
  LoadedModel loaded;
  LineLimit limit;
  models::SearchModel model;
  models::BeamEngine engine;
  TermDemands term_demands;
  Ticket next_ticket = 0;
  std::map<Ticket, Pending> pending;
  std::vector<Unlinked> unlinked;
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
  const LanguageMarks marks = language_marks(parts.loaded, {request.source_lang, request.target_lang});
  const std::string marked = marked_line(parts.loaded, Side::kSource, marks, request.text);
  Encoded source = request.tokens ? with_limit(std::move(*request.tokens), vocab.eos(), parts.limit.tokens)
                                  : encode_line(vocab, marked, parts.limit.tokens);
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
  // The mark of the target's language is a token of its own.
  const int64_t longest = longest_translation(config, request.max_length_factor, pending.result.source_tokens) +
                          (marks.first_token ? 1 : 0);
  if (request.terms) {
    pending.terms = parts.term_demands.find(*request.terms, request.text, longest);
    pending.result.missing = pending.terms.missing;
    pending.result.has_terms = !pending.terms.demands.empty();
  }
  search::BeamOptions beam = request.beam;
  beam.start = beam.eos = parts.loaded.target.eos();
  beam.never = never_written(parts.loaded.target, request.allow_unk);
  beam.first = marks.first_token;
  parts.engine.add({ticket, nn::index_tensor(std::move(source.tokens)), {beam, longest, pending.terms.demands}});
  request.tokens.reset();
  request.text = marked;
  pending.request = std::move(request);
  parts.pending.emplace(ticket, std::move(pending));
  ++parts.next_ticket;
  return ticket;
}

bool TranslationEngine::step() {
  const c10::InferenceMode guard;
  try {
    if (parts_->options.work != nullptr) throw_if_interrupted(parts_->options.work);
    const bool works = parts_->engine.step();
    parts_->take_done();
    return works;
  } catch (...) {
    clear();
    throw;
  }
}

std::vector<std::pair<Ticket, EngineResult>> TranslationEngine::take() { return std::exchange(parts_->ready, {}); }

void TranslationEngine::cancel(Ticket ticket) {
  parts_->engine.cancel(ticket);
  parts_->pending.erase(ticket);
  std::erase_if(parts_->unlinked, [&](const Parts::Unlinked& of) { return of.ticket == ticket; });
  std::erase_if(parts_->ready, [&](const auto& ready) { return ready.first == ticket; });
}

void TranslationEngine::clear() {
  parts_->engine.clear();
  parts_->pending.clear(), parts_->unlinked.clear(), parts_->ready.clear();
}

void TranslationEngine::require_writable(const text::TermList& terms) const {
  parts_->term_demands.require_writable(terms);
}

EngineCounts TranslationEngine::counts() const { return parts_->engine.counts(); }
const LineLimit& TranslationEngine::limit() const { return parts_->limit; }
const LoadedModel& TranslationEngine::model() const { return parts_->loaded; }

}  // namespace fovea::translation
