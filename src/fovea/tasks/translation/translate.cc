#include <string>
#include <vector>

#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/stopwatch.h"
#include "fovea/base/strings.h"
#include "fovea/models/line_source.h"
#include "fovea/models/written_text.h"
#include "fovea/tasks/translation/documents.h"
#include "fovea/tasks/translation/run.h"
#include "fovea/tasks/translation/translator.h"

namespace fovea::translation {
namespace {

// One input line's output; `line` counts from 0.
void write(LineWriter& output, const DecodeConfig& config, int64_t line, const std::vector<Translation>& translations) {
  std::vector<models::WrittenText> texts(translations.begin(), translations.end());
  for (size_t i = 0; config.alignment && i < texts.size(); ++i)
    texts[i].text += cat(" ||| ", analysis::print(translations[i].links));
  models::print_texts(output, config, line, texts);
}

void report(const Translator& translator, const DecodeConfig& config, double seconds) {
  const TranslationCounts& counts = translator.counts();
  const double rate = seconds > 0 ? 1 / seconds : 0;
  log::info(cat("translated ", count_lines(counts.lines), ", ", thousands(counts.source_tokens), " source tokens, ",
                thousands(counts.target_tokens), " target tokens in ", fixed(seconds, 1), " s (",
                fixed(static_cast<double>(counts.lines) * rate, 1), " lines/s, ",
                fixed(static_cast<double>(counts.target_tokens) * rate, 0), " tokens/s)"));
  warn_of_cut_lines(counts.cut, translator.limit());
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

int64_t run_translate(const DecodeConfig& config) {
  validate(config);
  if (config.documents) return translate_documents(config);
  require_other_file("--output", config.output, {config.input});
  models::LineSource input(config.input);
  Translator translator(config);
  LineWriter output(config.output);
  const Stopwatch watch;
  const auto window_size = static_cast<size_t>(config.maxi_batch * config.mini_batch);
  int64_t line = 0;
  const bool shows = models::has_room_for_progress(config.output);
  log::Progress progress("translating, lines", 0);
  try {
    for (;;) {
      const std::vector<std::string> window = input.next(window_size);
      if (window.empty()) break;
      for (const auto& translations : translator.translate(window)) write(output, config, line++, translations);
      output.flush();
      if (shows) progress.at(static_cast<double>(line));
    }
  } catch (...) {
    if (line > 0) models::keep_partial(output, count_lines(line));
    throw;
  }
  progress.finish();
  output.close();
  report(translator, config, watch.seconds());
  return line;
}

}  // namespace fovea::translation
