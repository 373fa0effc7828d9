// Colours of stages and kernel classes: fixed, the same in both themes, so that a stage keeps its
// colour in everybody's memory.
#pragma once

#include "ui/model/trace/trace_view.h"
#include "ui/style/theme.h"

namespace assay {

Color stage_color(Stage stage);
Color kernel_color(KernelClass kind);
// By TraceView::tag.
Color tag_color(Source source, std::uint8_t tag);
// Of an event of the timeline: its tag's; names of one class differ in lightness only.
Color event_color(const TraceView& view, EventRef event);
// Black or white, whichever can be read on it (contrast at least 4.5:1 on any colour).
Color readable_on(Color background);

} // namespace assay
