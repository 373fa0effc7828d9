#include "experiments/export/trace_cursor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace assay {

namespace {

// A start of 0: the source lost the time stamp.
constexpr const char* kWhere =
    " WHERE start >= ?1 AND start < ?2 AND start <> 0 ORDER BY start, end DESC";

// Columns: start, end, globalTid, name, then what the kind adds (read_host()).
constexpr std::pair<HostRow, const char*> kHostTables[] = {
    {HostRow::Step, "SELECT start, end, globalTid, step FROM ASSAY_STEP"},
    {HostRow::Range, "SELECT start, end, globalTid, textId, eventType FROM NVTX_EVENTS"},
    {HostRow::Operator,
     "SELECT start, end, globalTid, nameId, sequence, backward FROM ASSAY_OPERATOR"},
    {HostRow::Api,
     "SELECT start, end, globalTid, nameId, eventClass, correlationId FROM "
     "CUPTI_ACTIVITY_KIND_RUNTIME"},
    {HostRow::Overhead, "SELECT start, end, globalTid, nameId FROM PROFILER_OVERHEAD"}};

constexpr std::pair<DeviceKind, const char*> kDeviceTables[] = {
    {DeviceKind::Kernel,
     "SELECT start, end, deviceId, contextId, streamId, correlationId, graphNodeId, demangledName, "
     "shortName, registersPerThread, staticSharedMemory, dynamicSharedMemory, gridX, gridY, gridZ, "
     "blockX, blockY, blockZ FROM CUPTI_ACTIVITY_KIND_KERNEL"},
    {DeviceKind::Copy,
     "SELECT start, end, deviceId, contextId, streamId, correlationId, graphNodeId, bytes, "
     "copyKind, srcKind, dstKind FROM CUPTI_ACTIVITY_KIND_MEMCPY"},
    {DeviceKind::Set,
     "SELECT start, end, deviceId, contextId, streamId, correlationId, graphNodeId, bytes, value, "
     "memKind FROM CUPTI_ACTIVITY_KIND_MEMSET"}};

void read_host(const Statement& row, HostItem& item) {
  item.start = row.integer(0);
  item.end = row.integer(1);
  item.global_tid = row.integer(2);
  item.name = row.integer(3);
  if (item.kind == HostRow::Range || item.kind == HostRow::Api)
    item.event_class = static_cast<std::uint8_t>(row.integer(4));
  if (item.kind == HostRow::Api) item.correlation = static_cast<std::uint32_t>(row.integer(5));
  if (item.kind == HostRow::Operator) {
    item.sequence = row.maybe_integer(4).value_or(-1);
    item.backward = row.integer(5) != 0;
  }
}

void read_device(const Statement& row, DeviceItem& item) {
  item.start = row.integer(0);
  item.end = row.integer(1);
  item.device = row.integer(2);
  item.context = row.integer(3);
  item.stream = row.integer(4);
  item.correlation = static_cast<std::uint32_t>(row.integer(5));
  item.graph_node = row.integer(6);
  if (item.kind == DeviceKind::Kernel) {
    item.name = row.integer(7);
    item.short_name = row.integer(8);
    item.registers_per_thread = row.integer(9);
    item.static_shared = row.integer(10);
    item.dynamic_shared = row.integer(11);
    for (int i = 0; i < 3; ++i) {
      item.grid[static_cast<std::size_t>(i)] = row.integer(12 + i);
      item.block[static_cast<std::size_t>(i)] = row.integer(15 + i);
    }
    return;
  }
  item.bytes = row.integer(7);
  if (item.kind == DeviceKind::Copy) {
    item.copy_kind = row.integer(8);
    item.src_kind = row.integer(9);
    item.dst_kind = row.integer(10);
  } else {
    item.value = row.integer(8);
    item.dst_kind = row.integer(9);
  }
}

// The source whose item starts first, and of these the longest; nullptr at the end of all.
template <class Sources> auto* earliest(Sources& sources) {
  typename Sources::value_type* best = nullptr;
  for (auto& source : sources) {
    if (source.done) continue;
    if (best == nullptr || source.item.start < best->item.start ||
        (source.item.start == best->item.start && source.item.end > best->item.end))
      best = &source;
  }
  return best;
}

const char* memory_kind(std::int64_t kind) {
  constexpr const char* kNames[] = {
      "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"};
  return kind >= 0 && kind < 7 ? kNames[kind] : "Unknown";
}

} // namespace

