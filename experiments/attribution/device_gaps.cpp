#include "experiments/attribution/device_gaps.h"

#include <sqlite3.h>

#include "core/sqlite/database.h"

namespace assay {

namespace {

constexpr int kOperations = 10'000; // of SQLite's virtual machine between two looks at `stop`

int is_set(void* stop) {
  return *static_cast<const std::atomic<bool>*>(stop) ? 1 : 0;
}

} // namespace

// Rows whose start or end was lost (0) are in no gap. The step is the one in which the gap begins.
const char* const kDeviceGapsQuery = R"sql(
WITH work AS (
  SELECT deviceId, start, end, value AS name
  FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = shortName WHERE start <> 0 AND end <> 0
  UNION ALL
  SELECT deviceId, start, end, 'Memcpy ' || label
  FROM CUPTI_ACTIVITY_KIND_MEMCPY LEFT JOIN ENUM_CUDA_MEMCPY_OPER ON id = copyKind
  WHERE start <> 0 AND end <> 0
  UNION ALL
  SELECT deviceId, start, end, 'Memset' FROM CUPTI_ACTIVITY_KIND_MEMSET WHERE start <> 0 AND end <> 0),
ordered AS (
  SELECT deviceId, start, name,
         max(end) OVER before AS free, lag(name) OVER (PARTITION BY deviceId ORDER BY start, end) AS previous
  FROM work
  WINDOW before AS (PARTITION BY deviceId ORDER BY start, end ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
SELECT length AS "Gap (ns)", free AS "Start (ns)", start AS "End (ns)", deviceId AS "Device",
       (SELECT step FROM ASSAY_STEP s WHERE s.start <= free AND free < s.end) AS "Step",
       previous AS "After", name AS "Before"
FROM (SELECT start - free AS length, * FROM ordered WHERE start > free ORDER BY length DESC, free LIMIT 1000)
ORDER BY length DESC, free)sql";

Result<std::vector<DeviceGap>> device_gaps(const std::string& path, const std::atomic<bool>* stop) {
  enum Column { kLength, kStart, kEnd, kDevice, kStep, kAfter, kBefore };
  try {
    const Database database(path, Database::Mode::Immutable);
    if (stop != nullptr)
      sqlite3_progress_handler(
          database.handle(), kOperations, is_set, const_cast<std::atomic<bool>*>(stop));
    Statement rows = database.prepare(kDeviceGapsQuery);
    std::vector<DeviceGap> gaps;
    while (rows.step())
      gaps.push_back({rows.integer(kStart),
                      rows.integer(kEnd),
                      static_cast<std::uint32_t>(rows.integer(kDevice)),
                      rows.maybe_integer(kStep),
                      rows.text(kAfter),
                      rows.text(kBefore)});
    return gaps;
  } catch (const DatabaseError& error) {
    return Error{error.what()};
  }
}

} // namespace assay
