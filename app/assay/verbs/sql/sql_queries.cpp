#include "app/assay/verbs/sql/sql_queries.h"

#include "experiments/attribution/device_gaps.h"

namespace assay::cli {

namespace {

// Rows whose start or end was lost (0) are in no duration.

// Names and order of the columns are those of `nsys stats`' reports of the same name. Median: mean
// of the middle two. Uses no index: one scan.
constexpr const char* kKernelSummary = R"sql(
WITH event AS (
  SELECT demangledName AS nameId, end - start AS duration
  FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE start <> 0 AND end <> 0),
ranked AS (
  SELECT nameId, duration, row_number() OVER (PARTITION BY nameId ORDER BY duration) AS place,
         count(*) OVER (PARTITION BY nameId) AS calls
  FROM event)
SELECT round(100.0 * sum(duration) / (SELECT sum(duration) FROM event), 1) AS "Time (%)",
       sum(duration) AS "Total Time (ns)", count(*) AS "Instances",
       round(avg(duration), 1) AS "Avg (ns)",
       avg(CASE WHEN place IN ((calls + 1) / 2, calls / 2 + 1) THEN duration END) AS "Med (ns)",
       min(duration) AS "Min (ns)", max(duration) AS "Max (ns)", value AS "Name"
FROM ranked JOIN StringIds ON id = nameId
GROUP BY nameId ORDER BY sum(duration) DESC, value)sql";

constexpr const char* kApiSummary = R"sql(
WITH event AS (
  SELECT nameId, end - start AS duration
  FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE start <> 0 AND end <> 0),
ranked AS (
  SELECT nameId, duration, row_number() OVER (PARTITION BY nameId ORDER BY duration) AS place,
         count(*) OVER (PARTITION BY nameId) AS calls
  FROM event)
SELECT round(100.0 * sum(duration) / (SELECT sum(duration) FROM event), 1) AS "Time (%)",
       sum(duration) AS "Total Time (ns)", count(*) AS "Num Calls",
       round(avg(duration), 1) AS "Avg (ns)",
       avg(CASE WHEN place IN ((calls + 1) / 2, calls / 2 + 1) THEN duration END) AS "Med (ns)",
       min(duration) AS "Min (ns)", max(duration) AS "Max (ns)", value AS "Name"
FROM ranked JOIN StringIds ON id = nameId
GROUP BY nameId ORDER BY sum(duration) DESC, value)sql";

constexpr const char* kRangeSummary = R"sql(
WITH domain AS (
  SELECT domainId, min(text) AS domain FROM NVTX_EVENTS WHERE eventType = 75 GROUP BY domainId),
event AS (
  SELECT coalesce(domain, '') || ':' || coalesce(e.text, value) AS name, eventType, end - start AS duration
  FROM NVTX_EVENTS e LEFT JOIN StringIds ON id = textId LEFT JOIN domain USING (domainId)
  WHERE eventType IN (59, 60) AND start <> 0 AND end <> 0),
ranked AS (
  SELECT name, eventType, duration,
         row_number() OVER (PARTITION BY name, eventType ORDER BY duration) AS place,
         count(*) OVER (PARTITION BY name, eventType) AS calls
  FROM event)
SELECT round(100.0 * sum(duration) / (SELECT sum(duration) FROM event), 1) AS "Time (%)",
       sum(duration) AS "Total Time (ns)", count(*) AS "Instances",
       round(avg(duration), 1) AS "Avg (ns)",
       avg(CASE WHEN place IN ((calls + 1) / 2, calls / 2 + 1) THEN duration END) AS "Med (ns)",
       min(duration) AS "Min (ns)", max(duration) AS "Max (ns)",
       iif(eventType = 59, 'PushPop', 'StartEnd') AS "Style", name AS "Range"
FROM ranked GROUP BY name, eventType ORDER BY sum(duration) DESC, name)sql";

