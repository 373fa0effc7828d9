// A CUPTI of canned buffers: each flush hands over the buffers that the test queued, in order, the
// way CUPTI would from its own thread.
#pragma once

#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "profilers/cupti/cupti_api.h"
#include "profilers/trace/trace_session.h"

namespace assay::test {

struct FakeCupti {
  using Record = std::vector<std::uint64_t>; // the record's bytes, aligned
  struct Canned {
    std::vector<Record> records;
    bool invalid_tail = false; // GetNextRecord ends with INVALID_KIND
  };
  std::deque<Canned> queued, handed; // handed: by the index that the buffer's first bytes hold
  std::size_t dropped = 0;
  std::int64_t clock_offset_ns = 0;
  CUpti_BuffersCallbackRequestFunc requested = nullptr;
  CUpti_BuffersCallbackCompleteFunc completed = nullptr;
  std::vector<int> enabled;
  int finalized = 0;
  CUpti_ActivityKind refused_kind = CUPTI_ACTIVITY_KIND_INVALID;

  template <class Struct> static Record record(const Struct& value) {
    Record bytes((sizeof value + 7) / 8);
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
  }
  void deliver();
  CuptiApi api();
};

inline FakeCupti* fake = nullptr; // CUPTI's functions have no context

inline void FakeCupti::deliver() {
  while (!queued.empty()) {
    std::uint8_t* buffer = nullptr;
    std::size_t size = 0, records = 0;
    requested(&buffer, &size, &records);
    const std::size_t index = handed.size();
    handed.push_back(std::move(queued.front()));
    queued.pop_front();
    std::memcpy(buffer, &index, sizeof index);
    completed(nullptr, 0, buffer, size, 4096);
  }
}

inline CuptiApi FakeCupti::api() {
  CuptiApi api;
  api.path = "fake";
  api.get_version = [](std::uint32_t* v) { return *v = CUPTI_API_VERSION, CUPTI_SUCCESS; };
  api.result_string = [](CUptiResult, const char** text) {
    return *text = "fake error", CUPTI_SUCCESS;
  };
  api.timestamp = [](std::uint64_t* now) {
    *now = static_cast<std::uint64_t>(trace_now() + fake->clock_offset_ns);
    return CUPTI_SUCCESS;
  };
  api.register_callbacks = [](CUpti_BuffersCallbackRequestFunc request,
                              CUpti_BuffersCallbackCompleteFunc complete) {
    fake->requested = request;
    fake->completed = complete;
    return CUPTI_SUCCESS;
  };
  api.enable = [](CUpti_ActivityKind kind) {
    if (kind == fake->refused_kind) return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
    fake->enabled.push_back(kind);
    return CUPTI_SUCCESS;
  };
  api.disable = [](CUpti_ActivityKind kind) {
    std::erase(fake->enabled, static_cast<int>(kind));
    return CUPTI_SUCCESS;
  };
  api.enable_runtime_api = [](CUpti_CallbackId, std::uint8_t) { return CUPTI_SUCCESS; };
  api.enable_driver_api = [](CUpti_CallbackId, std::uint8_t) { return CUPTI_SUCCESS; };
  api.flush_all = [](std::uint32_t) { return fake->deliver(), CUPTI_SUCCESS; };
  api.next_record = [](std::uint8_t* buffer, std::size_t, CUpti_Activity** record) {
    std::size_t index = 0;
    std::memcpy(&index, buffer, sizeof index);
    Canned& canned = fake->handed.at(index);
    std::size_t next = 0;
    if (*record != nullptr)
      while (reinterpret_cast<CUpti_Activity*>(canned.records.at(next++).data()) != *record) {
      }
    if (next == canned.records.size())
      return canned.invalid_tail ? CUPTI_ERROR_INVALID_KIND : CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = reinterpret_cast<CUpti_Activity*>(canned.records[next].data());
    return CUPTI_SUCCESS;
  };
  api.dropped_records = [](CUcontext, std::uint32_t, std::size_t* count) {
    *count = fake->dropped;
    fake->dropped = 0; // reading resets
    return CUPTI_SUCCESS;
  };
  api.set_attribute = [](CUpti_ActivityAttribute, std::size_t*, void*) { return CUPTI_SUCCESS; };
  api.finalize = [] { return ++fake->finalized, CUPTI_SUCCESS; };
  api.set_thread_id_type = [](CUpti_ActivityThreadIdType) { return CUPTI_SUCCESS; };
  api.callback_name = [](CUpti_CallbackDomain, std::uint32_t id, const char** text) {
    if (id > 3) return CUPTI_ERROR_INVALID_PARAMETER;
    constexpr const char* kNames[] = {
        "", "cudaLaunchKernel_v7000", "cudaGetDevice_v3020", "cudaMemcpyAsync_v3020"};
    return *text = kNames[id], CUPTI_SUCCESS;
  };
  return api;
}

inline CUpti_ActivityKernel10 kernel(std::int64_t start,
                                     std::int64_t end,
                                     std::uint32_t correlation,
                                     const char* name = "_Z4gemmIfEvPT_") {
  CUpti_ActivityKernel10 r{};
  r.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  r.start = static_cast<std::uint64_t>(start);
  r.end = static_cast<std::uint64_t>(end);
  r.correlationId = correlation;
  r.streamId = 7;
  r.gridX = 3;
  r.blockX = 128;
  r.name = name;
  return r;
}

inline CUpti_ActivityAPI launch(std::int64_t start, std::int64_t end, std::uint32_t correlation) {
  CUpti_ActivityAPI r{};
  r.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  r.cbid = 1;
  r.start = static_cast<std::uint64_t>(start);
  r.end = static_cast<std::uint64_t>(end);
  r.processId = 42;
  r.threadId = 43;
  r.correlationId = correlation;
  return r;
}

} // namespace assay::test
