#include "experiments/evidence/owed/continuation.h"

namespace assay {

std::string measured_build(const LedgerData& data) {
  for (const LaunchRow& launch : data.launches)
    if (!launch.identity.build.empty()) return launch.identity.build;
  return "";
}

std::string why_not_continued(const SpecRow& spec) {
  if (spec.schema >= kLedgerSchema) return "";
  return fmt::format("an older Assay wrote them (ledger schema {}, this build writes {})",
                     spec.schema,
                     kLedgerSchema);
}

std::string why_not_continued(const LedgerData& data, const std::string& worker_build) {
  std::string why = why_not_continued(data.spec);
  const std::string build = measured_build(data);
  if (why.empty() && !worker_build.empty() && !build.empty() && build != worker_build)
    why = fmt::format("build {} measured them, and the worker is build {}", build, worker_build);
  return why;
}

} // namespace assay
