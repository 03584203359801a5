// The pieces of each sentence pair that training takes, source and target with their </s>, one pair per line: what
// another system needs for batches of the same lengths. Usage: piece_counts VOCAB SOURCE TARGET MAX_LENGTH
#include <cstdint>
#include <cstdio>

#include "arguments.h"
#include "fovea/data/corpus.h"
#include "fovea/text/vocab.h"

int main(int argc, char** argv) {
  return fovea::bench::exit_status("piece_counts", [&] {
    if (argc != 5)
      throw fovea::UsageError(fovea::cat("got ", argc - 1, " arguments, expected VOCAB SOURCE TARGET MAX_LENGTH"));
    const int64_t max_length = fovea::bench::whole_number(argv[4], "MAX_LENGTH", 1'000'000);
    const fovea::text::Vocab vocab = fovea::text::Vocab::load(argv[1]);
    const fovea::data::ParallelCorpus corpus =
        fovea::data::load_corpus(argv[2], argv[3], vocab, vocab, {.max_length = max_length});
    for (int64_t i = 0; i < corpus.size(); ++i) {
      std::printf("%ld %ld\n", static_cast<long>(corpus.source_length(i)), static_cast<long>(corpus.target_length(i)));
    }
  });
}
