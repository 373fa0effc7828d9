#include "profilers/cupti/cupti_decode.h"

#include <cxxabi.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string_view>

#include "core/trace/kernel_name.h"
#include "core/trace/trace_file.h"

namespace assay {

namespace {

constexpr std::size_t kLongestMangled = 16384; // the demangler takes quadratic time on longer ones

std::int64_t time_of(std::uint64_t value) {
  return static_cast<std::int64_t>(value);
}

template <class Record> const Record& as(const CUpti_Activity& record) {
  return reinterpret_cast<const Record&>(record);
}

// Fields that copies of all versions share, from a Memcpy6 or a MemcpyPtoP4.
template <class Record> CopyRow copy_row(const Record& r) {
  CopyRow row;
  row.start = time_of(r.start);
  row.end = time_of(r.end);
  row.device = r.deviceId;
  row.context = r.contextId;
  row.stream = r.streamId;
  row.correlation = r.correlationId;
  row.bytes = r.bytes;
  row.copy_kind = r.copyKind;
  row.src_kind = r.srcKind;
  row.dst_kind = r.dstKind;
  row.graph_node = r.graphNodeId;
  return row;
}

SetRow set_row(const CUpti_ActivityMemset4& r) {
  SetRow row;
  row.start = time_of(r.start);
  row.end = time_of(r.end);
  row.device = r.deviceId;
  row.context = r.contextId;
  row.stream = r.streamId;
  row.correlation = r.correlationId;
  row.bytes = r.bytes;
  row.value = r.value;
  row.memory_kind = static_cast<std::uint8_t>(r.memoryKind);
  row.graph_node = r.graphNodeId;
  return row;
}

SyncRow sync_row(const CUpti_ActivitySynchronization2& r) {
  SyncRow row;
  row.start = time_of(r.start);
  row.end = time_of(r.end);
  row.context = r.contextId;
  row.stream = r.streamId == CUPTI_SYNCHRONIZATION_INVALID_VALUE ? 0 : r.streamId;
  row.correlation = r.correlationId;
  row.sync_type = static_cast<std::uint8_t>(r.type);
  row.event_id = r.cudaEventId == CUPTI_SYNCHRONIZATION_INVALID_VALUE ? 0 : r.cudaEventId;
  return row;
}

// "cudaLaunchKernel_v7000" without its version.
std::string_view without_version(std::string_view name) {
  const std::size_t at = name.rfind("_v");
  const bool version = at != std::string_view::npos && at + 2 < name.size() &&
                       name.find_first_not_of("0123456789", at + 2) == std::string_view::npos;
  return version ? name.substr(0, at) : name;
}

} // namespace

std::string demangled_name(const char* mangled) {
  const std::string_view text(mangled);
  if (!text.starts_with("_Z") || text.size() > kLongestMangled) return std::string(text);
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> result(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), std::free);
  return status == 0 ? result.get() : std::string(text);
}

void CuptiDecoder::forget_names() {
  kernels_.clear();
  calls_.clear();
  markers_.clear();
}

const CuptiDecoder::KernelNames& CuptiDecoder::kernel_names(const char* mangled,
                                                            TraceWriter& names) {
  const char* text = mangled == nullptr ? "" : mangled;
  const auto found = kernels_.find(text);
  if (found != kernels_.end()) return found->second;
  const std::string demangled = demangled_name(text);
  return kernels_
      .emplace(text,
               KernelNames{names.intern(demangled),
                           names.intern(short_kernel_name(demangled)),
                           names.intern(text)})
      .first->second;
}

NameId
CuptiDecoder::api_name(CUpti_CallbackDomain domain, CUpti_CallbackId id, TraceWriter& names) {
  const std::uint64_t key = static_cast<std::uint64_t>(domain) << 32 | id;
  const auto found = calls_.find(key);
  if (found != calls_.end()) return found->second;
  const char* text = nullptr;
  const bool known = api_.callback_name(domain, id, &text) == CUPTI_SUCCESS && text != nullptr;
  const std::string name = known ? std::string(without_version(text)) : fmt::format("api {}", id);
  return calls_.emplace(key, names.intern(name)).first->second;
}

void CuptiDecoder::decode_kernel(const CUpti_Activity& record,
                                 TraceWriter& names,
                                 TraceBatch& into) {
  const auto& r = as<CUpti_ActivityKernel10>(record);
  const KernelNames& name = kernel_names(r.name, names);
  KernelRow row;
  row.start = time_of(r.start);
  row.end = time_of(r.end);
  row.device = r.deviceId;
  row.context = r.contextId;
  row.stream = r.streamId;
  row.correlation = r.correlationId;
  row.demangled = name.demangled;
  row.short_name = name.short_name;
  row.mangled = name.mangled;
  row.registers_per_thread = r.registersPerThread;
  row.grid = {r.gridX, r.gridY, r.gridZ};
  row.block = {r.blockX, r.blockY, r.blockZ};
  row.cluster = {static_cast<std::int32_t>(r.clusterX),
                 static_cast<std::int32_t>(r.clusterY),
                 static_cast<std::int32_t>(r.clusterZ)};
  row.static_shared_bytes = r.staticSharedMemory;
  row.dynamic_shared_bytes = r.dynamicSharedMemory;
  row.shared_executed_bytes = static_cast<std::int32_t>(r.sharedMemoryExecuted);
  row.local_bytes_per_thread = r.localMemoryPerThread;
  row.local_bytes_total = r.localMemoryTotal_v2;
  row.grid_id = r.gridId;
  row.graph_node = r.graphNodeId;
  row.graph = r.graphId;
  row.launch_type = r.launchType;
  row.cache_config = r.cacheConfig.both;
  into.kernels.push_back(row);
}

