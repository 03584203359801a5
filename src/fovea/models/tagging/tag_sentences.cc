#include "fovea/models/tagging/tag_sentences.h"

#include <ATen/ops/log_softmax.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>

#include "fovea/base/shared_work.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/metrics/find_notation.h"
#include "fovea/models/batches.h"
#include "fovea/models/diverged.h"
#include "fovea/nn/index_tensor.h"
#include "fovea/ops/step.h"

namespace fovea::tagging {
namespace {

// log p of each label for each word of a batch, [words x labels] row by row.
std::vector<double> word_scores(Tagger model, TagBatch batch) {
  const c10::InferenceMode guard;
  const at::Device device = model->output_bias.device();
  const nn::ForwardContext context = {.clauses = batch.clauses()};
  const nn::EncoderInput input = {nn::index_tensor(std::move(batch.tokens)).to(device),
                                  nn::index_tensor(std::move(batch.offsets))};
  const at::Tensor words = model->words(input, nn::index_tensor(std::move(batch.firsts)).to(device), context);
  const at::Tensor logits = ops::linear(words, model->output_weight, model->output_bias);
  const at::Tensor scores = at::log_softmax(logits.to(at::kDouble), 1).cpu().contiguous();
  const auto* data = scores.const_data_ptr<double>();
  return {data, data + scores.numel()};
}

// A part of a sentence, and where its words lie in it.
struct PlacedPart {
  Part part;
  size_t sentence, first_word;
};

}  // namespace

std::vector<Labels> tag_sentences(const TaggingParts& parts, std::span<const std::vector<std::string>> sentences,
                                  std::span<const std::vector<std::string>> tags) {
  const auto count = static_cast<size_t>(parts.labels.size());
  SentenceEncoder encoder(parts.vocab, parts.longest);
  std::vector<PlacedPart> placed;
  std::vector<models::Sentence> tokens;
  std::vector<std::vector<double>> scores(sentences.size());
  for (size_t s = 0; s < sentences.size(); ++s) {
    size_t word = 0;
    for (Part& part : encoder.encode(sentences[s], parts.clauses.levels(sentences[s], tags_of(tags, s)))) {
      tokens.push_back(part.tokens);
      const size_t words = part.firsts.size();
      placed.push_back({std::move(part), s, word});
      word += words;
    }
    scores[s].resize(word * count);
  }
  const models::BatchLimits limits = {.max_words = parts.batch_tokens, .max_sentences = 1 << 20};
  for (const std::vector<int64_t>& batch : models::length_batches(tokens, limits)) {
    if (parts.on_signal == OnSignal::kThrow) throw_if_interrupted("tagging");
    TagBatch together;
    for (const int64_t i : batch) {
      const Part& part = placed[static_cast<size_t>(i)].part;
      together.add(part.tokens, part.firsts, part.levels);
    }
    const std::vector<double> all = word_scores(parts.model, std::move(together));
    if (!std::ranges::all_of(all, [](double x) { return std::isfinite(x); })) models::refuse_diverged();
    auto next = all.begin();
    for (const int64_t i : batch) {
      const PlacedPart& part = placed[static_cast<size_t>(i)];
      const auto size = static_cast<std::ptrdiff_t>(part.part.firsts.size() * count);
      std::copy(next, next + size,
                scores[part.sentence].begin() + static_cast<std::ptrdiff_t>(part.first_word * count));
      next += size;
    }
  }
  std::vector<Labels> result;
  for (const std::vector<double>& sentence : scores)
    result.push_back(parts.labels.decode(best_labels(sentence, parts.labels), parts.dialect));
  return result;
}

namespace {

std::vector<Labels> tag_together(const TaggingParts& parts, const data::LabelledText& text, Collective& team) {
  if (team.size() == 1) return tag_sentences(parts, text.words, text.tags);
  constexpr int64_t kSentences = 256;  // fill several batches
  const auto of_share = [&](int64_t share) {
    const auto first = static_cast<size_t>(share * kSentences),
               count = std::min(static_cast<size_t>(kSentences), text.words.size() - first);
    const auto part = [&](const auto& all) {
      return all.empty() ? std::span(all) : std::span(all).subspan(first, count);
    };
    std::string lines;  // labels have no blanks
    for (const Labels& labels : tag_sentences(parts, part(text.words), part(text.tags)))
      lines += join(labels, " ") + '\n';
    return lines;
  };
  std::vector<Labels> found;
  for (const std::string& lines : shared_work(team, (text.size() + kSentences - 1) / kSentences, of_share))
    for (std::string_view rest = lines; !rest.empty(); rest.remove_prefix(rest.find('\n') + 1))
      found.push_back(split(std::string(rest.substr(0, rest.find('\n'))), ' '));
  return found;
}

}  // namespace

metrics::ConllScore score_text(const TaggingParts& parts, const data::LabelledText& text, Collective& team) {
  const std::vector<Labels> found = tag_together(parts, text, team);
  const metrics::LabelForm& form = parts.labels.form();
  const metrics::LabelForm gold_form = metrics::form_to_read(text.labels, form);
  metrics::ConllScore score;
  for (size_t s = 0; s < found.size(); ++s) {
    const std::vector<metrics::Chunk> gold = metrics::chunks_of(text.labels[s], gold_form),
                                      got = metrics::chunks_of(found[s], form);
    const Labels gold_labels = metrics::labels_of(gold, std::ssize(text.labels[s]), {parts.dialect, form});
    score.add({gold_labels, gold}, {found[s], got});
  }
  return score;
}

}  // namespace fovea::tagging
