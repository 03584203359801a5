#include "fovea/app/commands.h"

#include <array>

#include "fovea/app/task_commands.h"

namespace fovea::app {

using Run = int(const std::vector<std::string>&);
Run run_analyze, run_average, run_clauses, run_convert, run_corpus, run_curves, run_embed, run_evaluate, run_info,
    run_kernels, run_serve, run_spec, run_train, run_vocab;

namespace {

template <CommandMaker maker>
int run_of_task(const std::vector<std::string>& arguments) {
  return run_task_command(maker, arguments);
}

}  // namespace

std::span<const Command> commands() {
  static constexpr std::array kCommands = {
      Command{"corpus", "clean parallel text and split it for training", run_corpus},
      Command{"clauses", "split sentences into clauses, label signal words", run_clauses},
      Command{"vocab", "learn a SentencePiece vocabulary", run_vocab},
      Command{"train", "train a model: translation, language, images, tagging, captions", run_train},
      Command{"average", "average the last checkpoints of a run", run_average},
      Command{"info", "what a model is: task, size, mechanisms, data, best values", run_info},
      Command{"curves", "draw the loss and the measures of runs", run_curves},
      Command{"translate", "translate lines of text", run_of_task<&tasks::TaskEntry::translate>},
      Command{"serve", "answer the clients of LibreTranslate, DeepL and OpenAI", run_serve},
      Command{"caption", "write captions of images", run_of_task<&tasks::TaskEntry::caption>},
      Command{"generate", "make text or images with a model", run_of_task<&tasks::TaskEntry::generate>},
      Command{"tag", "label the words of sentences: names, parts of speech", run_of_task<&tasks::TaskEntry::tag>},
      Command{"score", "how probable a text or an image is under a model, or how good its labels",
              run_of_task<&tasks::TaskEntry::score>},
      Command{"evaluate", "BLEU, chrF, TER and BERTScore of translations, CIDEr of captions", run_evaluate},
      Command{"analyze", "what a model's attention does, in figures and pictures", run_analyze},
      Command{"report", "a page of a model's attention for a browser", run_of_task<&tasks::TaskEntry::report>},
      Command{"align", "word alignments out of a model's attention, and their error",
              run_of_task<&tasks::TaskEntry::align>},
      Command{"filter", "tell good sentence pairs from bad ones by a model", run_of_task<&tasks::TaskEntry::filter>},
      Command{"convert", "read and write models of Marian, Hugging Face, CTranslate2 and BERT", run_convert},
      Command{"embed", "vectors of text out of an encoder", run_embed},
      Command{"spec", "print and draw an attention mechanism", run_spec},
      Command{"kernels", "list the attention kernels, or explain the choice", run_kernels},
  };
  return kCommands;
}

}  // namespace fovea::app
