#pragma once
#include <string_view>

// The files of the folder page/, which the build puts into the program.
namespace fovea::analysis {

extern const std::string_view kReportTemplate, kReportStyle, kReportScript;

}  // namespace fovea::analysis
