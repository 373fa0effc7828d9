// Cursors over the rows of a trace file, in order of start, without reading the file into memory;
// with the columns that core/trace/trace.h's Trace leaves out (grid, block, registers …). For
// exports. Times are the file's: nanoseconds since the session start. Rows whose start is lost (0)
// are skipped.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/sqlite/database.h"
#include "core/trace/trace.h"

namespace assay {

struct TimeRange { // rows that start in [begin, end)
  std::int64_t begin = std::numeric_limits<std::int64_t>::min();
  std::int64_t end = std::numeric_limits<std::int64_t>::max();
};

enum class HostRow : std::uint8_t { Step, Range, Operator, Api, Overhead };

struct HostItem {
  HostRow kind = HostRow::Step;
  std::int64_t start = 0, end = 0; // end < start: lost, or the source's clock went back
  std::int64_t global_tid = 0;
  std::int64_t name = 0;         // StringIds; of a step: its number
  std::uint32_t correlation = 0; // API
  std::uint8_t event_class = 0;  // API: 0 runtime, 1 driver; ranges: the NVTX event type
  std::int64_t sequence = -1;    // operators
  bool backward = false;         // operators
};

struct DeviceItem {
  DeviceKind kind = DeviceKind::Kernel;
  std::int64_t start = 0, end = 0;
  std::int64_t device = 0, context = 0, stream = 0;
  std::uint32_t correlation = 0;
  std::int64_t name = 0, short_name = 0; // kernels: StringIds
  std::int64_t registers_per_thread = 0, static_shared = 0, dynamic_shared = 0;
  std::array<std::int64_t, 3> grid{}, block{};
  std::int64_t bytes = 0, value = 0;                      // copies and sets
  std::int64_t copy_kind = 0, src_kind = 0, dst_kind = 0; // sets: dst_kind
  std::int64_t graph_node = 0;
};

// Several tables merged by start; of rows that start together the longer comes first, so that what
// encloses comes before what it encloses.
class HostCursor {
public:
  HostCursor(const Database& database, TimeRange range);
  bool next(HostItem& item);

private:
  struct Source {
    HostRow kind;
    Statement statement;
    HostItem item;
    bool done;
  };
  static void advance(Source& source);
  std::vector<Source> sources_;
};

// Kernels, copies and sets merged by start: those whose calls start in the range. Correlations grow
// in order of the calls, so the range's are an interval; work of calls that were not recorded
// (launches that libraries make through the driver) falls into it as well. In a trace without calls
// work belongs to the range in which it starts itself.
class DeviceCursor {
public:
  DeviceCursor(const Database& database, TimeRange range);
  bool next(DeviceItem& item);

private:
  struct Source {
    DeviceKind kind;
    Statement statement;
    DeviceItem item;
    bool done;
  };
  static void advance(Source& source);
  std::vector<Source> sources_;
};

// A condition on rows of device tables that selects those of the range; ?1 and ?2 are its bounds.
struct DeviceWindow {
  const char* condition = "start <> 0";
  std::optional<std::pair<std::int64_t, std::int64_t>> bounds; // none: every row

  Statement prepare(const Database& database, const std::string& select, const char* order) const;
};
DeviceWindow device_window(const Database& database, TimeRange range);

// "Memcpy HtoD (Pinned -> Device)", "Memset (Device)": the names that Kineto gives.
std::string copy_name(std::int64_t copy_kind, std::int64_t src_kind, std::int64_t dst_kind);
std::string set_name(std::int64_t memory_kind);

} // namespace assay
