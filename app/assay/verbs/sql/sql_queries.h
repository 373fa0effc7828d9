// The named queries of `assay sql`: plain SQL against the tables that Nsight Systems' export has
// (and, for operators, steps and audit, ours), so that each can be copied and changed.
#pragma once

#include <string_view>
#include <vector>

namespace assay::cli {

struct NamedQuery {
  const char* name;
  const char* summary;
  const char* sql;
  const char* table;   // where its rows come from …
  const char* records; // … and what these are, for a trace that contains none
};

const std::vector<NamedQuery>& named_queries();
const NamedQuery* find_query(std::string_view name); // nullptr: no such query

} // namespace assay::cli
