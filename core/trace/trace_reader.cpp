// Reading a trace file into memory: few columns of each table, every list ordered by start.
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_map>

#include "core/sqlite/database.h"
#include "core/trace/trace_file.h"
#include "core/trace/trace_schema.h"

namespace assay {

namespace {

constexpr int kLongestValue = 64 << 20; // bytes; a longer one is damage
// ns from the start of the trace, 104 days: a later or earlier time is damage, and sums of many
// fit.
constexpr std::int64_t kLongestTime = std::int64_t{1} << 53;

// What the timeline calls copies, by ENUM_CUDA_MEMCPY_OPER, and waits, by ENUM_CUPTI_SYNC_TYPE.
constexpr std::array<const char*, 11> kCopyNames{"Memcpy",
                                                 "Memcpy HtoD",
                                                 "Memcpy DtoH",
                                                 "Memcpy HtoA",
                                                 "Memcpy AtoH",
                                                 "Memcpy AtoA",
                                                 "Memcpy AtoD",
                                                 "Memcpy DtoA",
                                                 "Memcpy DtoD",
                                                 "Memcpy HtoH",
                                                 "Memcpy PtoP"};
constexpr std::array<const char*, 5> kSyncNames{
    "Sync", "Event sync", "Stream wait sync", "Stream sync", "Context sync"};

std::int64_t time_of(const Statement& row, int column) {
  const std::int64_t time = row.integer(column);
  if (time < -kLongestTime || time > kLongestTime) internal_error("a time of {} ns", time);
  return time;
}

template <class Event> void order_by_start(std::vector<Event>& events) {
  const auto earlier = [](const Event& a, const Event& b) {
    return a.start != b.start ? a.start < b.start : a.end > b.end; // what encloses comes first
  };
  if (!std::is_sorted(events.begin(), events.end(), earlier))
    std::stable_sort(events.begin(), events.end(), earlier);
}

// How many earlier events of the same thread enclose each one. Nothing encloses events without a
// time.
void set_depths(std::vector<HostEvent>& events, std::size_t threads) {
  std::vector<std::vector<std::int64_t>> open(threads); // ends of those that still run
  for (HostEvent& event : events) {
    if (event.start == 0 || event.end == 0) continue;
    std::vector<std::int64_t>& ends = open[event.thread];
    std::erase_if(ends, [&](std::int64_t end) { return end <= event.start; }); // need not nest
    event.depth = static_cast<std::uint16_t>(
        std::min<std::size_t>(ends.size(), std::numeric_limits<std::uint16_t>::max()));
    ends.push_back(event.end);
  }
}

class Reader {
public:
  Reader(const std::string& path, unsigned parts)
      : db_(path, Database::Mode::Immutable), parts_(parts) {
    sqlite3_limit(db_.handle(), SQLITE_LIMIT_LENGTH, kLongestValue);
    db_.execute("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON");
    trace_.path = path;
  }

  Trace read() {
    if (const std::string fault = page_fault(db_, false); !fault.empty())
      internal_error("{}", fault);
    check_tables();
    read_info();
    read_names();
    if ((parts_ & kTraceSteps) != 0) read_steps();
    if ((parts_ & kTraceDevice) != 0) read_device();
    if ((parts_ & kTraceApi) != 0) read_api();
    if ((parts_ & kTraceSpans) != 0) read_spans();
    if ((parts_ & kTraceOperators) != 0) read_operators();
    if ((parts_ & kTraceTelemetry) != 0) read_telemetry();
    return std::move(trace_);
  }

private:
  void check_tables();
  void read_info();
  void read_names();
  void read_steps();
  void read_device();
  void read_api();
  void read_syncs();
  void read_spans();
  void read_operators();
  void read_telemetry();

  NameId name(std::int64_t id) const {
    if (id < 0 || id >= static_cast<std::int64_t>(stored_names_))
      internal_error("a row names string {} of {}", id, stored_names_);
    return static_cast<NameId>(id);
  }
  NameId add_name(const char* text) {
    trace_.names.emplace_back(text);
    return static_cast<NameId>(trace_.names.size() - 1);
  }
  std::uint16_t thread(std::int64_t global_tid) {
    const auto [place, fresh] = threads_.try_emplace(global_tid, trace_.threads.size());
    if (fresh) trace_.threads.push_back(global_tid);
    if (trace_.threads.size() > std::numeric_limits<std::uint16_t>::max())
      internal_error("rows of more than 65535 threads");
    return static_cast<std::uint16_t>(place->second);
  }

