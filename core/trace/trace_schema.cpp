#include "core/trace/trace_schema.h"

#include <filesystem>

#include "core/trace/trace_file.h"

namespace assay::trace_schema {

// Names, order and types of the columns are Nsight Systems'; what it calls NOT NULL is NOT NULL.
// Our own columns come last: PROFILER_OVERHEAD.overheadType, TARGET_INFO_GPU_METRICS.source and
// .status.
const char* const kTables = R"sql(
CREATE TABLE StringIds(id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE META_DATA_CAPTURE(name TEXT NOT NULL, value TEXT);
CREATE TABLE META_DATA_EXPORT(name TEXT NOT NULL, value TEXT);
CREATE TABLE TARGET_INFO_SESSION_START_TIME(
  utcEpochNs INTEGER, utcTime TEXT, localTime TEXT, systemClockNs INTEGER);
CREATE TABLE ANALYSIS_DETAILS(
  globalVid INTEGER NOT NULL, duration INTEGER NOT NULL, startTime INTEGER NOT NULL, stopTime INTEGER NOT NULL);
CREATE TABLE TARGET_INFO_SYSTEM_ENV(
  globalVid INTEGER, devStateName TEXT NOT NULL, name TEXT NOT NULL, nameEnum INTEGER NOT NULL, value TEXT NOT NULL);
CREATE TABLE TARGET_INFO_GPU(
  vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, busLocation TEXT, isDiscrete INTEGER,
  l2CacheSize INTEGER, totalMemory INTEGER, memoryBandwidth INTEGER, clockRate INTEGER, smCount INTEGER,
  pwGpuId INTEGER, uuid TEXT, luid INTEGER, chipName TEXT, cuDevice INTEGER, ctxswDevPath TEXT, ctrlDevPath TEXT,
  revision INTEGER, nodeMask INTEGER, constantMemory INTEGER, maxIPC INTEGER, maxRegistersPerBlock INTEGER,
  maxShmemPerBlock INTEGER, maxShmemPerBlockOptin INTEGER, maxShmemPerSm INTEGER, maxRegistersPerSm INTEGER,
  threadsPerWarp INTEGER, asyncEngines INTEGER, maxWarpsPerSm INTEGER, maxBlocksPerSm INTEGER,
  maxThreadsPerBlock INTEGER, maxBlockDimX INTEGER, maxBlockDimY INTEGER, maxBlockDimZ INTEGER,
  maxGridDimX INTEGER, maxGridDimY INTEGER, maxGridDimZ INTEGER,
  computeMajor INTEGER, computeMinor INTEGER, smMajor INTEGER, smMinor INTEGER, numaNodeId INTEGER);
CREATE TABLE TARGET_INFO_CUDA_DEVICE(
  gpuId INTEGER, cudaId INTEGER NOT NULL, pid INTEGER NOT NULL, uuid TEXT, numMultiprocessors INTEGER);
CREATE TABLE TARGET_INFO_CUDA_STREAM(
  streamId INTEGER NOT NULL, hwId INTEGER NOT NULL, vmId INTEGER NOT NULL, processId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, priority INTEGER NOT NULL, flag INTEGER NOT NULL);
CREATE TABLE PROCESSES(globalPid INTEGER, pid INTEGER, name TEXT);
CREATE TABLE ThreadNames(nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(
  start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
  greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER,
  cacheConfig INTEGER, registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL,
  gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL,
  staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL, localMemoryPerThread INTEGER NOT NULL,
  localMemoryTotal INTEGER NOT NULL, gridId INTEGER NOT NULL, sharedMemoryExecuted INTEGER, graphNodeId INTEGER,
  sharedMemoryLimitConfig INTEGER, qmdBulkReleaseDone INTEGER, qmdPreexitDone INTEGER, qmdLastCtaDone INTEGER,
  graphId INTEGER, clusterX INTEGER, clusterY INTEGER, clusterZ INTEGER, clusterSchedulingPolicy INTEGER,
  maxPotentialClusterSize INTEGER, maxActiveClusters INTEGER, sharedMemoryRequestedPercentage INTEGER,
  tensorSizeMinusOneElements TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(
  start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
  greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, deprecatedSrcId INTEGER, srcKind INTEGER, dstKind INTEGER,
  srcDeviceId INTEGER, srcContextId INTEGER, dstDeviceId INTEGER, dstContextId INTEGER, migrationCause INTEGER,
  graphNodeId INTEGER, virtualAddress INTEGER, copyCount INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET(
  start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
  greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  value INTEGER NOT NULL, bytes INTEGER NOT NULL, graphNodeId INTEGER, memKind INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(
  start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER,
  correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION(
  start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
  greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  deprecatedSyncType INTEGER, syncType INTEGER NOT NULL, eventId INTEGER NOT NULL, eventSyncId INTEGER);
CREATE TABLE PROFILER_OVERHEAD(
  start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER, nameId INTEGER NOT NULL,
  returnValue INTEGER NOT NULL, overheadType INTEGER);
CREATE TABLE NVTX_EVENTS(
  start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER, color INTEGER,
  text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value INTEGER,
  int64Value INTEGER, doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, floatValue REAL,
  jsonTextId INTEGER, jsonText TEXT, binaryData TEXT);
CREATE TABLE GPU_METRICS(
  rawTimestamp INTEGER NOT NULL, timestamp INTEGER NOT NULL, typeId INTEGER NOT NULL, metricId INTEGER NOT NULL,
  value INTEGER NOT NULL);
CREATE TABLE TARGET_INFO_GPU_METRICS(
  typeId INTEGER NOT NULL, sourceId INTEGER NOT NULL, typeName TEXT NOT NULL, metricId INTEGER NOT NULL,
  metricName TEXT NOT NULL, source TEXT NOT NULL, status TEXT NOT NULL);
CREATE TABLE DIAGNOSTIC_EVENT(
  timestamp INTEGER NOT NULL, timestampType INTEGER NOT NULL, source INTEGER NOT NULL, severity INTEGER NOT NULL,
  text TEXT NOT NULL, globalPid INTEGER);
CREATE TABLE ENUM_NSYS_EVENT_TYPE(id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE ENUM_NSYS_EVENT_CLASS(id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE ENUM_CUDA_MEMCPY_OPER(id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE ENUM_CUDA_MEM_KIND(id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE ENUM_CUDA_KERNEL_LAUNCH_TYPE(id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE ENUM_CUDA_FUNC_CACHE_CONFIG(id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE ENUM_CUPTI_SYNC_TYPE(id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE ENUM_CUPTI_OVERHEAD_TYPE(id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE ENUM_DIAGNOSTIC_SEVERITY_LEVEL(id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE ASSAY_RUN(name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE ASSAY_STEP(
  step INTEGER NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL, round INTEGER NOT NULL,
  position INTEGER NOT NULL, counted INTEGER NOT NULL, tokens INTEGER NOT NULL, globalTid INTEGER NOT NULL);
CREATE TABLE ASSAY_OPERATOR(
  start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER NOT NULL, nameId INTEGER NOT NULL,
  sequence INTEGER, forwardThread INTEGER, backward INTEGER NOT NULL);
CREATE TABLE ASSAY_AUDIT(
  name TEXT NOT NULL, value REAL, bound REAL, passed INTEGER NOT NULL, detail TEXT NOT NULL);
)sql";

const char* const kEnums = R"sql(
INSERT INTO ENUM_NSYS_EVENT_TYPE VALUES
  (33,'NvtxCategory','NvtxCategory'), (34,'NvtxMark','NvtxMark'), (59,'NvtxPushPopRange','NvtxPushPopRange'),
  (60,'NvtxStartEndRange','NvtxStartEndRange'), (75,'NvtxDomainCreate','NvtxDomainCreate');
INSERT INTO ENUM_NSYS_EVENT_CLASS VALUES
  (0,'TRACE_PROCESS_EVENT_CUDA_RUNTIME','CUDA runtime'), (1,'TRACE_PROCESS_EVENT_CUDA_DRIVER','CUDA driver');
INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES
  (0,'CUDA_MEMCPY_KIND_UNKNOWN','Unknown'), (1,'CUDA_MEMCPY_KIND_HTOD','Host-to-Device'),
  (2,'CUDA_MEMCPY_KIND_DTOH','Device-to-Host'), (3,'CUDA_MEMCPY_KIND_HTOA','Host-to-Array'),
  (4,'CUDA_MEMCPY_KIND_ATOH','Array-to-Host'), (5,'CUDA_MEMCPY_KIND_ATOA','Array-to-Array'),
  (6,'CUDA_MEMCPY_KIND_ATOD','Array-to-Device'), (7,'CUDA_MEMCPY_KIND_DTOA','Device-to-Array'),
  (8,'CUDA_MEMCPY_KIND_DTOD','Device-to-Device'), (9,'CUDA_MEMCPY_KIND_HTOH','Host-to-Host'),
  (10,'CUDA_MEMCPY_KIND_PTOP','Peer-to-Peer');
INSERT INTO ENUM_CUDA_MEM_KIND VALUES
  (0,'CUDA_MEMOPR_MEMORY_KIND_PAGEABLE','Pageable'), (1,'CUDA_MEMOPR_MEMORY_KIND_PINNED','Pinned'),
  (2,'CUDA_MEMOPR_MEMORY_KIND_DEVICE','Device'), (3,'CUDA_MEMOPR_MEMORY_KIND_ARRAY','Array'),
  (4,'CUDA_MEMOPR_MEMORY_KIND_MANAGED','Managed'), (5,'CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC','Device Static'),
  (6,'CUDA_MEMOPR_MEMORY_KIND_MANAGED_STATIC','Managed Static'), (7,'CUDA_MEMOPR_MEMORY_KIND_UNKNOWN','Unknown');
INSERT INTO ENUM_CUDA_KERNEL_LAUNCH_TYPE VALUES
  (0,'CUDA_KERNEL_LAUNCH_TYPE_REGULAR','Regular'),
  (1,'CUDA_KERNEL_LAUNCH_TYPE_COOPERATIVE_SINGLE_DEVICE','Cooperative single device'),
  (2,'CUDA_KERNEL_LAUNCH_TYPE_COOPERATIVE_MULTI_DEVICE','Cooperative multi device');
INSERT INTO ENUM_CUDA_FUNC_CACHE_CONFIG VALUES
  (0,'CUDA_FUNC_CACHE_CONFIG_PREFER_NONE','None'), (1,'CUDA_FUNC_CACHE_CONFIG_PREFER_SHARED','Shared'),
  (2,'CUDA_FUNC_CACHE_CONFIG_PREFER_L1','L1'), (3,'CUDA_FUNC_CACHE_CONFIG_PREFER_EQUAL','Equal');
INSERT INTO ENUM_CUPTI_SYNC_TYPE VALUES
  (0,'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN','Unknown'),
  (1,'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE','Event sync'),
  (2,'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT','Stream wait sync'),
  (3,'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE','Stream sync'),
  (4,'CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE','Context sync');
INSERT INTO ENUM_CUPTI_OVERHEAD_TYPE VALUES
  (0,'CUPTI_ACTIVITY_OVERHEAD_UNKNOWN','Unknown'), (1,'CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER','Driver compiler'),
  (2,'CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH','Buffer flush'),
  (3,'CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION','Instrumentation'),
  (4,'CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE','Resource'),
  (5,'CUPTI_ACTIVITY_OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING','Runtime triggered module loading'),
  (6,'CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING','Lazy function loading'),
  (7,'CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL','Command buffer full'),
  (8,'CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST','Activity buffer request'),
  (9,'CUPTI_ACTIVITY_OVERHEAD_UVM_ACTIVITY_INIT','UVM activity init');
INSERT INTO ENUM_DIAGNOSTIC_SEVERITY_LEVEL VALUES (1,'Info','Info'), (2,'Warning','Warning'), (3,'Error','Error');
INSERT INTO META_DATA_EXPORT VALUES
  ('EXPORT_PRODUCT','Assay'), ('EXPORT_SCHEMA_FOLLOWED','NVIDIA Nsight Systems SQLite export'),
  ('EXPORT_SCHEMA_VERSION','3.28.1'), ('EXPORT_SCHEMA_VERSION_MAJOR','3'), ('EXPORT_SCHEMA_VERSION_MINOR','28'),
  ('EXPORT_SCHEMA_VERSION_MICRO','1');
INSERT INTO META_DATA_CAPTURE VALUES ('CAPTURE_PRODUCT','Assay');
)sql";

const char* const kIndexes = R"sql(
CREATE INDEX assay_kernel_start ON CUPTI_ACTIVITY_KIND_KERNEL(start);
CREATE INDEX assay_kernel_correlation ON CUPTI_ACTIVITY_KIND_KERNEL(correlationId);
CREATE INDEX assay_copy_start ON CUPTI_ACTIVITY_KIND_MEMCPY(start);
CREATE INDEX assay_copy_correlation ON CUPTI_ACTIVITY_KIND_MEMCPY(correlationId);
CREATE INDEX assay_set_start ON CUPTI_ACTIVITY_KIND_MEMSET(start);
CREATE INDEX assay_runtime_start ON CUPTI_ACTIVITY_KIND_RUNTIME(start);
CREATE INDEX assay_runtime_correlation ON CUPTI_ACTIVITY_KIND_RUNTIME(correlationId);
CREATE INDEX assay_sync_start ON CUPTI_ACTIVITY_KIND_SYNCHRONIZATION(start);
CREATE INDEX assay_nvtx_start ON NVTX_EVENTS(start);
CREATE INDEX assay_operator_start ON ASSAY_OPERATOR(start);
CREATE INDEX assay_metric_time ON GPU_METRICS(metricId, timestamp);
)sql";

const SqliteMarks& marks() {
  static constexpr SqliteMarks kMarks{
      kTraceApplicationId, kTraceSchema, "trace", "record it again: `assay run` into a new --out"};
  return kMarks;
}

bool is_unfinished(const std::string& file_name) {
  return file_name.find(std::string(".sqlite") + kUnfinishedSuffix) != std::string::npos;
}

Error damaged(const std::string& path, const std::string& cause) {
  return damaged_file(path, marks(), cause);
}

void check_pages(const Database& db) {
  if (const std::string fault = page_fault(db, false); !fault.empty())
    throw Failure(Failure::Kind::BadInput, damaged(db.path(), fault).message);
}

Result<bool> check_file(const std::string& path) {
  std::error_code error;
  if (path.ends_with(kUnfinishedSuffix))
    return fail("{}: this trace was never finished: its launch is still running, or was killed; "
                "the rows in it are incomplete, so record it again",
                path);
  if (std::filesystem::is_directory(path, error))
    return fail("{}: is a directory, not a trace; traces are in RESULTS/traces/*.sqlite", path);
  if (!std::filesystem::exists(path, error)) {
    if (std::filesystem::exists(path + kUnfinishedSuffix, error))
      return fail("{}: not there yet: only the unfinished {}{} exists; its launch is still "
                  "running, or was killed",
                  path,
                  std::filesystem::path(path).filename().string(),
                  kUnfinishedSuffix);
    return fail("{}: no such file; the traces of a results directory are in its folder traces/",
                path);
  }
  return check_sqlite_file(path, marks());
}

} // namespace assay::trace_schema
