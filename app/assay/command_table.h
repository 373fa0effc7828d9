// Help for each command beyond its own definition: its group, examples, and the names
// of its options' values, which completion offers.
#pragma once

#include <CLI/CLI.hpp>

namespace assay::cli {

// After every command was added. Throws internal error for a command without a row.
void describe_commands(CLI::App& app);

} // namespace assay::cli
