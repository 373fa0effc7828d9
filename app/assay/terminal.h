// How this terminal shows text: width, Unicode, colour.
#pragma once

#include "experiments/report/render.h"

namespace assay::cli {

// `width` > 0 and `ascii` override what the terminal and the locale say.
TableStyle terminal_style(bool ascii, int width);

} // namespace assay::cli