void CuptiDecoder::decode_api(const CUpti_Activity& record, TraceWriter& names, TraceBatch& into) {
  const auto& r = as<CUpti_ActivityAPI>(record);
  const bool driver = r.kind == CUPTI_ACTIVITY_KIND_DRIVER;
  ApiRow row;
  row.start = time_of(r.start);
  row.end = time_of(r.end);
  row.event_class = driver ? 1 : 0;
  row.global_tid = global_tid(r.processId, r.threadId);
  row.correlation = r.correlationId;
  row.name =
      api_name(driver ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API, r.cbid, names);
  row.return_value = r.returnValue;
  into.api.push_back(row);
}

void CuptiDecoder::decode_overhead(const CUpti_Activity& record,
                                   TraceWriter& names,
                                   TraceBatch& into) {
  const auto& r = as<CUpti_ActivityOverhead3>(record);
  constexpr std::string_view kNames[] = {"unknown", "CUPTI overhead"};
  OverheadRow row;
  row.start = time_of(r.start);
  row.end = time_of(r.end);
  row.type = static_cast<std::uint32_t>(r.overheadKind);
  if (r.objectKind == CUPTI_ACTIVITY_OBJECT_THREAD)
    row.global_tid = global_tid(r.objectId.pt.processId, r.objectId.pt.threadId);
  row.name = names.intern(kNames[row.type == 0 ? 0 : 1]);
  into.overhead.push_back(row);
}

// Start and end of an NVTX range come as two records with one id, possibly in two buffers. Our own
// spans are recorded elsewhere: their domain is left out.
void CuptiDecoder::decode_marker(const CUpti_Activity& record,
                                 TraceWriter& names,
                                 TraceBatch& into) {
  const auto& r = as<CUpti_ActivityMarker2>(record);
  const std::string_view domain = r.domain == nullptr ? "" : r.domain;
  const auto time = time_of(r.timestamp);
  const std::int64_t tid = global_tid(::getpid(),
                                      r.objectKind == CUPTI_ACTIVITY_OBJECT_THREAD
                                          ? static_cast<std::int64_t>(r.objectId.pt.threadId)
                                          : 0);
  if ((r.flags & CUPTI_ACTIVITY_FLAG_MARKER_END) != 0) {
    const auto open = markers_.find(r.id);
    if (open == markers_.end()) return; // began before the visit, or one of ours
    RangeRow row;
    row.start = open->second.start;
    row.end = time;
    row.global_tid = open->second.global_tid;
    row.text = open->second.text;
    row.domain = open->second.domain;
    into.ranges.push_back(row);
    markers_.erase(open);
    return;
  }
  if (domain == "assay" || r.name == nullptr) return;
  if ((r.flags & CUPTI_ACTIVITY_FLAG_MARKER_START) != 0) {
    markers_[r.id] = {time, names.intern(r.name), names.intern(domain), tid};
    return;
  }
  RangeRow row;
  row.start = time;
  row.event_type = 34;
  row.global_tid = tid;
  row.text = names.intern(r.name);
  row.domain = names.intern(domain);
  into.ranges.push_back(row);
}

bool CuptiDecoder::decode(const CUpti_Activity& record, TraceWriter& names, TraceBatch& into) {
  switch (record.kind) {
  case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
  case CUPTI_ACTIVITY_KIND_KERNEL:
    decode_kernel(record, names, into);
    return true;
  case CUPTI_ACTIVITY_KIND_MEMCPY:
    into.copies.push_back(copy_row(as<CUpti_ActivityMemcpy6>(record)));
    return true;
  case CUPTI_ACTIVITY_KIND_MEMCPY2: {
    const auto& r = as<CUpti_ActivityMemcpyPtoP4>(record);
    into.copies.push_back(copy_row(r));
    into.copies.back().src_device = static_cast<std::int32_t>(r.srcDeviceId);
    into.copies.back().dst_device = static_cast<std::int32_t>(r.dstDeviceId);
    return true;
  }
  case CUPTI_ACTIVITY_KIND_MEMSET:
    into.sets.push_back(set_row(as<CUpti_ActivityMemset4>(record)));
    return true;
  case CUPTI_ACTIVITY_KIND_RUNTIME:
  case CUPTI_ACTIVITY_KIND_DRIVER:
    decode_api(record, names, into);
    return true;
  case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
    into.syncs.push_back(sync_row(as<CUpti_ActivitySynchronization2>(record)));
    return true;
  case CUPTI_ACTIVITY_KIND_OVERHEAD:
    decode_overhead(record, names, into);
    return true;
  case CUPTI_ACTIVITY_KIND_MARKER:
    decode_marker(record, names, into);
    return true;
  default:
    return false;
  }
}

} // namespace assay
