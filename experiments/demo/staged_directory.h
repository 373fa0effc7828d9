// StagedDirectory: results that appear in an empty or new directory once they are whole. They are
// made in a hidden folder inside it; of several writers one wins, and none removes another's files.
#pragma once

#include <string>

namespace assay {

class StagedDirectory {
public:
  // Makes the target if it is missing. Throws bad input where it is no directory, or holds
  // something.
  explicit StagedDirectory(const std::string& target);
  ~StagedDirectory(); // not placed: everything that it made is removed
  StagedDirectory(const StagedDirectory&) = delete;
  StagedDirectory& operator=(const StagedDirectory&) = delete;

  const std::string& path() const { return path_; } // to write into
  // Moves everything into the target, `first` before the others. Throws bad input when another
  // writer was faster.
  void place(const std::string& first);

private:
  std::string target_, path_;
  bool made_target_ = false;
};

} // namespace assay
