#include "experiments/attribution/graph_nodes.h"

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "experiments/attribution/stage_timeline.h"

namespace assay {

namespace {

using Table = std::vector<Stage>; // by place

// The innermost span that names a stage.
Stage stage_of_path(std::string_view path) {
  while (!path.empty()) {
    const std::size_t cut = path.rfind('>');
    if (const auto stage =
            stage_of_span(cut == std::string_view::npos ? path : path.substr(cut + 1)))
      return *stage;
    path = cut == std::string_view::npos ? std::string_view() : path.substr(0, cut);
  }
  return Stage::Graph;
}

constexpr std::int64_t kMostNodes = 10'000'000; // a damaged file asks for no more

std::optional<Table> table_of(const nlohmann::json& runs) {
  Table table;
  if (!runs.is_array()) return std::nullopt;
  for (const nlohmann::json& run : runs) {
    if (!run.is_array() || run.size() != 2 || !run[0].is_string() || !run[1].is_number_integer())
      return std::nullopt;
    const auto nodes = run[1].get<std::int64_t>();
    if (nodes < 0 || nodes > kMostNodes) return std::nullopt;
    table.insert(
        table.end(), static_cast<std::size_t>(nodes), stage_of_path(run[0].get<std::string>()));
  }
  return table;
}

// By number of nodes; empty: graphs of that many nodes have different stages.
std::map<std::size_t, Table> tables_of(const Trace& trace) {
  std::map<std::size_t, Table> tables;
  const nlohmann::json all = nlohmann::json::parse(trace.value(kGraphNodesInfo), nullptr, false);
  if (!all.is_array()) return tables;
  for (const nlohmann::json& runs : all) {
    std::optional<Table> table = table_of(runs);
    if (!table) continue;
    const auto [place, added] = tables.emplace(table->size(), *table);
    if (!added && place->second != *table) place->second.clear();
  }
  return tables;
}

} // namespace

GraphNodes::GraphNodes(const Trace& trace) : stages_(trace.device.size(), Stage::Graph) {
  // A replay is one launch. Its nodes are a chain, so its records have their order by start.
  std::map<std::pair<std::uint16_t, std::uint32_t>, std::vector<std::size_t>> replays;
  for (std::size_t i = 0; i < trace.device.size(); ++i)
    if (const DeviceEvent& event = trace.device[i]; event.graph)
      replays[{event.device, event.correlation}].push_back(i);
  if (replays.empty()) return;
  const std::map<std::size_t, Table> tables = tables_of(trace);
  for (const auto& [launch, events] : replays) {
    const auto table = tables.find(events.size());
    if (table == tables.end() || table->second.empty()) continue;
    for (std::size_t place = 0; place < events.size(); ++place)
      stages_[events[place]] = table->second[place];
  }
}

} // namespace assay
