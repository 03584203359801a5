#pragma once
#include <filesystem>
#include <string_view>
#include <vector>

// std::filesystem's questions and changes, with an Error of one line for what the system refuses (a folder without
// permission, a loop of links, a name that is too long). `what` begins it: the option that named the path.
namespace fovea::nn {

bool path_exists(const std::filesystem::path& path, std::string_view what);
bool is_folder(const std::filesystem::path& path, std::string_view what);

// In the order of their names; none if `folder` is not a folder.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder, std::string_view what);

// The path at which writing to `path` ends up: absolute, links followed, no slash at the end. Nothing need be there.
std::filesystem::path resolved_path(const std::filesystem::path& path, std::string_view what);

void rename_path(const std::filesystem::path& from, const std::filesystem::path& to, std::string_view what);
void remove_path(const std::filesystem::path& path, std::string_view what);  // with all that is in it

// Renames `path` to the first of path.1, path.2 ... that is free, and returns that name.
std::filesystem::path move_aside(const std::filesystem::path& path, std::string_view what);

}  // namespace fovea::nn
