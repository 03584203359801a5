#include "fovea/tasks/translation/filter.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <limits>
#include <numeric>
#include <utility>

#include "fovea/analysis/distribution.h"
#include "fovea/base/choices.h"
#include "fovea/base/collective.h"
#include "fovea/base/empty_line.h"
#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/file_set.h"
#include "fovea/base/log.h"
#include "fovea/base/output_target.h"
#include "fovea/base/rng.h"
#include "fovea/base/strings.h"
#include "fovea/base/team_threads.h"
#include "fovea/spec/config_problems.h"
#include "fovea/tasks/translation/corrupt_pairs.h"
#include "fovea/tasks/translation/filter_report.h"
#include "fovea/tasks/translation/pair_scorer.h"

namespace fovea::translation {
namespace {

size_t window_of(const FilterOptions& options) { return static_cast<size_t>(options.maxi_batch * options.mini_batch); }

// The scores of all pairs, and which pairs have an empty side.
struct ScoredText {
  std::vector<double> scores;
  std::vector<bool> has_empty_side;
};

// Each score is written when it is known, unless `output` is null.
ScoredText score_text(const FilterOptions& options, PairScorer& scorer, LineWriter* output) {
  PairReader reader(options.train_sets);
  const bool shows = output == nullptr || isatty(STDOUT_FILENO) == 0;
  log::Progress progress("scoring, pairs", 0);
  ScoredText text;
  for (;;) {
    const std::vector<TextPair> window = reader.next(window_of(options));
    if (window.empty()) break;
    for (const TextPair& pair : window)
      text.has_empty_side.push_back(is_empty_line(pair.source) || is_empty_line(pair.target));
    for (const double score : scorer.score(window)) {
      text.scores.push_back(score);
      if (output != nullptr) output->line(fixed(score, kScoreDigits));
    }
    if (output != nullptr) output->flush();
    if (shows) progress.at(static_cast<double>(text.scores.size()));
  }
  progress.finish();
  return text;
}

[[noreturn]] void refuse_changed(const std::string& path) {
  throw Error(cat("--train-sets: '", path, "' changed while it was read; run the command again"));
}

void write_kept(const FilterOptions& options, const std::vector<bool>& kept) {
  FileSet files({options.outputs.begin(), options.outputs.end()});
  for (size_t side = 0; side < 2; ++side) {
    files.begin(options.outputs[side]);
    LineReader lines(options.train_sets[side]);
    std::string line;
    for (const bool keep : kept) {
      if (!lines.next(line)) refuse_changed(lines.path());
      if (keep) files.append(line + "\n");
    }
  }
  files.commit();
}

// A pair with an empty side is never kept: no translation is worse than any.
std::vector<bool> kept_of(const FilterOptions& options, const ScoredText& text) {
  std::vector<double> scores = text.scores;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (text.has_empty_side[i]) scores[i] = -std::numeric_limits<double>::infinity();
  }
  std::vector<bool> kept;
  if (options.threshold.empty()) {
    kept = analysis::best_of(scores, std::llround(options.keep * static_cast<double>(scores.size())));
  } else {
    for (const double score : scores) kept.push_back(score >= options.threshold.front());
  }
  for (size_t i = 0; i < kept.size(); ++i) kept[i] = kept[i] && !text.has_empty_side[i];
  return kept;
}

// Indices of --show random pairs of the best tenth and as many of the worst, each by falling score. If a tenth has
// fewer pairs, they are the best and the worst pairs of all; a text of two pairs or more shows none as both.
std::vector<std::pair<std::string_view, size_t>> drawn_pairs(const FilterOptions& options,
                                                             const std::vector<double>& scores) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  const size_t half = std::max(order.size() / 2, std::min<size_t>(1, order.size()));
  const size_t count = std::min(half, static_cast<size_t>(options.show));
  const size_t tenth = std::max({count, std::min<size_t>(1, order.size()), order.size() / 10});
  Rng rng(static_cast<uint64_t>(options.seed));
  std::vector<std::pair<std::string_view, size_t>> drawn;
  for (const auto& [name, first] : {std::pair("best", size_t{0}), std::pair("worst", order.size() - tenth)}) {
    std::vector<size_t> places(tenth);
    std::iota(places.begin(), places.end(), first);
    for (size_t i = 0; i < count; ++i) std::swap(places[i], places[i + rng.below(tenth - i)]);
    std::sort(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(count));
    for (size_t i = 0; i < count; ++i) drawn.emplace_back(name, order[places[i]]);
  }
  return drawn;
}

