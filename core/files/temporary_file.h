// TemporaryFile: a file beside the one that it will become. Its name is new (O_EXCL, O_NOFOLLOW),
// so that two writers of one name, or a link laid out by somebody else, never meet.
#pragma once

#include <string>

namespace assay {

// Whether a file of this name is what a TemporaryFile makes: ".<name>.<random>.partial".
bool is_temporary_name(const std::string& name);

class TemporaryFile {
public:
  // Creates ".<name>.<random>.partial" in the directory of `target`, and removes those that dead
  // writers of the same target left. error() reports whether it could.
  explicit TemporaryFile(const std::string& target);
  ~TemporaryFile(); // not placed: removed
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  int error() const { return error_; } // of creation, as errno; 0: none
  int descriptor() const { return descriptor_; }
  const std::string& path() const { return path_; }

  // Takes the target's place. `durable`: content and name are synced to disk. Answers an errno or
  // 0; after an error the file is gone and the target is what it was.
  int place(bool durable);

private:
  std::string target_, path_;
  int descriptor_ = -1, error_ = 0;
};

} // namespace assay
