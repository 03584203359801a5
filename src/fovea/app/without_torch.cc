// The executable's half of torch.h. Functions that need libtorch have stand-ins here, which no command reaches, because
// each calls require_torch() first.
#include <cstdint>
#include <filesystem>
#include <ostream>

#include "fovea/app/analyze_spans.h"
#include "fovea/app/torch.h"
#include "fovea/models/clause_tagger.h"
#include "fovea/models/formats/convert.h"
#include "fovea/nn/checkpoint_average.h"
#include "fovea/serve/serve_options.h"
#include "fovea/tasks/bert/bertscore.h"
#include "fovea/tasks/bert/convert.h"
#include "fovea/tasks/bert/embed.h"
#include "fovea/tasks/language/convert.h"
#include "fovea/tasks/task_list.h"
#include "fovea/train/run_training.h"

namespace fovea {
using app::NeedsTorch;

void app::require_torch() { throw NeedsTorch(); }
std::span<const tasks::TaskEntry> app::task_list() { return tasks::kTaskList<tasks::OptionsAlone>; }

std::string app::build_info() { throw NeedsTorch(); }
std::string app::spans_text(const std::string& /*model*/, bool /*as_json*/) { throw NeedsTorch(); }

void nn::average_checkpoints(const AveragedCheckpoints& /*averaged*/, const std::filesystem::path& /*output*/) {
  throw NeedsTorch();
}
void serve::run_serve(const ServeOptions& /*options*/) { throw NeedsTorch(); }
void train::run_training(const Run& /*run*/) { throw NeedsTorch(); }
text::ClauseTagger models::load_clause_tagger(const std::string& /*model*/, const MachineOptions& /*machine*/,
                                              int64_t /*mini_batch_words*/) {
  throw NeedsTorch();
}
void models::convert(const ConvertOptions& /*options*/) { throw NeedsTorch(); }
void language::convert(const models::ConvertOptions& /*options*/) { throw NeedsTorch(); }
void bert::convert(const models::ConvertOptions& /*options*/) { throw NeedsTorch(); }
int64_t bert::embed(const EmbedOptions& /*options*/) { throw NeedsTorch(); }
void bert::evaluate_bertscore(const metrics::EvaluateOptions& /*evaluate*/, const BertScoreOptions& /*options*/,
                              std::ostream& /*out*/) {
  throw NeedsTorch();
}

}  // namespace fovea
