#include <cstring>
#include <optional>
#include <span>
#include <string>
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

 private:
  Collective& team_;
  std::optional<models::LineSource> source_;
};

// The output for a window of lines, of which each process of the team translates a part.
std::vector<std::string> translated(Translator& translator, const DecodeConfig& config, Collective& team,
                                    int64_t before, std::span<const std::string> window) {
  const auto lines = std::ssize(window);
  return shared_work(team, team.size(), [&](int64_t part) {
    const int64_t begin = lines * part / team.size(), end = lines * (part + 1) / team.size();
    translator.skip(begin);
    std::string output;
    int64_t line = before + begin;
    for (const auto& one :
         translator.translate(window.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin))))
      output += printed(config, line++, one);
    translator.skip(lines - end);
    return output;
  });
}

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
  SharedInput input(team, config.input);
  Translator translator(config);
  std::optional<LineWriter> output;
  if (team.rank() == 0) output.emplace(config.output);
  const Stopwatch watch;
  const auto window_size = static_cast<size_t>(config.maxi_batch * config.mini_batch * team.size());
  int64_t line = 0;
  const bool shows = output && models::has_room_for_progress(config.output);
  log::Progress progress("translating, lines", 0);
  try {
    for (;;) {
      const std::vector<std::string> window = input.next(window_size);
      if (window.empty()) break;
      const std::vector<std::string> parts = translated(translator, config, team, line, window);
      line += std::ssize(window);
      if (!output) continue;
      for (const std::string& part : parts) output->write(part);
      output->flush();
      if (shows) progress.at(static_cast<double>(line));
    }
  } catch (...) {
    if (output && line > 0) models::keep_partial(*output, count_lines(line));
    throw;
  }
  progress.finish();
  if (output) output->close();
  report(total(team, translator.counts()), translator.limit(), config, watch.seconds());
  team.finish();
  return line;
}

}  // namespace fovea::translation
