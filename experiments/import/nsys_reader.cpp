#include "experiments/import/nsys_reader.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <charconv>
#include <optional>
#include <set>
#include <unordered_map>

#include "core/sqlite/database.h"
#include "core/sqlite/sqlite_file.h"
#include "core/text.h"

namespace assay {

namespace {

constexpr const char *kKernels = "CUPTI_ACTIVITY_KIND_KERNEL",
                     *kCopies = "CUPTI_ACTIVITY_KIND_MEMCPY", *kSets = "CUPTI_ACTIVITY_KIND_MEMSET",
                     *kCalls = "CUPTI_ACTIVITY_KIND_RUNTIME",
                     *kSyncs = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", *kRanges = "NVTX_EVENTS";
constexpr int kLongestValue = 64 << 20;

std::set<std::string> columns_of(const Database& db, const std::string& table) {
  std::set<std::string> columns;
  Statement rows = db.prepare("SELECT name FROM pragma_table_info(?)");
  rows.bind(1, std::string_view(table));
  while (rows.step()) columns.insert(rows.text(0));
  return columns;
}

class NsysReader {
public:
  explicit NsysReader(const std::string& path) : db_(path, Database::Mode::Immutable) {
    sqlite3_limit(db_.handle(), SQLITE_LIMIT_LENGTH, kLongestValue);
    db_.execute("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON");
  }

  ImportedRows read() {
    out_.source = "Nsight Systems SQLite";
    read_names();
    read_machine();
    read_kernels();
    read_copies();
    read_calls();
    read_syncs();
    read_ranges();
    return std::move(out_);
  }

private:
  // The columns of a table by name; those that it lacks are 0. No rows where there is no table.
  std::optional<Statement> select(const char* table, const std::vector<const char*>& names) {
    const std::set<std::string> known = columns_of(db_, table);
    if (known.empty()) return std::nullopt;
    std::string list;
    for (const char* name : names) {
      if (!list.empty()) list += ", ";
      list += known.contains(name) ? std::string(name) : "0";
    }
    return db_.prepare(fmt::format("SELECT {} FROM {}", list, table));
  }

  NameId add_name(const std::string& text) {
    out_.names.push_back(text);
    return static_cast<NameId>(out_.names.size() - 1);
  }
  NameId name(std::int64_t id) const {
    const auto found = strings_.find(id);
    return found == strings_.end() ? 0 : found->second;
  }
  NameId intern(const std::string& text) {
    const auto [found, is_new] = texts_.try_emplace(text, 0);
    if (is_new) found->second = add_name(text);
    return found->second;
  }

  void read_names() {
    auto rows = select("StringIds", {"id", "value"});
    while (rows && rows->step()) strings_.try_emplace(rows->integer(0), add_name(rows->text(1)));
  }

  void read_machine() {
    auto start = select("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs"});
    if (start && start->step()) out_.base_utc_ns = std::max<std::int64_t>(start->integer(0), 0);
    auto board = select("TARGET_INFO_GPU", {"name"});
    if (board && board->step()) out_.info.emplace_back("gpu", board->text(0));
  }

  template <class Integer> static Integer number(const Statement& rows, int column) {
    return static_cast<Integer>(rows.integer(column));
  }

  void read_kernels() {
    auto rows = select(kKernels,
                       {"start",
                        "end",
                        "deviceId",
                        "contextId",
                        "streamId",
                        "correlationId",
                        "demangledName",
                        "shortName",
                        "registersPerThread",
                        "staticSharedMemory",
                        "dynamicSharedMemory",
                        "gridX",
                        "gridY",
                        "gridZ",
                        "blockX",
                        "blockY",
                        "blockZ",
                        "graphNodeId",
                        "graphId"});
    while (rows && rows->step()) {
      KernelRow row = on_device<KernelRow>(*rows);
      row.demangled = name(rows->integer(6));
      row.short_name = name(rows->integer(7));
      row.registers_per_thread = number<std::uint32_t>(*rows, 8);
      row.static_shared_bytes = number<std::int32_t>(*rows, 9);
      row.dynamic_shared_bytes = number<std::int32_t>(*rows, 10);
      for (int i = 0; i < 3; ++i) {
        row.grid[static_cast<std::size_t>(i)] = number<std::int32_t>(*rows, 11 + i);
        row.block[static_cast<std::size_t>(i)] = number<std::int32_t>(*rows, 14 + i);
      }
      row.graph_node = number<std::uint64_t>(*rows, 17);
      row.graph = number<std::uint32_t>(*rows, 18);
      out_.rows.kernels.push_back(row);
    }
  }

  // The first six columns of each of these queries.
  template <class Row> static Row on_device(const Statement& rows) {
    Row row;
    row.start = rows.integer(0);
    row.end = rows.integer(1);
    row.device = number<std::uint32_t>(rows, 2);
    row.context = number<std::uint32_t>(rows, 3);
    row.stream = number<std::uint32_t>(rows, 4);
    row.correlation = number<std::uint32_t>(rows, 5);
    return row;
  }

