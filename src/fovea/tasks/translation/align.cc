#include "fovea/tasks/translation/align.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "fovea/analysis/alignment.h"
#include "fovea/base/choices.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/models/translation/loaded_model.h"
#include "fovea/models/written_text.h"
#include "fovea/spec/config_problems.h"
#include "fovea/tasks/translation/alignment_report.h"
#include "fovea/tasks/translation/cross_attention.h"
#include "fovea/tasks/translation/gold_reader.h"
#include "fovea/tasks/translation/head_search.h"
#include "fovea/tasks/translation/pair_reader.h"

namespace fovea::translation {
namespace {

// Aligns the words of parallel text by the cross-attention of one model.
class WordAligner {
 public:
  struct Options {
    LinkChoice choice;
    BatchLimits limits;
    int64_t max_length = 1000;  // longer lines, in tokens, are cut, with a warning
    bool reversed = false;      // the model translates from the text's target side to its source side
  };
  // Throws an Error if the model lacks the layer or the head of `options`.
  WordAligner(LoadedModel loaded, const Options& options);

  // Returns the links of each pair, the text's source first whatever the model's direction. A pair with a side without
  // words has none.
  std::vector<analysis::Links> align(const std::vector<TextPair>& pairs);

  // Shows the weights of each pair whose sides both have words, in the model's direction.
  using See = std::function<void(size_t index, const WordPair& pair, const at::Tensor& weights)>;
  void see(const std::vector<TextPair>& pairs, const See& see);

  const ModelConfig& model() const { return loaded_.model->config(); }
  void report() const { warn_of_cut_lines(cut_.count(), limit_); }  // at the end

 private:
  text::WordPieces encode(const text::Vocab& vocab, const std::string& line, int64_t line_number);

  LoadedModel loaded_;
  Options options_;
  LineLimit limit_;
  LineWarnings cut_;
};

WordAligner::WordAligner(LoadedModel loaded, const Options& options)
    : loaded_(std::move(loaded)), options_(options), limit_(line_limit(loaded_.model->config(), options.max_length)) {
  require_layer_and_head(model(), options.choice, options.reversed ? "--reverse-" : "--");
}

text::WordPieces WordAligner::encode(const text::Vocab& vocab, const std::string& line, int64_t line_number) {
  text::WordPieces encoded = text::encode_words(vocab, line);
  const auto length = static_cast<int64_t>(encoded.pieces.size());
  if (length > limit_.tokens) {
    cut_.warn(line_number, cut_message({{}, length}, limit_));
    text::cut(encoded, limit_.tokens);
  }
  return encoded;
}

void WordAligner::see(const std::vector<TextPair>& pairs, const See& see) {
  std::vector<WordPair> words;
  std::vector<SentencePair> tokens;
  std::vector<size_t> index_of;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const TextPair& text = pairs[i];
    WordPair pair{encode(loaded_.source, options_.reversed ? text.target : text.source, text.line),
                  encode(loaded_.target, options_.reversed ? text.source : text.target, text.line)};
    if (pair.is_empty()) continue;
    tokens.push_back(with_eos(pair, loaded_.source.eos(), loaded_.target.eos()));
    words.push_back(std::move(pair));
    index_of.push_back(i);
  }
  see_cross_attention(loaded_.model, tokens, options_.limits, "aligning",
                      [&](size_t i, const at::Tensor& weights) { see(index_of[i], words[i], weights); });
}

std::vector<analysis::Links> WordAligner::align(const std::vector<TextPair>& pairs) {
  std::vector<analysis::Links> links(pairs.size());
  see(pairs, [&](size_t index, const WordPair& pair, const at::Tensor& weights) {
    analysis::Links& found = links[index];
    found = word_links(weights, pair, options_.choice);
    if (!options_.reversed) return;
    for (analysis::Link& link : found) std::swap(link.source, link.target);
    std::ranges::sort(found);
  });
  return links;
}

using analysis::Links;
using analysis::Symmetrization;

// The pairs of the text in windows, with a progress bar.
template <class Use>
int64_t each_window(const AlignOptions& options, bool shows_progress, const Use& use) {
  PairReader reader(options.train_sets);
  log::Progress progress("aligning, pairs", 0);
  int64_t pairs = 0;
  for (;;) {
    const std::vector<TextPair> window = reader.next(static_cast<size_t>(options.maxi_batch * options.mini_batch));
    if (window.empty()) break;
    use(window);
    pairs += std::ssize(window);
    if (shows_progress) progress.at(static_cast<double>(pairs));
  }
  progress.finish();
  return pairs;
}

WordAligner::Options forward_options(const AlignOptions& options) {
  return {.choice = {options.layer, options.head, options.shifted, options.subword == "soft"},
          .limits = {options.mini_batch_words, options.mini_batch},
          .max_length = options.max_length};
}

// One model, or two whose links are joined.
class BothWays {
 public:
  explicit BothWays(const AlignOptions& options) : forward_(load_model(options), forward_options(options)) {
    if (options.reverse_model.empty()) return;
    const std::string how = options.symmetrize.empty() ? "grow-diag-final-and" : options.symmetrize;
    how_ = parse_choice<Symmetrization>(analysis::kSymmetrizations, how, "--symmetrize");
    ModelOptions reverse = options;
    reverse.model = options.reverse_model;
    if (!reverse.vocabs.empty()) std::swap(reverse.vocabs[0], reverse.vocabs[1]);
    WordAligner::Options aligner = forward_options(options);
    aligner.reversed = true;
    if (options.reverse_layer >= 0) aligner.choice.layer = options.reverse_layer;
    if (options.reverse_head >= 0) aligner.choice.head = options.reverse_head;
    backward_.emplace(load_model(reverse, "--reverse-model"), aligner);
  }

