// What the screen says, as JSON: for --dump-model, tests and screen readers.
#pragma once

#include <string>

#include "ui/verdict_model.h"

namespace assay {

std::string to_json_text(const VerdictModel& model);

} // namespace assay