// Uses assay_runtime_correlation. Queue: from the launch call's end to the kernel's start; 0 where
// the kernel began while the call still ran.
constexpr const char* kLaunchQueue = R"sql(
WITH launch AS (
  SELECT shortName AS nameId, r.end - r.start AS call, max(0, k.start - r.end) AS queue,
         k.end - k.start AS duration, k.start < r.start AS early
  FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r
    ON r.correlationId = k.correlationId AND r.globalTid / 0x1000000 = k.globalPid / 0x1000000
  WHERE k.start <> 0 AND k.end <> 0 AND r.start <> 0 AND r.end <> 0)
SELECT count(*) AS "Launches", round(avg(call), 1) AS "Call Avg (ns)",
       round(avg(queue), 1) AS "Queue Avg (ns)", min(queue) AS "Queue Min (ns)",
       max(queue) AS "Queue Max (ns)", round(avg(duration), 1) AS "Kernel Avg (ns)",
       sum(early) AS "Before Launch", value AS "Name"
FROM launch JOIN StringIds ON id = nameId
GROUP BY nameId ORDER BY sum(duration) DESC, value)sql";

// 1 byte/ns = 1 GB/s.
constexpr const char* kMemory = R"sql(
SELECT 'copy ' || coalesce(oper.label, copyKind) AS "Operation", count(*) AS "Count",
       sum(bytes) AS "Total (B)", round(avg(bytes), 1) AS "Avg (B)", max(bytes) AS "Max (B)",
       sum(end - start) AS "Total Time (ns)",
       round(1.0 * sum(bytes) / nullif(sum(end - start), 0), 2) AS "Rate (GB/s)",
       from_kind.label AS "From", to_kind.label AS "To"
FROM CUPTI_ACTIVITY_KIND_MEMCPY
  LEFT JOIN ENUM_CUDA_MEMCPY_OPER oper ON oper.id = copyKind
  LEFT JOIN ENUM_CUDA_MEM_KIND from_kind ON from_kind.id = srcKind
  LEFT JOIN ENUM_CUDA_MEM_KIND to_kind ON to_kind.id = dstKind
WHERE start <> 0 AND end <> 0 GROUP BY copyKind, srcKind, dstKind
UNION ALL
SELECT 'set', count(*), sum(bytes), round(avg(bytes), 1), max(bytes), sum(end - start),
       round(1.0 * sum(bytes) / nullif(sum(end - start), 0), 2), NULL, kind.label
FROM CUPTI_ACTIVITY_KIND_MEMSET LEFT JOIN ENUM_CUDA_MEM_KIND kind ON kind.id = memKind
WHERE start <> 0 AND end <> 0 GROUP BY memKind
ORDER BY 6 DESC)sql";

constexpr const char* kTelemetry = R"sql(
SELECT metricName AS "Metric", source AS "Source", status AS "Status", count(value) AS "Samples",
       min(value) AS "Min", round(avg(value), 3) AS "Avg", max(value) AS "Max"
FROM TARGET_INFO_GPU_METRICS LEFT JOIN GPU_METRICS USING (typeId, metricId)
GROUP BY metricId ORDER BY source, metricName)sql";

// Times include the operators that an operator calls. Pass: of autograd's own functions, and of
// whatever runs while a thread is in the span "backward", the backward pass, as `assay explain` has
// it; of whatever else runs in a span "forward", or in a trace without such spans, the forward
// pass.
constexpr const char* kOperators = R"sql(
WITH domain AS (
  SELECT domainId, min(text) AS domain FROM NVTX_EVENTS WHERE eventType = 75 GROUP BY domainId),
passes AS MATERIALIZED (
  SELECT e.start AS begins, e.end AS ends, coalesce(e.text, value) AS pass
  FROM NVTX_EVENTS e LEFT JOIN StringIds ON id = textId LEFT JOIN domain USING (domainId)
  WHERE eventType = 59 AND coalesce(e.text, value) IN ('forward', 'backward') AND e.end > e.start
    AND coalesce(domain, '') IN ('', 'assay')),
operators AS (
  SELECT start, end, nameId,
         CASE WHEN backward OR EXISTS(SELECT 1 FROM passes WHERE pass = 'backward'
                                      AND start >= begins AND start < ends) THEN 'backward'
              WHEN EXISTS(SELECT 1 FROM passes WHERE pass = 'forward'
                          AND start >= begins AND start < ends)
                   OR NOT EXISTS(SELECT 1 FROM passes WHERE pass = 'forward') THEN 'forward'
              ELSE 'update' END AS pass
  FROM ASSAY_OPERATOR)