std::vector<ShownPair> shown_pairs(const FilterOptions& options, const std::vector<double>& scores) {
  std::vector<ShownPair> shown;
  if (options.show == 0) return shown;
  const auto drawn = drawn_pairs(options, scores);
  for (const auto& [tenth, index] : drawn) shown.push_back({tenth, scores[index], {}});
  PairReader reader(options.train_sets);
  for (size_t first = 0;;) {
    std::vector<TextPair> window = reader.next(window_of(options));
    if (window.empty()) break;
    for (size_t i = 0; i < drawn.size(); ++i) {
      const size_t index = drawn[i].second;
      if (index >= first && index < first + window.size()) shown[i].text = window[index - first];
    }
    first += window.size();
  }
  if (std::ranges::any_of(shown, [](const ShownPair& pair) { return pair.text.line == 0; }))
    refuse_changed(options.train_sets.front());
  return shown;
}

// The processes of a team score together, and the first one writes.
enum class TeamPart : uint8_t { kWriter, kHelper };

int64_t score_and_keep(const FilterOptions& options, PairScorer& scorer, const std::string& name, TeamPart part) {
  if (part == TeamPart::kHelper) return std::ssize(score_text(options, scorer, nullptr).scores);
  LineWriter output("-");
  const ScoredText text = score_text(options, scorer, options.json ? nullptr : &output);
  const std::vector<double>& scores = text.scores;
  FilterSummary summary{.score = name, .scores = scores, .keeps = options.keeps()};
  if (summary.keeps) {
    const std::vector<bool> kept = kept_of(options, text);
    summary.kept = std::ranges::count(kept, true);
    write_kept(options, kept);
  }
  summary.shown = shown_pairs(options, scores);
  if (options.json) {
    output.line(filter_json(summary));
  } else {
    for (const ShownPair& pair : summary.shown) output.line(shown_line(pair));
  }
  output.close();
  log::info(cat(name, " of ", thousands(std::ssize(scores)), " pairs"));
  for (const std::string& line : histogram_lines(scores)) log::info(line);
  const int64_t empty = std::ranges::count(text.has_empty_side, true);
  if (summary.keeps)
    log::info(cat("kept ", thousands(summary.kept), " of ", thousands(std::ssize(scores)), " pairs",
                  empty > 0 ? cat("; left out ", thousands(empty), " with an empty side") : ""));
  return std::ssize(scores);
}

// A uniform sample of the text's pairs in their order, and how many pairs the text has.
struct PairSample {
  std::vector<TextPair> pairs;
  int64_t seen = 0;
};
PairSample sample_pairs(const FilterOptions& options) {
  PairSample sample;
  PairReader reader(options.train_sets);
  Rng rng(static_cast<uint64_t>(options.seed));
  for (;;) {
    std::vector<TextPair> window = reader.next(window_of(options));
    if (window.empty()) break;
    for (TextPair& pair : window) {
      ++sample.seen;
      if (std::ssize(sample.pairs) < options.test_pairs) {
        sample.pairs.push_back(std::move(pair));
      } else if (const uint64_t place = rng.below(static_cast<uint64_t>(sample.seen)); place < sample.pairs.size()) {
        sample.pairs[place] = std::move(pair);
      }
    }
  }
  std::ranges::sort(sample.pairs, {}, &TextPair::line);
  return sample;
}