  void read_copies() {
    auto copies = select(kCopies,
                         {"start",
                          "end",
                          "deviceId",
                          "contextId",
                          "streamId",
                          "correlationId",
                          "bytes",
                          "copyKind",
                          "graphNodeId"});
    while (copies && copies->step()) {
      CopyRow row = on_device<CopyRow>(*copies);
      row.bytes = number<std::uint64_t>(*copies, 6);
      row.copy_kind = number<std::uint8_t>(*copies, 7);
      row.graph_node = number<std::uint64_t>(*copies, 8);
      out_.rows.copies.push_back(row);
    }
    auto sets = select(kSets,
                       {"start",
                        "end",
                        "deviceId",
                        "contextId",
                        "streamId",
                        "correlationId",
                        "bytes",
                        "value",
                        "graphNodeId"});
    while (sets && sets->step()) {
      SetRow row = on_device<SetRow>(*sets);
      row.bytes = number<std::uint64_t>(*sets, 6);
      row.value = number<std::uint32_t>(*sets, 7);
      row.graph_node = number<std::uint64_t>(*sets, 8);
      out_.rows.sets.push_back(row);
    }
  }

  void read_calls() {
    auto rows =
        select(kCalls, {"start", "end", "eventClass", "globalTid", "correlationId", "nameId"});
    while (rows && rows->step())
      out_.rows.api.push_back({rows->integer(0),
                               rows->integer(1),
                               number<std::uint8_t>(*rows, 2),
                               rows->integer(3),
                               number<std::uint32_t>(*rows, 4),
                               without_version(name(rows->integer(5)))});
  }

  // "cudaLaunchKernel_v7000", as CUPTI names it.
  NameId without_version(NameId id) {
    const auto [found, is_new] = calls_.try_emplace(id, id);
    if (!is_new) return found->second;
    const std::string text = out_.names[id];
    const std::size_t version = text.rfind("_v");
    const bool cut = version != std::string::npos && version + 2 < text.size() &&
                     text.find_first_not_of("0123456789", version + 2) == std::string::npos;
    if (cut) found->second = intern(text.substr(0, version));
    return calls_.at(id);
  }

  void read_syncs() {
    auto rows = select(kSyncs,
                       {"start",
                        "end",
                        "deviceId",
                        "contextId",
                        "streamId",
                        "correlationId",
                        "syncType",
                        "eventId"});
    while (rows && rows->step()) {
      SyncRow row = on_device<SyncRow>(*rows);
      row.sync_type = number<std::uint8_t>(*rows, 6);
      row.event_id = number<std::uint32_t>(*rows, 7);
      out_.rows.syncs.push_back(row);
    }
  }

  void read_ranges() {
    constexpr std::int64_t kPushPop = 59, kStartEnd = 60, kMark = 34, kDomain = 75;
    auto rows =
        select(kRanges, {"start", "end", "eventType", "globalTid", "textId", "domainId", "text"});
    std::unordered_map<std::int64_t, NameId> domains;
    struct Placed {
      RangeRow row;
      std::int64_t domain = 0;
    };
    std::vector<Placed> ranges;
    while (rows && rows->step()) {
      const std::int64_t type = rows->integer(2);
      const bool has_text = rows->type(6) == Statement::Type::Text;
      const NameId text = has_text ? intern(rows->text(6)) : name(rows->integer(4));
      if (type == kDomain) domains.try_emplace(rows->integer(5), text);
      if (type != kPushPop && type != kStartEnd && type != kMark) continue;
      RangeRow range;
      range.start = rows->integer(0);
      range.end = type == kMark ? 0 : rows->integer(1);
      range.event_type = static_cast<std::uint8_t>(type);
      range.global_tid = rows->integer(3);
      range.text = text;
      if (type != kMark && add_operator(range)) continue;
      ranges.push_back({range, rows->integer(5)});
    }
    for (Placed& placed : ranges) {
      if (const auto domain = domains.find(placed.domain); domain != domains.end())
        placed.row.domain = domain->second;
      out_.rows.ranges.push_back(placed.row);
    }
  }

  // "aten::add, op_id = 3, seq = 7" of torch.autograd.profiler.emit_nvtx().
  bool add_operator(const RangeRow& range) {
    const std::string& text = out_.names[range.text];
    constexpr std::string_view kSequence = ", seq = ";
    const std::size_t sequence = text.find(kSequence), comma = text.find(',');
    if (sequence == std::string::npos) return false;
    OperatorRow row;
    row.start = range.start;
    row.end = range.end;
    row.global_tid = range.global_tid;
    const char* const digits = text.data() + sequence + kSequence.size();
    (void)std::from_chars(digits, text.data() + text.size(), row.sequence);
    const std::string called = text.substr(0, comma);
    row.name = intern(called);
    row.backward =
        called.starts_with("autograd::engine::") || called.find("Backward") != std::string::npos;
    out_.rows.operators.push_back(row);
    return true;
  }

  Database db_;
  ImportedRows out_;
  std::unordered_map<std::int64_t, NameId> strings_; // StringIds.id
  std::unordered_map<std::string, NameId> texts_;
  std::unordered_map<NameId, NameId> calls_;
};

} // namespace

bool is_nsys_export(const std::string& path) {
  try {
    const Database db(path, Database::Mode::Immutable);
    if (db.integer("PRAGMA application_id") != 0) return false;
    if (columns_of(db, "StringIds").empty()) return false;
    for (const char* table : {kKernels, kCalls, kRanges})
      if (!columns_of(db, table).empty()) return true;
    return false;
  } catch (const DatabaseError&) { // no database: whoever opens it next says why
    return false;
  }
}

Result<ImportedRows> read_nsys_export(const std::string& path) {
  try {
    return NsysReader(path).read();
  } catch (const DatabaseError& error) {
    return fail("{}: this export of Nsight Systems cannot be read: {}; export it again with "
                "`nsys export --type sqlite`",
                printable(path),
                error.what());
  }
}

} // namespace assay
