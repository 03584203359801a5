#include "fovea/tasks/translation/training_data.h"

#include <algorithm>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/data/document_corpus.h"
#include "fovea/data/kept_text.h"
#include "fovea/models/clause_tagger.h"
#include "fovea/models/source_clauses.h"
#include "fovea/tasks/encoding_threads.h"
#include "fovea/text/clause_flags.h"
#include "fovea/text/language_check.h"
#include "fovea/train/run_folder.h"

namespace fovea::translation {
namespace {

std::map<std::string, std::string> clause_files(const TrainConfig& config, const Options& options,
                                                const EncoderDecoderConfig& model) {
  if (!options.clause_tagger.empty() && !uses_clauses(model))
    throw UsageError(cat("--clause-tagger: ",
                         model.clause_flags ? "--clause-flags are found by words, and" : "the model has no clauses:",
                         " no mechanism attends within clauses; leave it out, or give --attention-encoder one such as "
                         "mix(full,clause(1))"));
  std::map<std::string, std::string> files = models::clause_tagger_files(options.clause_tagger, "--clause-tagger");
  const bool is_needed = uses_clauses(model) || model.clause_flags;
  const std::string trained = train::goes_on(config) ? config.model : config.pretrained_model;
  std::string dictionary = models::new_clause_dictionary(options.clause_dictionary, is_needed, trained);
  if (is_needed && options.clause_dictionary.empty() && options.clause_tagger.empty() && trained.empty())
    text::warn_unless_english(options.train_sets[0], "--clause-dictionary");
  if (is_needed) files[models::kClausesFile] = std::move(dictionary);
  return files;
}

// A side may have as many tokens: </s> of each sentence and, of a block of documents, one more.
int64_t longest_side(const Options& options) {
  return options.documents ? options.document_length + 1 : options.max_length + 1;
}

std::string encoding_of(const Options& options, const TrainingData& data) {
  std::string text = cat(checksum(data.source_vocab.bytes()), " ", checksum(data.target_vocab.bytes()), " ");
  for (const auto& [name, content] : data.clause_files) text += cat(name, " ", checksum(content), " ");
  return text + (options.documents ? cat("documents ", options.document_length)
                                   : cat("sentences ", options.max_length, " ", options.max_length_crop));
}

std::unique_ptr<data::PairSource> load_pairs(const TrainConfig& config, const Options& options,
                                             const TrainingData& data) {
  const int threads = tasks::encoding_threads(config);
  const auto encode = [&](data::PairSink& sink) {
    const std::string &source = options.train_sets[0], &target = options.train_sets[1];
    return options.documents ? data::encode_documents(source, target, data.source_vocab, data.target_vocab,
                                                      {options.document_length, threads, true}, sink)
                             : data::encode_pairs(source, target, data.source_vocab, data.target_vocab,
                                                  {options.max_length, options.max_length_crop, threads, true}, sink);
  };
  const std::string folder = data::folder_of_encoded(options.encoded_text, options.train_sets, 1);
  if (!folder.empty())
    return data::keep_text(
        data::KeptText<data::EncodedShape>{
            .paths = options.train_sets,
            .folder = folder,
            .option = "--encoded-text",
            .encoding = encoding_of(options, data),
            .shape = {std::max(data.source_vocab.size(), data.target_vocab.size()), longest_side(options)}},
        encode);
  data::HeldPairs pairs;
  data::log_report(encode(pairs));
  return std::make_unique<data::HeldPairSource>(pairs.take());
}

}  // namespace

TrainingData load_training_data(const TrainConfig& config, const Options& options, const EncoderDecoderConfig& model) {
  for (const std::string& file : options.train_sets) require_file(file, "--train-sets");
  if (options.vocabs.size() == 1 && !model.tied_embeddings_all && !model.tied_embeddings_src)
    throw UsageError(
        "--vocabs has 1 file; expected two, source and target (fovea vocab makes one); one of both languages is enough "
        "with --tied-embeddings-all");
  TrainingData data = {text::Vocab::load(options.vocabs.front()), text::Vocab::load(options.vocabs.back()), {}, {}};
  data.clause_files = clause_files(config, options, model);
  if (model.clause_flags)
    text::add_clause_flags(
        data.source_vocab,
        text::ClauseDictionary::parse(data.clause_files.at(models::kClausesFile), "--clause-dictionary"),
        cat("--vocabs: '", options.vocabs.front(), "'"));
  data.train = load_pairs(config, options, data);
  data.batches = {options.mini_batch_words, options.mini_batch, options.maxi_batch, static_cast<uint64_t>(config.seed)};
  data.fingerprint = checksum(cat(data.train->fingerprint(), " ", options.mini_batch_words, " ", options.mini_batch,
                                  " ", options.maxi_batch, " ", config.optimizer_delay, " ", config.seed));
  return data;
}

void check_positions(const ModelConfig& model, int64_t longest, std::string_view option) {
  if (!has_learned_positions(model)) return;
  if (longest <= model.max_positions) return;
  throw Error(cat(option, ": the longest sentence has ", longest, " tokens with </s>, --max-positions are ",
                  model.max_positions, "; raise them or leave longer sentences out",
                  option == "--train-sets" ? cat(" (--max-length ", model.max_positions - 1, ")") : ""));
}

EncoderDecoderConfig with_vocabularies(EncoderDecoderConfig model, const TrainingData& data) {
  const std::vector<int64_t> sizes = {data.source_vocab.size(), data.target_vocab.size()};
  for (size_t i = 0; i < std::min(sizes.size(), model.dim_vocabs.size()); ++i) {
    const int64_t wanted = model.dim_vocabs[i], size = sizes[i];
    if (wanted != 0 && wanted != size) {
      throw Error(cat("--dim-vocabs: got ", wanted, ", but the vocabulary of --vocabs has ", size,
                      " pieces; leave the option out, its size is the vocabulary's"));
    }
  }
  model.dim_vocabs = sizes;
  const bool shared = model.tied_embeddings_all || model.tied_embeddings_src;
  if (shared && data.source_vocab.bytes() != data.target_vocab.bytes())
    throw Error(cat("--tied-embeddings-", model.tied_embeddings_all ? "all" : "src",
                    ": got two different --vocabs; give the same file twice or leave the option out"));
  return model;
}

}  // namespace fovea::translation
