#pragma once
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "fovea/spec/beam_config.h"
#include "fovea/spec/run_options.h"
#include "fovea/tasks/decoder_options.h"

// The options of `fovea serve`.
namespace fovea::serve {

struct ServeOptions : MachineOptions, AttentionOverride, BeamConfig, LogOptions {
  std::vector<std::string> model, allow_host;
  std::string precision = "float32", cache_precision = "model";
  std::string host = "127.0.0.1", api_key, allow_origin, glossaries;
  int64_t port = 8080;
  int64_t queue_tokens = 50'000, mini_batch = 64, mini_batch_words = 2048;
  int64_t max_length = 1000, max_texts = 1000, max_body = 2 << 20, max_connections = 1000;
  int64_t alternatives_limit = 10, max_glossaries = 100, max_beam_size = 20, max_new_tokens = 4096;
  int64_t prefix_cache = 256;
  double timeout = 60, read_timeout = 20, max_length_factor = 3;
  bool log_texts = false;

  static constexpr auto fields() {
    using C = ServeOptions;
    const auto models = std::tuple(
        named("model", &C::model,
              "folders of runs or checkpoints, each perhaps named: DIR, en-de=DIR for a language pair, NAME=DIR", "m"),
        choice("precision", &C::precision,
               "type of matrix products and activations; int8: of the layers' products only", "float32|bfloat16|int8"),
        tasks::cache_precision_field<C>());
    const auto network = std::tuple(
        field("host", &C::host, "address to listen on; 0.0.0.0: every address of the machine"),
        number("port", &C::port, "port to listen on (0: a free one, which is printed)", 0, 65535),
        field("api-key", &C::api_key, "file with a key per line; requests for work then need one of them"),
        field("allow-origin", &C::allow_origin,
              "web pages of this origin may use the server (https://example.org; *: all); none by default"),
        field("allow-host", &C::allow_host,
              "names of this server, for its own web pages; addresses and localhost need none"),
        number("timeout", &C::timeout,
               "seconds from a request to its answer, at most; then it gets 504, or 503 at once if that is certain",
               0.1, 86400),
        number("read-timeout", &C::read_timeout, "seconds for a client to send a request's head, and again its body",
               0.1, 3600),
        number("queue-tokens", &C::queue_tokens, "source tokens that may wait for a model; further requests get 503", 1,
               1e9),
        number("max-texts", &C::max_texts, "texts in a request, at most", 1, 1e6),
        number("max-body", &C::max_body, "bytes of a request's body, at most", 1, 1 << 30),
        number("max-connections", &C::max_connections, "open connections, at most", 1, 1e6),
        field("glossaries", &C::glossaries,
              "folder that keeps the glossaries of DeepL's clients when the server stops: NAME.en-de.tsv has the lines "
              "SOURCE<TAB>TARGET of glossary NAME (default: they are kept in memory)"),
        number("max-glossaries", &C::max_glossaries, "glossaries, at most", 0, 1e6),
        number("max-beam-size", &C::max_beam_size, "hypotheses that a request may ask for, at most", 1, 1000),
        number("max-new-tokens", &C::max_new_tokens, "tokens that a request may add to a prompt, at most", 1, 1e9),
        number("prefix-cache", &C::prefix_cache,
               "MiB of keys and values of prompts, which each language model keeps so that a prompt with the same "
               "beginning, such as the next one of a conversation, is not computed again (0: none)",
               0, 1 << 24),
        number("alternatives-limit", &C::alternatives_limit, "alternative translations that a request may ask for", 0,
               100),
        field("log-texts", &C::log_texts, "the log also shows the texts of requests, without their keys"));
    const auto search = std::tuple(
        named(number("beam-size", &C::beam_size, "hypotheses kept; 1 is greedy", 1, 1000), "b"),
        named(number("normalize", &C::normalize, "exponent of the length penalty; 0 is none", 0, 100), "n"),
        choice("length-penalty", &C::length_penalty,
               "power: log p / length^x (Marian, fairseq); gnmt: log p / ((5 + length) / 6)^x", "power|gnmt"),
        allow_unk_field("translations may have unknown words, which are shown as \u2047"),
        number("max-length-factor", &C::max_length_factor, "longest translation: X times the tokens of the source", 0.1,
               1000),
        number("max-length", &C::max_length, "tokens of a sentence, at most; longer ones are refused", 1, 1e6),
        number("mini-batch", &C::mini_batch,
               "sentences or texts that a model computes together; a request without one joins up to twice as many", 1,
               1e6),
        named(number("mini-batch-words", &C::mini_batch_words,
                     "source tokens that a model computes together; each request has at least a sentence", 1, 1e9),
              "max-tokens"));
    return std::tuple_cat(models, network, search, AttentionOverride::fields(), MachineOptions::fields(),
                          LogOptions::fields());
  }
};
// Throws a UsageError with everything that is wrong, and an Error for two models of one name.
void validate(const ServeOptions& options);

// A folder of --model with its name.
struct ModelPlace {
  std::string name;  // as given, or the folder's own name
  std::string folder;
  std::string source, target;  // the languages if the name is a pair such as "en-de"; else ""
  bool is_named = false;
};
std::vector<ModelPlace> model_places(const std::vector<std::string>& models);

// Serves until a signal stops it. Throws an Error if a model cannot be loaded or the port is taken.
void run_serve(const ServeOptions& options);

}  // namespace fovea::serve
