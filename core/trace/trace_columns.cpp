// The columns of every table of rows, in the order of trace_schema.cpp.
#include <bit>

#include "core/trace/trace_table.h"

namespace assay {

namespace {

using Kind = RowColumn::Kind;

template <class Row, auto Get> std::int64_t get_of(const void* row) {
  return Get(*static_cast<const Row*>(row));
}

template <class Row, auto Get> bool is_uniform(const void* rows, std::size_t count) {
  const Row* row = static_cast<const Row*>(rows);
  const std::int64_t first = Get(row[0]);
  for (std::size_t i = 1; i < count; ++i)
    if (Get(row[i]) != first) return false;
  return true;
}

// `Get`: the value of a row, as a lambda without captures.
template <class Row, auto Get>
RowColumn made(const char* name, Kind kind = Kind::Number, std::int64_t absent = 0) {
  return {name, nullptr, kind, absent, get_of<Row, Get>, is_uniform<Row, Get>};
}

template <class Row, auto Member>
RowColumn num(const char* name, Kind kind = Kind::Number, std::int64_t absent = 0) {
  constexpr auto kGet = [](const Row& row) { return static_cast<std::int64_t>(row.*Member); };
  return made<Row, kGet>(name, kind, absent);
}

template <class Row, auto Member> RowColumn opt(const char* name, std::int64_t absent = 0) {
  return num<Row, Member>(name, Kind::NumberOrNull, absent);
}

template <class Row, auto Member, std::size_t Index> RowColumn element(const char* name) {
  constexpr auto kGet = [](const Row& row) { return std::int64_t{(row.*Member)[Index]}; };
  return made<Row, kGet>(name);
}

RowColumn constant(const char* name, const char* expression) {
  RowColumn column;
  column.name = name;
  column.constant = expression;
  return column;
}

RowColumn none(const char* name) {
  return constant(name, "NULL");
}

template <class Row> std::vector<RowColumn> interval() {
  return {num<Row, &Row::start>("start", Kind::Time), num<Row, &Row::end>("end", Kind::Time)};
}

// start, end, deviceId … globalPid: how every table of device activity begins.
template <class Row> std::vector<RowColumn> device_columns() {
  std::vector<RowColumn> columns = interval<Row>();
  columns.insert(columns.end(),
                 {num<Row, &Row::device>("deviceId"),
                  num<Row, &Row::context>("contextId"),
                  none("greenContextId"),
                  num<Row, &Row::stream>("streamId"),
                  num<Row, &Row::correlation>("correlationId"),
                  constant("globalPid", kProcess)});
  return columns;
}

template <class Row>
RowTable make(const char* name, std::vector<RowColumn> first, std::vector<RowColumn> rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return {name, sizeof(Row), std::move(first)};
}

} // namespace

template <> RowTable row_table<KernelRow>() {
  using R = KernelRow;
  return make<R>("CUPTI_ACTIVITY_KIND_KERNEL",
                 device_columns<R>(),
                 {num<R, &R::demangled>("demangledName"),
                  num<R, &R::short_name>("shortName"),
                  opt<R, &R::mangled>("mangledName"),
                  num<R, &R::launch_type>("launchType"),
                  num<R, &R::cache_config>("cacheConfig"),
                  num<R, &R::registers_per_thread>("registersPerThread"),
                  element<R, &R::grid, 0>("gridX"),
                  element<R, &R::grid, 1>("gridY"),
                  element<R, &R::grid, 2>("gridZ"),
                  element<R, &R::block, 0>("blockX"),
                  element<R, &R::block, 1>("blockY"),
                  element<R, &R::block, 2>("blockZ"),
                  num<R, &R::static_shared_bytes>("staticSharedMemory"),
                  num<R, &R::dynamic_shared_bytes>("dynamicSharedMemory"),
                  num<R, &R::local_bytes_per_thread>("localMemoryPerThread"),
                  num<R, &R::local_bytes_total>("localMemoryTotal"),
                  num<R, &R::grid_id>("gridId"),
                  num<R, &R::shared_executed_bytes>("sharedMemoryExecuted"),
                  opt<R, &R::graph_node>("graphNodeId"),
                  none("sharedMemoryLimitConfig"),
                  none("qmdBulkReleaseDone"),
                  none("qmdPreexitDone"),
                  none("qmdLastCtaDone"),
                  opt<R, &R::graph>("graphId"),
                  element<R, &R::cluster, 0>("clusterX"),
                  element<R, &R::cluster, 1>("clusterY"),
                  element<R, &R::cluster, 2>("clusterZ"),
                  none("clusterSchedulingPolicy"),
                  none("maxPotentialClusterSize"),
                  none("maxActiveClusters"),
                  none("sharedMemoryRequestedPercentage"),
                  constant("tensorSizeMinusOneElements", "''")});
}

template <> RowTable row_table<CopyRow>() {
  using R = CopyRow;
  return make<R>("CUPTI_ACTIVITY_KIND_MEMCPY",
                 device_columns<R>(),
                 {num<R, &R::bytes>("bytes"),
                  num<R, &R::copy_kind>("copyKind"),
                  none("deprecatedSrcId"),
                  num<R, &R::src_kind>("srcKind"),
                  num<R, &R::dst_kind>("dstKind"),
                  opt<R, &R::src_device>("srcDeviceId", -1),
                  none("srcContextId"),
                  opt<R, &R::dst_device>("dstDeviceId", -1),
                  none("dstContextId"),
                  none("migrationCause"),
                  opt<R, &R::graph_node>("graphNodeId"),
                  none("virtualAddress"),
                  none("copyCount")});
}

template <> RowTable row_table<SetRow>() {
  using R = SetRow;
  return make<R>("CUPTI_ACTIVITY_KIND_MEMSET",
                 device_columns<R>(),
                 {num<R, &R::value>("value"),
                  num<R, &R::bytes>("bytes"),
                  opt<R, &R::graph_node>("graphNodeId"),
                  num<R, &R::memory_kind>("memKind")});
}

template <> RowTable row_table<ApiRow>() {
  using R = ApiRow;
  return make<R>("CUPTI_ACTIVITY_KIND_RUNTIME",
                 interval<R>(),
                 {num<R, &R::event_class>("eventClass"),
                  num<R, &R::global_tid>("globalTid"),
                  num<R, &R::correlation>("correlationId"),
                  num<R, &R::name>("nameId"),
                  num<R, &R::return_value>("returnValue"),
                  none("callchainId")});
}

template <> RowTable row_table<SyncRow>() {
  using R = SyncRow;
  return make<R>("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
                 device_columns<R>(),
                 {none("deprecatedSyncType"),
                  num<R, &R::sync_type>("syncType"),
                  num<R, &R::event_id>("eventId"),
                  none("eventSyncId")});
}

template <> RowTable row_table<OverheadRow>() {
  using R = OverheadRow;
  // CUPTI's kinds are 1, 1 << 16, 2 << 16 …; stored 1, 2, 3 …
  constexpr auto kType = [](const R& row) {
    return std::int64_t{row.type < 0x10000 ? row.type : (row.type >> 16) + 1};
  };
  return make<R>("PROFILER_OVERHEAD",
                 interval<R>(),
                 {num<R, &R::global_tid>("globalTid"),
                  num<R, &R::name>("nameId"),
                  constant("returnValue", "0"),
                  made<R, kType>("overheadType")});
}

template <> RowTable row_table<RangeRow>() {
  using R = RangeRow;
  return make<R>("NVTX_EVENTS",
                 {num<R, &R::start>("start", Kind::Time), num<R, &R::end>("end", Kind::TimeOrNull)},
                 {num<R, &R::event_type>("eventType"),
                  none("rangeId"),
                  none("category"),
                  none("color"),
                  none("text"), // it is in textId; people write COALESCE(text, StringIds.value)
                  num<R, &R::global_tid>("globalTid"),
                  none("endGlobalTid"),
                  num<R, &R::text>("textId"),
                  num<R, &R::domain>("domainId"),
                  none("uint64Value"),
                  none("int64Value"),
                  none("doubleValue"),
                  none("uint32Value"),
                  none("int32Value"),
                  none("floatValue"),
                  none("jsonTextId"),
                  none("jsonText"),
                  none("binaryData")});
}

template <> RowTable row_table<OperatorRow>() {
  using R = OperatorRow;
  return make<R>("ASSAY_OPERATOR",
                 interval<R>(),
                 {num<R, &R::global_tid>("globalTid"),
                  num<R, &R::name>("nameId"),
                  opt<R, &R::sequence>("sequence", -1),
                  opt<R, &R::forward_thread>("forwardThread"),
                  num<R, &R::backward>("backward")});
}

template <> RowTable row_table<StepRow>() {
  using R = StepRow;
  std::vector<RowColumn> columns{num<R, &R::step>("step")};
  for (const RowColumn& column : interval<R>()) columns.push_back(column);
  return make<R>("ASSAY_STEP",
                 std::move(columns),
                 {num<R, &R::round>("round"),
                  num<R, &R::position>("position"),
                  num<R, &R::counted>("counted"),
                  num<R, &R::tokens>("tokens"),
                  num<R, &R::global_tid>("globalTid")});
}

template <> RowTable row_table<TelemetryRow>() {
  using R = TelemetryRow;
  constexpr auto kBits = [](const R& row) { return std::bit_cast<std::int64_t>(row.value); };
  return make<R>("GPU_METRICS",
                 {num<R, &R::time>("rawTimestamp"), num<R, &R::time>("timestamp", Kind::Time)},
                 {constant("typeId", "0"),
                  num<R, &R::metric>("metricId"),
                  made<R, kBits>("value", Kind::Real)});
}

} // namespace assay
