#include "ui/workspace.h"

namespace assay {

void load(Workspace& workspace) {
  workspace.model = verdict_model(read_ledger(workspace.directory));
  select_row(workspace, 0);
}

void select_row(Workspace& workspace, std::ptrdiff_t step) {
  const auto last = static_cast<std::ptrdiff_t>(workspace.model.rows.size()) - 1;
  const auto wanted = static_cast<std::ptrdiff_t>(workspace.selected) + step;
  workspace.selected =
      static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, std::min(wanted, last)));
  workspace.scroll_to_selected = true;
}

void set_scale(Workspace& workspace, float scale) {
  workspace.scale = std::clamp(scale, kMinScale, kMaxScale);
}

} // namespace assay
