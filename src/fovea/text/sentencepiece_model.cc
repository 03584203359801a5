#include "fovea/text/sentencepiece_model.h"

#include "fovea/text/protobuf.h"

namespace fovea::text {
namespace {

void read_trainer_spec(std::string_view message, ModelSpec& spec) {
  all_protobuf_fields(message, [&](const ProtobufField& field) {
    if (field.number == proto::kModelType && field.value && *field.value >= 1 && *field.value <= 4)
      spec.type = static_cast<VocabType>(*field.value);
    return true;
  });
}

void read_normalizer_spec(std::string_view message, ModelSpec& spec) {
  all_protobuf_fields(message, [&](const ProtobufField& field) {
    if (field.number == proto::kDummyPrefix && field.value) spec.add_dummy_prefix = *field.value != 0;
    if (field.number == proto::kRemoveBlanks && field.value) spec.remove_extra_whitespaces = *field.value != 0;
    if (field.number == proto::kCharsmap && field.bytes) spec.has_charsmap = !field.bytes->empty();
    return true;
  });
}

}  // namespace

ModelSpec read_model_spec(std::string_view model) {
  ModelSpec spec;
  all_protobuf_fields(model, [&](const ProtobufField& field) {
    if (field.number == proto::kTrainerSpec && field.bytes) read_trainer_spec(*field.bytes, spec);
    if (field.number == proto::kNormalizerSpec && field.bytes) read_normalizer_spec(*field.bytes, spec);
    return true;
  });
  return spec;
}

}  // namespace fovea::text
