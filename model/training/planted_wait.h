// The planted wait of attribution's own tests: 1 ms more in one stage of the step, on the device if
// the model runs there, or a sleep of the host between two stages.
#pragma once

#include "model/config/train_config.h"

namespace assay {

// Waits if the configuration plants its wait at `place`; a no-op otherwise. The caller is inside
// the stage's span.
void planted_wait(const TrainConfig& config, PlantedWait place);

} // namespace assay
