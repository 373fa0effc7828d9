// Who may write a results directory: a lock file that the kernel frees when its holder dies, and
// that names the holder.
#pragma once

#include <string>

namespace assay {

// Takes the lock for the life of the returned file descriptor. Throws Failure with the holder's
// process, command and host when it is taken.
int lock_directory(const std::string& directory);

// Makes a results directory or a folder inside it, parents included; throws bad input otherwise.
void make_directory(const std::string& directory);

// What the holder does between launches, for lock_holder_activity(); "": nothing to tell. `lock` is
// lock_directory()'s.
void tell_activity(int lock, const std::string& activity);

// "process 123 (assay run …) on host", or "" when nobody has the lock. For `assay status`.
std::string lock_holder(const std::string& directory);
// What the holder has told, or "".
std::string lock_holder_activity(const std::string& directory);

} // namespace assay
