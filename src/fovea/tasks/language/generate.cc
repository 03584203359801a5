#include "fovea/tasks/language/generate.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/stopwatch.h"
#include "fovea/base/strings.h"
#include "fovea/models/sampler.h"
#include "fovea/models/trained_model.h"
#include "fovea/spec/config_problems.h"
#include "fovea/tasks/language/load_model.h"
#include "fovea/text/unit_decoder.h"
#include "fovea/text/utf8.h"

namespace fovea::language {
namespace {

struct Prompt {
  std::string text, origin;  // where it was given, for messages
};

std::vector<Prompt> read_prompts(const GenerateOptions& options) {
  std::vector<Prompt> prompts;
  for (const std::string& text : options.prompt) prompts.push_back({text, "--prompt"});
  const bool is_terminal = options.input == "-" && isatty(STDIN_FILENO) != 0;
  if (prompts.empty() && !is_terminal) {
    LineReader reader(options.input);
    for (std::string line; reader.next(line);)
      prompts.push_back({line, cat(input_name(options.input), ", line ", reader.line_number())});
  }
  if (prompts.empty()) prompts.emplace_back();
  return prompts;
}

// The unit that begins every text, and the prompt's own.
std::vector<int64_t> encode_prompt(const Prompt& prompt, const text::Units& units) {
  if (!units.is_bytes() && !is_valid_utf8(prompt.text))
    throw Error(cat(prompt.origin, ": got bytes that are not UTF-8; the model reads ", units.unit_name(),
                    "s; convert the prompt to UTF-8"));
  std::vector<int32_t> ids;
  units.encode(prompt.text, ids);
  std::vector<int64_t> tokens = {units.begin()};
  tokens.insert(tokens.end(), ids.begin(), ids.end());
  return tokens;
}

void check_length(const std::vector<int64_t>& prompt, const GenerateOptions& options, const LanguageConfig& config) {
  const int64_t length = std::ssize(prompt), most = config.max_positions;
  if (!has_learned_positions(config) || config.memory_length > 0 || length + options.max_length - 1 <= most) return;
  throw Error(cat("--max-length: got ", options.max_length, " after a prompt of ", length - 1,
                  " units; the model has learned positions for ", most, " units; expected at most ",
                  std::max<int64_t>(0, most - length + 1), "; shorten the prompt or --max-length"));
}

models::SamplingRules rules_of(const GenerateOptions& options, const LoadedModel& loaded) {
  models::SamplingRules rules;
  rules.choice = {.temperature = options.temperature, .top_k = options.top_k, .top_p = options.top_p};
  rules.max_length = options.max_length;
  rules.cut = stream_cut(loaded.config);
  rules.cache = cache_type(loaded, options.cache_precision);
  UnitRules units = unit_rules(loaded, options.allow_unk);
  rules.never = std::move(units.never);
  rules.ends = std::move(units.ends);
  return rules;
}

// Texts of a batch in their order: a single text as it is made, several when their batch is done.
class TextWriter {
 public:
  TextWriter(LineWriter& output, int64_t total) : output_(output), total_(total) {}

  // `prompts` are the texts of the drafts' prompts.
  void begin(std::span<const models::Draft> drafts, std::vector<std::string> prompts, const text::Units& units) {
    texts_ = std::move(prompts);
    decoders_.assign(drafts.size(), text::UnitDecoder(units));
    for (size_t i = 0; i < drafts.size(); ++i) {
      warm_up(decoders_[i], drafts[i]);
      // The decoder holds the bytes of a character that the prompt cuts, and gives them when the character is whole.
      texts_[i].resize(texts_[i].size() - text::cut_character(texts_[i]));
    }
    if (total_ == 1) show(texts_.front());
  }
  void add(size_t text, int64_t unit) {
    const std::string part = decoders_[text].push(unit);
    if (total_ == 1) return show(part);
    texts_[text] += part;
  }
  void end() {
    for (size_t i = 0; i < texts_.size(); ++i) {
      const std::string rest = decoders_[i].finish();
      ++done_;
      if (total_ == 1) {
        output_.write(rest + "\n");
      } else {
        output_.write(cat(done_ > 1 ? "\n" : "", "==> ", done_, " of ", total_, " <==\n", texts_[i], rest, "\n"));
      }
    }
    output_.flush();
  }

 private:
  // The decoder stands behind the prompt, so that a first piece with a blank before it shows the blank.
  static void warm_up(text::UnitDecoder& decoder, const models::Draft& draft) {
    for (size_t i = 1; i < draft.prompt.size(); ++i) decoder.push(draft.prompt[i]);  // 0 begins every text
  }
  void show(const std::string& text) {
    if (text.empty()) return;
    output_.write(text);
    output_.flush();
  }

  LineWriter& output_;
  int64_t total_, done_ = 0;
  std::vector<std::string> texts_;
  std::vector<text::UnitDecoder> decoders_;
};

}  // namespace

void validate(const GenerateOptions& options) {
  Problems problems;
  problems.add_ranges(options);
  add_model_problems(options, problems);
  problems.add_if(options.top_p == 0, "--top-p is 0; expected a probability above 0, at most 1");
  problems.add_if(
      !options.prompt.empty() && options.input != "-",
      cat("--prompt: got prompts, and more in --input '", options.input, "'; choose one of the two options"));
  problems.throw_if_any();
}

int64_t run_generate(const GenerateOptions& options) {
  validate(options);
  if (options.prompt.empty() && options.input != "-") require_file(options.input, "--input");
  const LoadedModel loaded = load_model(options);
  const std::vector<Prompt> prompts = read_prompts(options);
  std::vector<std::vector<int64_t>> tokens;
  for (const Prompt& prompt : prompts) {
    tokens.push_back(encode_prompt(prompt, loaded.units));
    check_length(tokens.back(), options, loaded.config);
  }
  const models::Sampler sampler(loaded.model, rules_of(options, loaded), models::step_format(options));
  LineWriter output(options.output);
  const int64_t total = std::ssize(prompts) * options.count;
  TextWriter writer(output, total);
  const Stopwatch watch;
  int64_t units = 0;
  for (int64_t first = 0; first < total; first += options.mini_batch) {
    std::vector<models::Draft> drafts;
    std::vector<std::string> texts;
    for (int64_t i = first; i < std::min(total, first + options.mini_batch); ++i) {
      const auto prompt = static_cast<size_t>(i / options.count);
      drafts.push_back({tokens[prompt], models::draft_seed(options.seed, i, options.count)});
      texts.push_back(prompts[prompt].text);
    }
    writer.begin(drafts, std::move(texts), loaded.units);
    sampler.run(drafts, [&](size_t draft, int64_t unit) {
      ++units;
      writer.add(draft, unit);
    });
    writer.end();
  }
  output.close();
  const double seconds = watch.seconds();
  log::info(cat("generated ", thousands(units), " ", loaded.units.unit_name(), "s in ", fixed(seconds, 1), " s (",
                fixed(static_cast<double>(units) / std::max(seconds, 1e-9), 0), " per second)"));
  return total;
}

}  // namespace fovea::language
