#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fovea/text/terms.h"

namespace fovea::serve {

// The terms of a glossary for one pair of languages, which are in lower case.
struct GlossaryDictionary {
  std::string source, target;
  std::string entries;  // lines SOURCE<TAB>TARGET, as they came
  std::shared_ptr<const text::TermList> terms;
};

struct Glossary {
  std::string id, name;
  std::string created;  // "2026-11-26T05:33:00.000000Z"
  std::vector<GlossaryDictionary> dictionaries;

  // The dictionary of two languages; null if there is none. Their regions do not count.
  const GlossaryDictionary* find(const std::string& source, const std::string& target) const;
};

// The glossaries of DeepL's clients, for any thread. A folder keeps them: ID.SOURCE-TARGET.tsv has the lines of a
// dictionary, and ID.json the name and the time, which a file that somebody puts there may lack.
class Glossaries {
 public:
  Glossaries() = default;  // in memory alone
  // Reads the folder, and makes it if it is missing; "": in memory alone. Throws an Error that names the file that
  // cannot be read.
  explicit Glossaries(const std::string& folder);

  bool has_folder() const { return !folder_.empty(); }
  std::shared_ptr<const Glossary> find(const std::string& id) const;  // null if there is none
  std::vector<std::shared_ptr<const Glossary>> all() const;
  // Returns false, and takes nothing, if there are `most` already.
  bool add(std::shared_ptr<const Glossary> glossary, int64_t most);
  // Puts another form of a glossary in its place. Returns false if another thread has changed it since `before`.
  bool replace(const std::shared_ptr<const Glossary>& before, std::shared_ptr<const Glossary> after);
  void erase(const std::string& id);

 private:
  std::filesystem::path file_of(const Glossary& glossary, const GlossaryDictionary& dictionary) const;
  std::filesystem::path head_of(const Glossary& glossary) const;
  void read();
  void write(const Glossary& glossary) const;
  void remove(const std::filesystem::path& file) const;

  std::filesystem::path folder_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Glossary>> by_id_;
};

std::string time_text(int64_t seconds);  // as in Glossary::created

}  // namespace fovea::serve