  std::vector<Links> align(const std::vector<TextPair>& pairs) {
    std::vector<Links> links = forward_.align(pairs);
    if (!backward_) return links;
    const std::vector<Links> others = backward_->align(pairs);
    for (size_t i = 0; i < links.size(); ++i) links[i] = analysis::symmetrize(links[i], others[i], how_);
    return links;
  }

  void report() const {
    forward_.report();
    if (backward_) backward_->report();
  }

 private:
  WordAligner forward_;
  std::optional<WordAligner> backward_;
  Symmetrization how_ = Symmetrization::kGrowDiagFinalAnd;
};

analysis::LinkFormat gold_format(const AlignOptions& options) { return {options.gold_base, options.gold_reversed}; }

// Links line by line, or as one JSON object.
class LinkWriter {
 public:
  LinkWriter(const std::string& path, bool json) : output_(path), json_(json) {
    if (json_) output_.write("{\"alignments\":[");
  }
  void write(const Links& links) {
    if (!json_) {
      output_.line(analysis::print(links));
      return;
    }
    nlohmann::ordered_json object = {{"pair", ++pairs_}, {"links", nlohmann::ordered_json::array()}};
    for (const analysis::Link& link : links)
      object["links"].push_back(nlohmann::ordered_json::object({{"source", link.source}, {"target", link.target}}));
    output_.write(cat(pairs_ > 1 ? "," : "", object.dump()));
  }
  void close() {
    if (json_) output_.write(cat("],\"pairs\":", pairs_, "}\n"));
    output_.close();
  }

