#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fovea/base/collective.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/shared_work.h"
#include "fovea/base/stopwatch.h"
#include "fovea/base/strings.h"
#include "fovea/base/team_threads.h"
#include "fovea/models/line_source.h"
#include "fovea/models/written_text.h"
#include "fovea/tasks/translation/documents.h"
#include "fovea/tasks/translation/run.h"
#include "fovea/tasks/translation/translator.h"

namespace fovea::translation {
namespace {

// One input line's output; `line` counts from 0.
std::string printed(const DecodeConfig& config, int64_t line, const std::vector<Translation>& translations) {
  std::vector<models::WrittenText> texts(translations.begin(), translations.end());
  for (size_t i = 0; config.alignment && i < texts.size(); ++i)
    texts[i].text += cat(" ||| ", analysis::print(translations[i].links));
  return models::printed_texts(config, line, texts);
}

// The lines of the input, in windows, in all processes of a team: the first one reads.
class SharedInput {
 public:
  SharedInput(Collective& team, const std::string& path) : team_(team) {
    if (team.rank() == 0) source_.emplace(path);
  }
  std::vector<std::string> next(size_t most) {
    if (team_.size() == 1) return source_->next(most);
    const auto read = [&](int64_t) {
      std::string text;
      for (const std::string& line : source_->next(most)) text += line + '\n';
      return text;
    };
    std::vector<std::string> lines = split(shared_work(team_, 1, read).front(), '\n');
    lines.pop_back();
    return lines;
  }
  // The number of all lines, if process 0, which calls this, can know it.
  std::optional<int64_t> total() { return source_ ? source_->total() : std::nullopt; }

 private:
  Collective& team_;
  std::optional<models::LineSource> source_;
};

// The windows begin with a batch and grow, so that the first lines are there early.
class WindowSizes {
 public:
  WindowSizes(const DecodeConfig& config, int64_t processes)
      : next_(config.mini_batch * processes), most_(next_ * config.maxi_batch) {}
  size_t next() {
    const int64_t size = next_;
    next_ = std::min(2 * next_, most_);
    return static_cast<size_t>(size);
  }

 private:
  int64_t next_, most_;
};

// Texts that become ready in any order, and are given on in theirs.
class InOrder {
 public:
  InOrder(size_t count, std::function<void(std::string)> give) : ready_(count), give_(std::move(give)) {}
  void add(size_t place, std::string text) {
    ready_[place] = std::move(text);
    for (; given_ < ready_.size() && ready_[given_]; ++given_) give_(*std::move(ready_[given_]));
  }

 private:
  std::vector<std::optional<std::string>> ready_;
  std::function<void(std::string)> give_;
  size_t given_ = 0;
};

// A display of the lines done so far, if there is room for it: a bar if the number of all lines is known, else a count.
class LinesDone {
 public:
  LinesDone(bool shows, std::optional<int64_t> total) {
    if (!shows) return;
    bar_.emplace("translating, lines", static_cast<double>(total.value_or(0)));
    bar_->at(0);
  }
  void at(int64_t lines) {
    if (bar_) bar_->at(static_cast<double>(lines));
  }
  void finish() { bar_.reset(); }

 private:
  std::optional<log::Progress> bar_;
};

// The work of all processes of a team: each of them translates a part of every window, and the first one writes.
class TranslateWork {
 public:
  TranslateWork(const DecodeConfig& config, Collective& team)
      : config_(config), team_(team), input_(team, config.input), translator_(config) {
    require_languages(translator_.model(), {config.source_lang, config.target_lang});
    if (team.rank() == 0) output_.emplace(config.output);
  }

  // Returns the number of lines. If it throws, the lines that were written are kept as partial.
  int64_t run() {
    WindowSizes sizes(config_, team_.size());
    LinesDone done(output_ && models::has_room_for_progress(config_.output), input_.total());
    try {
      for (;;) {
        const std::vector<std::string> window = input_.next(sizes.next());
        if (window.empty()) break;
        team_.size() == 1 ? translate(window, done) : translate_part(window, done);
        if (output_) output_->flush();
      }
    } catch (...) {
      if (output_ && written_ > 0) models::keep_partial(*output_, count_lines(written_));
      throw;
    }
    done.finish();
    if (output_) output_->close();
    return written_;
  }

  const Translator& translator() const { return translator_; }