int64_t test_score(const FilterOptions& options, PairScorer& scorer, const std::string& name, TeamPart part) {
  const PairSample sample = sample_pairs(options);
  const auto how = parse_choice<Corruption>(kCorruptions, options.test, "--test");
  const CorruptedPairs pairs = corrupt(sample.pairs, how, static_cast<uint64_t>(options.seed));
  if (pairs.good.empty()) {
    throw Error(cat("--test ", options.test, ": none of the ", thousands(sample.seen),
                    " pairs of --train-sets can be made wrong this way; expected more text"));
  }
  const std::vector<double> good = scorer.score(pairs.good);
  const std::vector<std::vector<double>> good_by_layer = scorer.by_layer();
  const std::vector<double> bad = scorer.score(pairs.bad);
  const Separation separation{name, options.test, good, bad, sample.seen, good_by_layer, scorer.by_layer()};
  if (part == TeamPart::kWriter)
    std::cout << (options.json ? separation_json(separation) + "\n" : separation_text(separation));
  return sample.seen;
}

bool is_compressed_name(const std::string& path) {
  return std::ranges::any_of(std::initializer_list<std::string_view>{".gz", ".bz2", ".xz", ".zst"},
                             [&](std::string_view ending) { return path.ends_with(ending); });
}

void add_output_problems(const FilterOptions& options, Problems& problems) {
  const bool writes = options.keeps();
  problems.add_if(options.keep > 0 && !options.threshold.empty(), "--keep and --threshold: got both; expected one");
  if (writes || !options.outputs.empty()) problems.add_unless_two_sides("output", options.outputs);
  problems.add_if(!writes && !options.outputs.empty(),
                  "--output needs --keep or --threshold; scores go to standard output");
  for (const std::string& path : options.outputs) {
    problems.add_if(is_compressed_name(path),
                    cat("--output: '", path, "' would not be compressed; expected a name without that ending"));
  }
}

}  // namespace

int64_t run_filter(const FilterOptions& given) {
  validate(given);
  require_parallel_text(given.train_sets);
  check_outputs(given);
  Collective& team = launched();
  FilterOptions options = given;
  options.cpu_threads = threads_in_team(team, given.cpu_threads);
  LoadedModel loaded = load_model(options);
  const PairScore score = pair_score_of(options.score, loaded.model->config());
  const std::string name(choice_at(kPairScores, static_cast<size_t>(score)));
  PairScorer scorer(loaded, {score, {options.mini_batch_words, options.mini_batch}, options.max_length}, team);
  const TeamPart part = team.rank() == 0 ? TeamPart::kWriter : TeamPart::kHelper;
  const int64_t pairs =
      options.test == "none" ? score_and_keep(options, scorer, name, part) : test_score(options, scorer, name, part);
  scorer.report();
  team.finish();
  return pairs;
}

void validate(const FilterOptions& options) {
  Problems problems;
  problems.add_ranges(options);
  add_model_problems(options, problems);
  add_parallel_text_problems(options.train_sets, problems);
  add_output_problems(options, problems);
  const bool reads_again = options.keeps() || options.show > 0;
  problems.add_if(options.test != "none" && reads_again,
                  "--test measures the score; leave out --keep, --threshold and --show");
  problems.add_if(options.test == "none" && options.test_pairs != FilterOptions().test_pairs,
                  "--test-pairs needs --test");
  problems.add_if(options.test == "none" && options.show == 0 && options.seed != FilterOptions().seed,
                  "--seed needs --show or --test: without them, nothing is drawn");
  for (const std::string& path : options.train_sets) {
    std::error_code ignored;
    const bool is_stream =
        path == "-" || (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored) &&
                        !std::filesystem::is_directory(path, ignored));
    problems.add_if(reads_again && is_stream,
                    cat("--train-sets: got '", path,
                        "', which can be read only once; expected a file with --keep, --threshold and --show"));
  }
  problems.throw_if_any();
}

void check_outputs(const FilterOptions& options) {
  for (const std::string& path : options.outputs) {
    for (const std::vector<std::string>& files : options.inputs()) require_other_file("--output", path, files);
    if (!options.log.empty() && is_same_file_to_write(options.log, path))
      throw Error(cat("--log: '", options.log, "' is --output too; name another file"));
    require_writable("--output", path);
  }
  if (options.outputs.size() == 2 && is_same_file_to_write(options.outputs[0], options.outputs[1]))
    throw Error(cat("--output: got '", options.outputs[1], "' for both sides; expected two files"));
  finish_killed_commits({options.outputs.begin(), options.outputs.end()});
}

}  // namespace fovea::translation
