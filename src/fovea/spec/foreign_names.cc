#include "fovea/spec/foreign_names.h"

#include <algorithm>
#include <array>
#include <string>

#include "fovea/base/strings.h"

namespace fovea {
namespace {

// An option of another system. `ours` does the same; with it, `note` says how. Without it, the note says what to do.
// `ours` is meant only in a command that has the option `beside` too, if one is named.
struct ForeignName {
  std::string_view name, ours, note = {}, beside = {};
};

constexpr std::string_view kAlways = "Fovea always does this; leave it out";
constexpr std::string_view kNone = "Fovea does not have this; leave it out";
constexpr std::string_view kBfloat16 = "Its fast type is bfloat16";
constexpr std::string_view kVocabs = "vocabularies are made before training: fovea vocab --help";
constexpr std::string_view kSentencePieceModel =
    "It takes two SentencePiece models, for source and target; one file may come twice";
constexpr std::string_view kResumes = "the same command continues the run in the folder of --model; leave it out";
constexpr std::string_view kEpochOfUpdates = "It counts updates";
constexpr std::string_view kOneSize = "Encoder and decoder have one size";
constexpr std::string_view kAdam = "Of adam, its numbers are beta1, beta2 and epsilon: 0.9 0.98 1e-9";
constexpr std::string_view kDecay = "It takes inv-sqrt, cosine or linear";
constexpr std::string_view kSizes =
    "the sizes are options of their own: --enc-depth, --dec-depth, --dim-emb, --transformer-heads, "
    "--transformer-dim-ffn";
constexpr std::string_view kPlainText = "translations are plain text, with pieces and marks joined; leave it out";
constexpr std::string_view kOrderOfFiles = "the order of the files says it: source, then target; leave it out";

// By system, and within it by the name. Names may come several times: the first whose option the command has counts.
constexpr std::array kForeignNames = {
    // Marian
    ForeignName{"after", "after-batches", "Epochs have --after-epochs"}, ForeignName{"beam-size", "valid-beam-size"},
    ForeignName{"check-gradient-nan", "", kAlways},
    ForeignName{"cost-type", "", "the cost is always ce-mean-words, with --label-smoothing; leave it out"},
    ForeignName{"custom-fallbacks", "max-rollbacks"}, ForeignName{"data-weighting", "", kNone},
    ForeignName{"dec-cell", "transformer-decoder-autoreg", "It takes self-attention or ssru"},
    ForeignName{"dropout-src", "", kNone}, ForeignName{"dropout-trg", "", kNone},
    ForeignName{"embedding-vectors", "", kNone},
    ForeignName{"force-decode", "", "Fovea does not force prefixes; fovea score has the score of a given translation"},
    ForeignName{"gemm-type", "precision", "It takes int8, for the checkpoint as it is"},
    ForeignName{"guided-alignment", "", kNone}, ForeignName{"guided-alignment-cost", "", kNone},
    ForeignName{"interpolate-env-vars", "", "paths start at the current folder; leave it out"},
    ForeignName{"keep-best", "", "RUN/best always names the best checkpoint of the first measure; leave it out"},
    ForeignName{"l", "learn-rate"}, ForeignName{"lr-decay-freq", "lr-decay", kDecay},
    ForeignName{"lr-decay-inv-sqrt", "lr-decay", "inv-sqrt is the default, from the end of --lr-warmup"},
    ForeignName{"lr-decay-repeat-warmup", "", kNone}, ForeignName{"lr-decay-start", "lr-decay", kDecay},
    ForeignName{"lr-decay-strategy", "lr-decay", kDecay},
    ForeignName{"lr-report", "", "the log always shows the learning rate; leave it out"},
    ForeignName{"lr-warmup-cycle", "", kNone},
    ForeignName{"lr-warmup-start-rate", "", "the warm-up starts at 0; leave it out"},
    ForeignName{"max-length-factor", "valid-max-length-factor"},
    ForeignName{"maxi-batch-sort", "", "lines are always sorted by length within --maxi-batch; leave it out"},
    ForeignName{"mini-batch-fit", "mini-batch-words", "Fovea reserves no memory"}, ForeignName{"models", "model"},
    ForeignName{"no-optimizer-reload", "pretrained-model", "A new run with it starts with a new optimiser"},
    ForeignName{"no-shuffle", "", "training text is always shuffled, by --seed; leave it out"},
    ForeignName{"normalize", "", "validation divides by the length; fovea translate has --normalize"},
    ForeignName{"o", "optimizer"},
    ForeignName{"output-sampling", "", "Fovea samples from language models: fovea generate"},
    ForeignName{"overwrite-checkpoint", "keep-last"}, ForeignName{"quiet-translation", "quiet"},
    ForeignName{"relative-paths", "", "paths start at the current folder; leave it out"},
    ForeignName{"sentencepiece-alphas", "", kVocabs}, ForeignName{"sentencepiece-max-lines", "", kVocabs},
    ForeignName{"sentencepiece-options", "", kVocabs}, ForeignName{"shortlist", "", kNone},
    ForeignName{"shuffle-in-ram", "", "training text is always held in memory, as numbers; leave it out"},
    ForeignName{"sigterm", "", "SIGTERM always saves before it ends the training; leave it out"},
    ForeignName{"sqlite", "", "training text is held in memory, as numbers; leave it out"},
    ForeignName{"stat-freq", "", "the log's last line has lines and tokens per second; leave it out"},
    ForeignName{"sync-sgd", "", kAlways},
    ForeignName{"tempdir", "", "nothing is written to a temporary folder; leave it out"},
    ForeignName{"throw-on-divergence", "max-rollbacks"},
    ForeignName{"transformer-attention-mask", "transformer-positions", "alibi is one of them"},
    ForeignName{"transformer-disable-position-embeddings", "transformer-positions", "It takes none"},
    ForeignName{"transformer-postprocess", "transformer-norm", "dan is post, da is pre"},
    ForeignName{"transformer-postprocess-emb", "transformer-dropout-embedding"},
    ForeignName{"transformer-postprocess-top", "transformer-norm", "With pre, a last norm is there"},
    ForeignName{"transformer-preprocess", "transformer-norm", "n is pre"},
    ForeignName{"transformer-train-position-embeddings", "transformer-positions", "It takes learned"},
    ForeignName{"tsv", "", "fovea corpus FILE.tsv splits the columns into files"},
    ForeignName{"type", "", "every model of Fovea is a Transformer; leave it out"},
    ForeignName{"valid-log", "log", "log.jsonl in the run's folder has all values"},
    ForeignName{"valid-mini-batch", "valid-mini-batch-words"},
    ForeignName{"valid-script-path", "", "translate a checkpoint yourself: fovea translate --model RUN/last"},
    ForeignName{"valid-translation-output", "", "translate a checkpoint yourself: fovea translate --model RUN/last"},
    ForeignName{"w", "mini-batch-words", "Fovea reserves no memory"}, ForeignName{"word-penalty", "", kNone},
    ForeignName{"word-scores", "", "fovea score has the scores of pairs"},
    ForeignName{"workspace", "mini-batch-words", "Fovea reserves no memory"},
    // fairseq
    ForeignName{"activation-dropout", "transformer-dropout-ffn"},
    ForeignName{"activation-fn", "transformer-ffn-activation"}, ForeignName{"adam-betas", "optimizer-params", kAdam},
    ForeignName{"adam-eps", "optimizer-params", kAdam}, ForeignName{"arch", "", kSizes},
    ForeignName{"attention-dropout", "transformer-dropout-attention"},
    ForeignName{"batch-size", "mini-batch", "It counts sentences; --mini-batch-words counts tokens"},
    ForeignName{"beam", "beam-size"},
    ForeignName{"best-checkpoint-metric", "valid-metrics", "RUN/best is by the first of them"},
    ForeignName{"bf16", "precision", kBfloat16}, ForeignName{"checkpoint-upper-bound", "until"},
    ForeignName{"context-window", "context"},
    ForeignName{"criterion", "", "the loss is always cross-entropy, with --label-smoothing; leave it out"},
    ForeignName{"decoder-attention-heads", "transformer-heads", kOneSize},
    ForeignName{"decoder-embed-dim", "dim-emb", kOneSize},
    ForeignName{"decoder-ffn-embed-dim", "transformer-dim-ffn", kOneSize}, ForeignName{"decoder-layers", "dec-depth"},
    ForeignName{"decoder-learned-pos", "transformer-positions", "It takes learned"},
    ForeignName{"decoder-normalize-before", "transformer-norm", "pre is the default"},
    ForeignName{"distributed-world-size", "devices", "A training has one device; mpirun starts several processes"},
    ForeignName{"dropout", "transformer-dropout"},
    ForeignName{"encoder-attention-heads", "transformer-heads", kOneSize},
    ForeignName{"encoder-embed-dim", "dim-emb", kOneSize},
    ForeignName{"encoder-ffn-embed-dim", "transformer-dim-ffn", kOneSize}, ForeignName{"encoder-layers", "enc-depth"},
    ForeignName{"encoder-learned-pos", "transformer-positions", "It takes learned"},
    ForeignName{"encoder-normalize-before", "transformer-norm", "pre is the default"},
    ForeignName{"eval-bleu", "valid-metrics", "bleu is one of them"}, ForeignName{"fp16", "precision", kBfloat16},
    ForeignName{"keep-interval-updates", "keep-last"},
    ForeignName{"keep-last-epochs", "keep-last", "It counts checkpoints"}, ForeignName{"lenpen", "normalize"},
    ForeignName{"log-interval", "disp-freq"}, ForeignName{"lr-scheduler", "lr-decay", kDecay},
    ForeignName{"max-epoch", "after-epochs"}, ForeignName{"max-len-a", "max-length-factor"},
    ForeignName{"max-update", "after-batches"},
    ForeignName{"nbest", "n-best", "It takes no number; --beam-size says how many"},
    ForeignName{"no-epoch-checkpoints", "", "checkpoints are by updates: --save-freq; leave it out"},
    ForeignName{"no-progress-bar", "", "the bar is only on a terminal; --quiet has no log at all"},
    ForeignName{"num-update-checkpoints", "last"}, ForeignName{"num-workers", "cpu-threads"},
    ForeignName{"patience", "early-stopping"}, ForeignName{"path", "model"},
    ForeignName{"post-process", "", kPlainText}, ForeignName{"relu-dropout", "transformer-dropout-ffn"},
    ForeignName{"remove-bpe", "", kPlainText},
    ForeignName{"reset-optimizer", "pretrained-model", "A new run with it starts with a new optimiser"},
    ForeignName{"restore-file", "pretrained-model", "The same command continues a run without it"},
    ForeignName{"sample-break-mode", "documents"}, ForeignName{"save-dir", "model"},
    ForeignName{"save-interval", "save-freq", kEpochOfUpdates}, ForeignName{"save-interval-updates", "save-freq"},
    ForeignName{"score-reference", "", "fovea score has the scores of pairs"},
    ForeignName{"share-all-embeddings", "tied-embeddings-all"},
    ForeignName{"share-decoder-input-output-embed", "tied-embeddings"}, ForeignName{"source-lang", "", kOrderOfFiles},
    ForeignName{"target-lang", "", kOrderOfFiles}, ForeignName{"tokens-per-sample", "segment-length"},
    ForeignName{"unkpen", "allow-unk", "Without it, translations never have the unknown token"},
    ForeignName{"validate-interval", "valid-freq", kEpochOfUpdates},
    ForeignName{"validate-interval-updates", "valid-freq"}, ForeignName{"warmup-updates", "lr-warmup"},
    // OpenNMT
    ForeignName{"accum-count", "optimizer-delay"},
    ForeignName{"batch-type", "", "--mini-batch-words counts tokens, --mini-batch sentences; leave it out"},
    ForeignName{"data", "train-sets"}, ForeignName{"dec-layers", "dec-depth"},
    ForeignName{"decay-method", "lr-decay", "noam is inv-sqrt"}, ForeignName{"enc-layers", "enc-depth"},
    ForeignName{"gpu", "devices"}, ForeignName{"gpu-ranks", "devices", "A training has one device"},
    ForeignName{"heads", "transformer-heads"}, ForeignName{"hidden-size", "dim-emb"},
    ForeignName{"keep-checkpoint", "keep-last"}, ForeignName{"layers", "enc-depth", "The decoder has --dec-depth"},
    ForeignName{"layers", "dec-depth"}, ForeignName{"learning-rate", "learn-rate"},
    ForeignName{"max-grad-norm", "clip-norm"}, ForeignName{"model-dtype", "precision", kBfloat16},
    ForeignName{"optim", "optimizer"}, ForeignName{"param-init-glorot", "", kAlways},
    ForeignName{"position-encoding", "transformer-positions", "sinusoidal is one of them"},
    ForeignName{"report-every", "disp-freq"}, ForeignName{"rnn-size", "dim-emb"},
    ForeignName{"save-checkpoint-steps", "save-freq"}, ForeignName{"save-model", "model"},
    ForeignName{"share-decoder-embeddings", "tied-embeddings"}, ForeignName{"share-embeddings", "tied-embeddings-all"},
    ForeignName{"src", "input"}, ForeignName{"src-vocab", "vocabs", kSentencePieceModel},
    ForeignName{"tgt-vocab", "vocabs", kSentencePieceModel}, ForeignName{"train-from", "", kResumes},
    ForeignName{"train-steps", "after-batches"}, ForeignName{"transformer-ff", "transformer-dim-ffn"},
    ForeignName{"valid-steps", "valid-freq"}, ForeignName{"warmup-steps", "lr-warmup"},
    ForeignName{"word-vec-size", "dim-emb"},
    ForeignName{"world-size", "devices", "A training has one device; mpirun starts several processes"},
    // transformers
    ForeignName{"adam-beta1", "optimizer-params", kAdam}, ForeignName{"adam-beta2", "optimizer-params", kAdam},
    ForeignName{"adam-epsilon", "optimizer-params", kAdam}, ForeignName{"block-size", "segment-length"},
    ForeignName{"do-sample", "", "fovea generate always samples; --top-k 1 takes the most probable unit"},
    ForeignName{"early-stopping-patience", "early-stopping"}, ForeignName{"eval-steps", "valid-freq"},
    ForeignName{"eval-strategy", "valid-freq", kEpochOfUpdates},
    ForeignName{"evaluation-strategy", "valid-freq", kEpochOfUpdates},
    ForeignName{"gradient-accumulation-steps", "optimizer-delay"},
    ForeignName{"intermediate-size", "transformer-dim-ffn"}, ForeignName{"label-smoothing-factor", "label-smoothing"},
    ForeignName{"load-best-model-at-end", "", "--model RUN of other commands takes RUN/best; leave it out"},
    ForeignName{"logging-steps", "disp-freq"}, ForeignName{"lr-scheduler-type", "lr-decay", kDecay},
    ForeignName{"max-new-tokens", "max-length-factor", "It limits a translation by the length of its source"},
    ForeignName{"max-new-tokens", "max-length", "It counts the units of a text, without those of the prompt", "top-p"},
    ForeignName{"max-position-embeddings", "max-positions"}, ForeignName{"max-steps", "after-batches"},
    ForeignName{"model-name-or-path", "model"}, ForeignName{"num-attention-heads", "transformer-heads"},
    ForeignName{"num-beams", "beam-size"}, ForeignName{"num-hidden-layers", "enc-depth", "The decoder has --dec-depth"},
    ForeignName{"num-hidden-layers", "dec-depth"}, ForeignName{"num-key-value-heads", "transformer-heads-kv"},
    ForeignName{"num-return-sequences", "n-best", "It takes no number; --beam-size says how many"},
    ForeignName{"num-return-sequences", "count"}, ForeignName{"num-train-epochs", "after-epochs"},
    ForeignName{"output-dir", "model"},
    ForeignName{"overwrite-output-dir", "overwrite", "It deletes the run in the folder"},
    ForeignName{"per-device-eval-batch-size", "valid-mini-batch-words", "It counts target tokens"},
    ForeignName{"per-device-train-batch-size", "mini-batch", "It counts sequences"},
    ForeignName{"repetition-penalty", "", kNone}, ForeignName{"report-to", "tensorboard", "It takes no value"},
    ForeignName{"resume-from-checkpoint", "", kResumes}, ForeignName{"save-steps", "save-freq"},
    ForeignName{"save-total-limit", "keep-last"}, ForeignName{"train-file", "train-sets"},
    ForeignName{"validation-file", "valid-sets"}, ForeignName{"warmup-ratio", "lr-warmup", "It counts updates"},
    // CTranslate2 and SentencePiece
    ForeignName{"compute-type", "precision", "It takes float32, bfloat16 or int8"},
    ForeignName{"inter-threads", "cpu-threads"}, ForeignName{"intra-threads", "cpu-threads"},
    ForeignName{"model-prefix", "output"}, ForeignName{"model-type", "type"},
    ForeignName{"normalization-rule-name", "normalization"}, ForeignName{"vocab-size", "dim-vocabs"}};

}  // namespace

std::string did_you_mean_field(std::string_view name, std::span<const std::string> known, std::string_view dashes) {
  std::string bare(name);
  std::ranges::replace(bare, '_', '-');
  bare.erase(0, std::min(bare.find_first_not_of('-'), bare.size()));
  bool is_foreign = false;
  for (const ForeignName& foreign : kForeignNames) {
    if (foreign.name != bare) continue;
    is_foreign = true;
    if (foreign.ours.empty()) return cat("; ", foreign.note);
    const auto has = [&](std::string_view option) {
      return std::ranges::find(known, cat(dashes, option)) != known.end();
    };
    const std::string ours = cat(dashes, foreign.ours);
    if (has(foreign.ours) && (foreign.beside.empty() || has(foreign.beside)))
      return cat("; did you mean '", ours, "'?", foreign.note.empty() ? "" : cat(" ", foreign.note));
  }
  // A name of another system is not a misspelt one of ours.
  return is_foreign ? "" : did_you_mean(name, known);
}

}  // namespace fovea
