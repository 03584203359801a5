#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "fovea/base/aside.h"

// Puts content that was written aside in place of what is there, and tidies up after processes that were killed
// meanwhile.
namespace fovea {

// A file or folder that replaces what is at `target`. The new content lies in a marked folder beside the target, and
// the old content is moved there.
struct Replacement {
  std::filesystem::path target, shown;  // `shown` is the name that the user knows
  MarkedFolder* aside;
  std::string number = "1";  // tells apart what lies in one marked folder
  bool has_old = false, is_in_place = false;

  std::filesystem::path written() const;
  std::filesystem::path old() const;
};

// Puts all new content in place, synced: at no moment old content stands beside new, and if the process is killed, the
// next call puts all old content back, or the rest of the new. If one rename fails, all old content is put back, and
// this throws. In this time a list of the targets lies in the first marked folder, and the others name the list.
void replace_together(std::vector<Replacement>& all);

// Ends, or takes back, the replacements in these folders during which a process was killed. A command that replaces
// something calls this before its work: then all is whole even if the command fails. Nothing that is in place by now is
// replaced. A list that names a file of another folder stays: the folder may come from someone else.
void finish_killed_replacements(std::span<const std::filesystem::path> folders);

// Finishes killed replacements, and removes all else that ended processes left aside in these folders.
void remove_leftovers(std::span<const std::filesystem::path> folders);

// Does so for one folder. A second call takes no time if the first found nothing.
void remove_leftovers_once(const std::filesystem::path& folder);

}  // namespace fovea