 private:
  // Writes each line as soon as those before it are there.
  void translate(std::span<const std::string> window, LinesDone& done) {
    const int64_t before = written_;
    int64_t ready = before;
    InOrder lines(window.size(), [&](std::string text) {
      text.pop_back();  // line() writes the end of the line
      output_->line(text);
      ++written_;
    });
    translator_.translate(window, [&](size_t line, const std::vector<Translation>& best) {
      lines.add(line, printed(config_, before + static_cast<int64_t>(line), best));
      done.at(++ready);
    });
  }

  void translate_part(std::span<const std::string> window, LinesDone& done) {
    const auto lines = std::ssize(window);
    const std::vector<std::string> parts = shared_work(team_, team_.size(), [&](int64_t part) {
      const int64_t begin = lines * part / team_.size(), end = lines * (part + 1) / team_.size();
      translator_.skip(begin);
      std::string output;
      int64_t ready = written_;
      InOrder in_order(static_cast<size_t>(end - begin), [&](const std::string& text) { output += text; });
      translator_.translate(window.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
                            [&](size_t line, const std::vector<Translation>& best) {
                              const int64_t number = written_ + begin + static_cast<int64_t>(line);
                              in_order.add(line, printed(config_, number, best));
                              done.at(ready += team_.size());  // the others are about as far
                            });
      translator_.skip(lines - end);
      return output;
    });
    for (size_t i = 0; output_ && i < parts.size(); ++i) output_->write(parts[i]);
    written_ += lines;
  }

  const DecodeConfig& config_;
  Collective& team_;
  SharedInput input_;
  Translator translator_;
  std::optional<LineWriter> output_;
  int64_t written_ = 0;
};

// The sums of the counts of all processes of a team.
TranslationCounts total(Collective& team, const TranslationCounts& own) {
  TranslationCounts sum;
  for (const std::string& bytes : team.gather({reinterpret_cast<const char*>(&own), sizeof own})) {
    TranslationCounts counts;
    std::memcpy(&counts, bytes.data(), sizeof counts);
    sum.lines = counts.lines;
    sum.source_tokens += counts.source_tokens;
    sum.target_tokens += counts.target_tokens;
    sum.cut += counts.cut;
    sum.not_utf8 += counts.not_utf8;
    sum.unknown += counts.unknown;
    sum.with_unknown += counts.with_unknown;
    sum.ended += counts.ended;
    sum.with_terms += counts.with_terms;
    sum.lack_terms += counts.lack_terms;
  }
  return sum;
}

void report(const TranslationCounts& counts, const LineLimit& limit, const DecodeConfig& config, double seconds) {
  const double rate = seconds > 0 ? 1 / seconds : 0;
  log::info(cat("translated ", count_lines(counts.lines), ", ", thousands(counts.source_tokens), " source tokens, ",
                thousands(counts.target_tokens), " target tokens in ", fixed(seconds, 1), " s (",
                fixed(static_cast<double>(counts.lines) * rate, 1), " lines/s, ",
                fixed(static_cast<double>(counts.target_tokens) * rate, 0), " tokens/s)"));
  warn_of_cut_lines(counts.cut, limit);
  if (counts.unknown > 0) log::info(cat(unknown_message(counts.unknown), " in ", count_lines(counts.with_unknown)));
  if (counts.ended > 0)
    log::info(cat(thousands(counts.ended), counts.ended == 1 ? " translation was" : " translations were",
                  " cut at --max-length-factor, ", shortest(config.max_length_factor),
                  " times the tokens of the source"));
  if (counts.not_utf8 > 0)
    log::warn(cat(count_lines(counts.not_utf8), counts.not_utf8 == 1 ? " was" : " were", " not UTF-8"));
  if (counts.with_terms > 0)
    log::info(cat(count_lines(counts.with_terms), counts.with_terms == 1 ? " has" : " have", " terms of --terms"));
  if (counts.lack_terms > 0)
    log::warn(cat(count_lines(counts.lack_terms), counts.lack_terms == 1 ? " lacks" : " lack", " terms"));
}

}  // namespace

int64_t run_translate(const DecodeConfig& given) {
  validate(given);
  if (given.documents) {
    require_one_process("fovea translate --documents");
    return translate_documents(given);
  }
  // Open MPI 5 does not tell the processes where their standard input ends.
  if (given.input == "-") require_one_process("fovea translate without --input FILE");
  require_other_file("--output", given.output, {given.input});
  Collective& team = launched();
  DecodeConfig config = given;
  config.cpu_threads = threads_in_team(team, given.cpu_threads);
  TranslateWork work(config, team);
  const Stopwatch watch;
  const int64_t lines = work.run();
  report(total(team, work.translator().counts()), work.translator().limit(), config, watch.seconds());
  team.finish();
  return lines;
}

}  // namespace fovea::translation
