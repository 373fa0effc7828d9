// How `assay sql` prints the rows of a query. A limit of 0 is none.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "app/assay/output/terminal.h"
#include "core/sqlite/database.h"

namespace assay::cli {

// One object a line inside the array: large results need no memory.
void print_json_rows(Statement& rows, std::int64_t limit);
void print_csv(Statement& rows, std::int64_t limit);
// Lines of the style's width; 100 rows without a limit. `why_empty`: ": this trace contains no …",
// or "", asked for where there are no rows.
void print_table(Statement& rows,
                 std::optional<std::int64_t> limit,
                 const TableStyle& style,
                 const std::function<std::string()>& why_empty);

} // namespace assay::cli
