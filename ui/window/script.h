// Scripts: a session with keyboard and mouse as text, one action a line, against the data that the
// screens show. For tests, for pictures, and for demonstrations.
//   key Ctrl+P          click 400 300 | click waterfall.backward      doubleclick …
//   type words          move X Y       wheel 1       drag X Y X Y     run COMMAND
//   shot FILE.png       expect model.rows.0.status=added              expect model.title~words
// Empty lines and lines that begin with # are skipped.
#pragma once

#include <cstdint>
#include <string>

#include "core/result.h"

namespace assay {

class Surface;
struct Workspace;

// Runs every line; the error names the line that failed. `name`: of the script, for the error.
// Returns how many actions (keys, clicks, drags, wheel turns, commands) it took.
Result<int> run_script(Workspace& workspace,
                       Surface& surface,
                       const std::string& script,
                       const std::string& name);

// `count` random commands, each followed by a frame. Files are not opened, pictures not written.
void run_random_commands(Workspace& workspace, Surface& surface, int count, std::uint64_t seed);

} // namespace assay
