#include "app/assay/version.h"

#include <fmt/format.h>

#include "core/build_id.h"

namespace assay::cli {

std::string build_name() {
  const std::string id = linker_build_id();
  return id.empty() ? "unknown" : id;
}

std::string version_line() {
  return fmt::format(
      "assay {} (commit {}, build {})", ASSAY_VERSION, kCommit, build_name().substr(0, 12));
}

} // namespace assay::cli
