#pragma once

// Names in a run's folder, beside the checkpoints.
namespace fovea {

inline constexpr const char* kRunConfigFile = "train.yml";   // the options of the latest `fovea train` in the folder
inline constexpr const char* kRunRecordFile = "log.jsonl";   // what was measured, see train/run_record.h
inline constexpr const char* kEventsFolder = "tensorboard";  // with --tensorboard

}  // namespace fovea
