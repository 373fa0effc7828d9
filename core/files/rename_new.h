// Renaming that never replaces.
#pragma once

#include <filesystem>

namespace assay {

// Gives `from` the name `to` if nothing has it yet. Returns 0, or the error number: EEXIST where
// something is there. On a file system that cannot do this in one step it looks first.
int rename_new(const std::filesystem::path& from, const std::filesystem::path& to);

} // namespace assay