 private:
  LineWriter output_;
  bool json_;
  int64_t pairs_ = 0;
};

// The table of --search, or its JSON.
int64_t search_heads(const AlignOptions& options) {
  WordAligner aligner(load_model(options), forward_options(options));
  GoldReader gold(options.gold, gold_format(options));
  LineWriter output(options.output);
  HeadSearch search(aligner.model().dec_depth, aligner.model().transformer_heads, options.subword == "soft");
  const int64_t pairs = each_window(options, true, [&](const std::vector<TextPair>& window) {
    std::vector<analysis::GoldLinks> links;
    for (const TextPair& pair : window) links.push_back(gold.next(pair));
    aligner.see(window, [&](size_t index, const WordPair& pair, const at::Tensor& weights) {
      search.add(weights, pair, links[index]);
    });
  });
  gold.finish();
  output.write(options.json ? search.json(pairs) + "\n" : search.table(pairs));
  output.close();
  aligner.report();
  return pairs;
}

// AER of the links on standard output; the links themselves go to --output if it names a file.
int64_t compare_with_gold(const AlignOptions& options) {
  BothWays aligner(options);
  GoldReader gold(options.gold, gold_format(options));
  std::optional<LinkWriter> output;
  if (options.output != "-") output.emplace(options.output, false);
  analysis::AlignmentCounts counts;
  const int64_t pairs = each_window(options, true, [&](const std::vector<TextPair>& window) {
    std::vector<analysis::GoldLinks> expected;
    for (const TextPair& pair : window) expected.push_back(gold.next(pair));
    const std::vector<Links> links = aligner.align(window);
    for (size_t i = 0; i < links.size(); ++i) {
      counts.add(links[i], expected[i]);
      if (output) output->write(links[i]);
    }
  });
  gold.finish();
  if (output) output->close();
  std::cout << (options.json ? summary_json(counts, pairs) : summary_line(counts, pairs)) << "\n";
  warn_of_no_links(counts);
  aligner.report();
  return pairs;
}

int64_t write_links(const AlignOptions& options) {
  BothWays aligner(options);
  LinkWriter output(options.output, options.json);
  // The progress bar would be in the way of links on a terminal.
  const bool shows = models::has_room_for_progress(options.output);
  const int64_t pairs = each_window(options, shows, [&](const std::vector<TextPair>& window) {
    for (const Links& links : aligner.align(window)) output.write(links);
  });
  output.close();
  aligner.report();
  return pairs;
}

}  // namespace

void validate(const AlignOptions& options) {
  Problems problems;
  problems.add_ranges(options);
  add_model_problems(options, problems);
  add_parallel_text_problems(options.train_sets, problems);
  const bool known = options.symmetrize.empty() || place_of_choice(analysis::kSymmetrizations, options.symmetrize);
  problems.add_if(!known, cat("--symmetrize: got '", options.symmetrize, "'; expected one of ",
                              join(split(analysis::kSymmetrizations, '|'), ", ")));
  const bool two = !options.reverse_model.empty();
  problems.add_if(!options.symmetrize.empty() && !two,
                  "--symmetrize needs a second model; name it with --reverse-model");
  problems.add_if(!two && (options.reverse_layer >= 0 || options.reverse_head >= 0),
                  "--reverse-layer and --reverse-head need --reverse-model");
  problems.add_if(options.search && two, "--search compares the heads of one model; leave out --reverse-model");
  problems.add_if(options.search && options.layer + options.head > 0,
                  "--search compares all layers and heads; leave out --layer and --head");
  problems.add_if(options.search && options.shifted, "--search compares both, normal and shifted; leave out --shifted");
  const bool has_gold = !options.gold.empty();
  problems.add_if(options.search && !has_gold, "--search needs --gold, an alignment to compare with");
  problems.add_if(!has_gold && (options.gold_reversed || options.gold_base > 0),
                  "--gold-base and --gold-reversed need --gold");
  const auto is_input = [](const std::string& path) { return path == "-"; };
  problems.add_if(options.gold == "-" && std::ranges::any_of(options.train_sets, is_input),
                  "--gold: '-', standard input, is one of --train-sets already");
  problems.throw_if_any();
}

int64_t run_align(const AlignOptions& options) {
  validate(options);
  require_parallel_text(options.train_sets);
  if (options.output != "-") require_writable("--output", options.output);
  if (options.search) return search_heads(options);
  return options.gold.empty() ? write_links(options) : compare_with_gold(options);
}

}  // namespace fovea::translation