  Database db_;
  unsigned parts_;
  Trace trace_;
  std::size_t stored_names_ = 0; // those after them are ours
  std::unordered_map<std::int64_t, std::size_t> threads_;
};

// A view under the name of a table could run forever.
void Reader::check_tables() {
  const std::int64_t schema = db_.integer("PRAGMA user_version");
  value_or_throw(check_schema(db_.path(), trace_schema::marks(), schema));
  if (db_.integer("SELECT count(*) FROM sqlite_schema WHERE type = 'view' AND (name LIKE 'ASSAY%' "
                  "OR name LIKE 'CUPTI%' OR name LIKE 'NVTX%' OR name LIKE '%GPU_METRICS' OR name "
                  "LIKE 'StringIds' OR name LIKE 'PROFILER%' OR name LIKE 'TARGET%')") != 0)
    internal_error("a view has the name of a table");
}

void Reader::read_info() {
  trace_.session_start_utc_ns =
      db_.integer("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME");
  Statement info = db_.prepare("SELECT name, value FROM ASSAY_RUN ORDER BY name");
  while (info.step()) trace_.info.emplace_back(info.text(0), info.text(1));
  Statement audit = db_.prepare("SELECT name, value, bound, passed, detail FROM ASSAY_AUDIT");
  while (audit.step()) {
    const double unknown = std::numeric_limits<double>::quiet_NaN(); // SQLite stores it as NULL
    trace_.audit.push_back({audit.text(0),
                            audit.maybe_real(1).value_or(unknown),
                            audit.maybe_real(2).value_or(unknown),
                            audit.integer(3) != 0,
                            audit.text(4)});
  }
}

void Reader::read_names() {
  Statement names = db_.prepare("SELECT id, value FROM StringIds ORDER BY id");
  while (names.step()) {
    if (names.integer(0) != static_cast<std::int64_t>(trace_.names.size()))
      internal_error("string {} is missing", trace_.names.size());
    trace_.names.push_back(names.text(1));
  }
  stored_names_ = trace_.names.size();
  if (stored_names_ == 0) internal_error("the strings are missing");
}

void Reader::read_steps() {
  Statement s = db_.prepare("SELECT step, start, end, round, position, counted, tokens, globalTid "
                            "FROM ASSAY_STEP");
  while (s.step())
    trace_.steps.push_back({s.integer(0),
                            time_of(s, 1),
                            time_of(s, 2),
                            static_cast<int>(s.integer(3)),
                            static_cast<int>(s.integer(4)),
                            s.integer(5) != 0,
                            s.integer(6),
                            s.integer(7)});
  for (const StepRow& step : trace_.steps) thread(step.global_tid);
  order_by_start(trace_.steps);
}

void Reader::read_device() {
  const auto common = [](const Statement& s, DeviceKind kind) {
    DeviceEvent event;
    event.start = time_of(s, 0);
    event.end = time_of(s, 1);
    event.device = static_cast<std::uint16_t>(s.integer(2));
    event.stream = static_cast<std::uint32_t>(s.integer(3));
    event.correlation = static_cast<std::uint32_t>(s.integer(4));
    event.graph = s.integer(5) != 0;
    event.kind = kind;
    return event;
  };
  const std::string columns = "SELECT start, end, deviceId, streamId, correlationId, graphNodeId, ";
  Statement kernels = db_.prepare(columns + "demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL");
  while (kernels.step()) {
    trace_.device.push_back(common(kernels, DeviceKind::Kernel));
    trace_.device.back().name = name(kernels.integer(6));
  }
  std::array<NameId, kCopyNames.size()> copy_names{};
  for (std::size_t i = 0; i < kCopyNames.size(); ++i) copy_names[i] = add_name(kCopyNames[i]);
  Statement copies = db_.prepare(columns + "bytes, copyKind FROM CUPTI_ACTIVITY_KIND_MEMCPY");
  while (copies.step()) {
    DeviceEvent event = common(copies, DeviceKind::Copy);
    event.bytes = copies.integer(6);
    event.copy_kind = static_cast<std::uint8_t>(copies.integer(7));
    event.name = copy_names[event.copy_kind < kCopyNames.size() ? event.copy_kind : 0];
    trace_.device.push_back(event);
  }
  const NameId set_name = add_name("Memset");
  Statement sets = db_.prepare(columns + "bytes FROM CUPTI_ACTIVITY_KIND_MEMSET");
  while (sets.step()) {
    DeviceEvent event = common(sets, DeviceKind::Set);
    event.bytes = sets.integer(6);
    event.name = set_name;
    trace_.device.push_back(event);
  }
  order_by_start(trace_.device);
}

void Reader::read_api() {
  Statement s = db_.prepare("SELECT start, end, globalTid, nameId, correlationId FROM "
                            "CUPTI_ACTIVITY_KIND_RUNTIME");
  while (s.step()) {
    HostEvent event;
    event.start = time_of(s, 0);
    event.end = time_of(s, 1);
    event.thread = thread(s.integer(2));
    event.name = name(s.integer(3));
    event.correlation = static_cast<std::uint32_t>(s.integer(4));
    trace_.api.push_back(event);
  }
  Statement overhead = db_.prepare("SELECT start, end, globalTid, nameId FROM PROFILER_OVERHEAD");
  while (overhead.step()) {
    HostEvent event;
    event.start = time_of(overhead, 0);
    event.end = time_of(overhead, 1);
    event.thread = thread(overhead.integer(2));
    event.name = name(overhead.integer(3));
    event.kind = HostKind::Overhead;
    trace_.overhead.push_back(event);
  }
  read_syncs();
  order_by_start(trace_.api);
  order_by_start(trace_.overhead);
}

// A wait's record names no thread: it is that of the call with the same correlation, else the one
// that runs the steps.
void Reader::read_syncs() {
  if (db_.integer("SELECT EXISTS (SELECT 1 FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION)") == 0) return;
  std::unordered_map<std::uint32_t, std::uint16_t> caller;
  for (const HostEvent& call : trace_.api) caller.emplace(call.correlation, call.thread);
  std::array<NameId, kSyncNames.size()> names{};
  for (std::size_t i = 0; i < kSyncNames.size(); ++i) names[i] = add_name(kSyncNames[i]);
  Statement step = db_.prepare("SELECT globalTid FROM ASSAY_STEP LIMIT 1");
  const std::int64_t main_thread = step.step() ? step.integer(0) : 0;
  Statement s = db_.prepare("SELECT start, end, correlationId, syncType FROM "
                            "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION");
  while (s.step()) {
    HostEvent event;
    event.start = time_of(s, 0);
    event.end = time_of(s, 1);
    event.correlation = static_cast<std::uint32_t>(s.integer(2));
    const auto type = static_cast<std::size_t>(s.integer(3));
    event.name = names[type < names.size() ? type : 0];
    event.kind = HostKind::Sync;
    const auto found = caller.find(event.correlation);
    event.thread = found != caller.end() ? found->second : thread(main_thread);
    trace_.syncs.push_back(event);
  }
  order_by_start(trace_.syncs);
}

void Reader::read_spans() {
  Statement s = db_.prepare("SELECT start, end, globalTid, textId, domainId FROM NVTX_EVENTS WHERE "
                            "eventType IN (34, 59, 60)");
  while (s.step()) {
    HostEvent event;
    event.start = time_of(s, 0);
    event.end = time_of(s, 1); // NULL, of a mark: 0
    event.thread = thread(s.integer(2));
    event.name = name(s.integer(3));
    event.domain = name(s.integer(4));
    event.kind = HostKind::Span;
    trace_.spans.push_back(event);
  }
  order_by_start(trace_.spans);
  set_depths(trace_.spans, trace_.threads.size());
}

void Reader::read_operators() {
  Statement s = db_.prepare("SELECT start, end, globalTid, nameId, sequence, backward FROM "
                            "ASSAY_OPERATOR");
  while (s.step()) {
    HostEvent event;
    event.start = time_of(s, 0);
    event.end = time_of(s, 1);
    event.thread = thread(s.integer(2));
    event.name = name(s.integer(3));
    event.sequence = s.maybe_integer(4).value_or(-1);
    event.backward = s.integer(5) != 0;
    event.kind = HostKind::Operator;
    trace_.operators.push_back(event);
  }
  order_by_start(trace_.operators);
  set_depths(trace_.operators, trace_.threads.size());
}

void Reader::read_telemetry() {
  std::unordered_map<std::int64_t, std::size_t> series;
  Statement metrics = db_.prepare("SELECT metricId, metricName, source, status FROM "
                                  "TARGET_INFO_GPU_METRICS ORDER BY rowid");
  while (metrics.step()) {
    if (!series.try_emplace(metrics.integer(0), trace_.telemetry.size()).second) continue;
    TelemetrySeries one;
    one.metric = {metrics.text(1), metrics.text(2), metrics.text(3)};
    trace_.telemetry.push_back(std::move(one));
  }
  Statement samples = db_.prepare(
      "SELECT metricId, timestamp, value FROM GPU_METRICS ORDER BY metricId, timestamp");
  while (samples.step()) {
    const auto found = series.find(samples.integer(0));
    if (found == series.end())
      internal_error("a sample of metric {}, which is not declared", samples.integer(0));
    TelemetrySeries& to = trace_.telemetry[found->second];
    to.time.push_back(time_of(samples, 1));
    to.value.push_back(samples.real(2));
  }
}

} // namespace

Result<Trace> read_trace(const std::string& path, unsigned parts) {
  if (Result<bool> ok = trace_schema::check_file(path); !ok) return ok.error();
  try {
    return Reader(path, parts).read();
  } catch (const DatabaseError& error) {
    if (error.is_read_only()) return Error{error.what()}; // SQLite could not open it
    return trace_schema::damaged(path, error.what());
  } catch (const Failure& error) {
    return trace_schema::damaged(path, error.what()); // rows that no writer of ours leaves
  }
}

} // namespace assay