HostCursor::HostCursor(const Database& database, TimeRange range) {
  sources_.reserve(std::size(kHostTables));
  for (const auto& [kind, select] : kHostTables) {
    Statement statement = database.prepare(std::string(select) + kWhere);
    statement.bind(1, range.begin).bind(2, range.end);
    sources_.push_back({kind, std::move(statement), HostItem{.kind = kind}, false});
    advance(sources_.back());
  }
}

void HostCursor::advance(Source& source) {
  source.done = !source.statement.step();
  if (!source.done) read_host(source.statement, source.item);
}

bool HostCursor::next(HostItem& item) {
  Source* source = earliest(sources_);
  if (source == nullptr) return false;
  item = source->item;
  advance(*source);
  return true;
}

DeviceWindow device_window(const Database& database, TimeRange range) {
  if (range.begin == TimeRange{}.begin && range.end == TimeRange{}.end) return {};
  const auto bound = [&](const char* sql, std::int64_t time) {
    Statement s = database.prepare(sql);
    s.bind(1, time).step();
    return s.maybe_integer(0);
  };
  if (database.integer("SELECT EXISTS (SELECT 1 FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE "
                       "correlationId > 0)") == 0)
    return {"start <> 0 AND start >= ?1 AND start <= ?2", std::pair(range.begin, range.end - 1)};
  const auto before = bound("SELECT max(correlationId) FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE "
                            "start < ?1 AND start <> 0",
                            range.begin);
  const auto after = bound("SELECT min(correlationId) FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE "
                           "start >= ?1 AND correlationId > 0",
                           range.end);
  return {"start <> 0 AND correlationId BETWEEN ?1 AND ?2",
          std::pair(before.value_or(0) + 1, after.value_or(std::int64_t{UINT32_MAX} + 1) - 1)};
}

Statement DeviceWindow::prepare(const Database& database,
                                const std::string& select,
                                const char* order) const {
  Statement statement = database.prepare(fmt::format("{} WHERE {}{}", select, condition, order));
  if (bounds) statement.bind(1, bounds->first).bind(2, bounds->second);
  return statement;
}

DeviceCursor::DeviceCursor(const Database& database, TimeRange range) {
  sources_.reserve(std::size(kDeviceTables));
  const DeviceWindow window = device_window(database, range);
  for (const auto& [kind, select] : kDeviceTables) {
    sources_.push_back({kind,
                        window.prepare(database, select, " ORDER BY start, end DESC"),
                        DeviceItem{.kind = kind},
                        false});
    advance(sources_.back());
  }
}

void DeviceCursor::advance(Source& source) {
  source.done = !source.statement.step();
  if (!source.done) read_device(source.statement, source.item);
}

bool DeviceCursor::next(DeviceItem& item) {
  Source* source = earliest(sources_);
  if (source == nullptr) return false;
  item = source->item;
  advance(*source);
  return true;
}

std::string copy_name(std::int64_t copy_kind, std::int64_t src_kind, std::int64_t dst_kind) {
  constexpr const char* kNames[] = {
      "?", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
  const char* kind = copy_kind > 0 && copy_kind < 11 ? kNames[copy_kind] : kNames[0];
  return fmt::format("Memcpy {} ({} -> {})", kind, memory_kind(src_kind), memory_kind(dst_kind));
}

std::string set_name(std::int64_t kind) {
  return fmt::format("Memset ({})", memory_kind(kind));
}

} // namespace assay