SELECT count(*) AS "Calls", sum(end - start) AS "Total Time (ns)",
       round(avg(end - start), 1) AS "Avg (ns)", min(end - start) AS "Min (ns)",
       max(end - start) AS "Max (ns)", pass AS "Pass", value AS "Name"
FROM operators JOIN StringIds ON id = nameId
WHERE start <> 0 AND end <> 0 GROUP BY nameId, pass ORDER BY 2 DESC, value)sql";

// Uses assay_kernel_start. Kernel time: sum over the kernels that start in the step, overlaps
// counted twice.
constexpr const char* kSteps = R"sql(
SELECT step AS "Step", round AS "Round", position AS "Position", iif(counted, 'yes', 'no') AS "Counted",
       s.start AS "Start (ns)", s.end - s.start AS "Wall (ns)", tokens AS "Tokens",
       count(k.start) AS "Kernels", coalesce(sum(k.end - k.start), 0) AS "Kernel Time (ns)"
FROM ASSAY_STEP s LEFT JOIN CUPTI_ACTIVITY_KIND_KERNEL k ON k.start >= s.start AND k.start < s.end
GROUP BY step, s.start ORDER BY s.start)sql";

constexpr const char* kAudit = R"sql(
SELECT iif(passed, 'passed', 'FAILED') AS "Result", name AS "Check", value AS "Value",
       iif(abs(bound) < 1e300, bound, NULL) AS "Limit",
       detail AS "Detail"
FROM ASSAY_AUDIT
UNION ALL
SELECT coalesce(label, severity), 'diagnostic at ' || timestamp || ' ns', NULL, NULL, text
FROM DIAGNOSTIC_EVENT LEFT JOIN ENUM_DIAGNOSTIC_SEVERITY_LEVEL ON id = severity)sql";

} // namespace

const std::vector<NamedQuery>& named_queries() {
  constexpr const char* kKernels = "CUPTI_ACTIVITY_KIND_KERNEL";
  constexpr const char* kNoGpu = "GPU work: it was recorded on the CPU";
  static const std::vector<NamedQuery> queries{
      {"cuda_gpu_kern_sum",
       "GPU kernels: time, launches and spread by name",
       kKernelSummary,
       kKernels,
       kNoGpu},
      {"cuda_api_sum",
       "CUDA runtime and driver calls by name",
       kApiSummary,
       "CUPTI_ACTIVITY_KIND_RUNTIME",
       "CUDA calls: it was recorded on the CPU"},
      {"nvtx_sum", "spans and NVTX ranges by name", kRangeSummary, "NVTX_EVENTS", "spans"},
      {"gaps",
       "the 1000 longest intervals in which a GPU had nothing to do",
       kDeviceGapsQuery,
       kKernels,
       kNoGpu},
      {"launch_queue",
       "how long kernels waited between their launch and their start",
       kLaunchQueue,
       kKernels,
       kNoGpu},
      {"memory",
       "copies and sets by kind: bytes, time, rate",
       kMemory,
       "(SELECT 1 FROM CUPTI_ACTIVITY_KIND_MEMCPY UNION ALL SELECT 1 FROM "
       "CUPTI_ACTIVITY_KIND_MEMSET)",
       "copies or sets of GPU memory"},
      {"telemetry",
       "sampled series, with what the machine refused",
       kTelemetry,
       "TARGET_INFO_GPU_METRICS",
       "sampled series"},
      {"operators",
       "LibTorch operators by name and pass",
       kOperators,
       "ASSAY_OPERATOR",
       "LibTorch operators"},
      {"steps", "traced steps: wall time, tokens, kernels", kSteps, "ASSAY_STEP", "steps"},
      {"audit", "checks of the trace itself, and diagnostics", kAudit, "ASSAY_AUDIT", "checks"}};
  return queries;
}

const NamedQuery* find_query(std::string_view name) {
  for (const NamedQuery& query : named_queries())
    if (name == query.name) return &query;
  return nullptr;
}

} // namespace assay::cli
