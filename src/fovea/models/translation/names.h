#pragma once

namespace fovea::translation {

inline constexpr const char* kTask = "translation";
inline constexpr const char* kSourceVocabFile = "source.spm";  // in a checkpoint
inline constexpr const char* kTargetVocabFile = "target.spm";

}  // namespace fovea::translation
