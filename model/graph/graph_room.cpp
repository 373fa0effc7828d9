#include "model/graph/graph_room.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <mutex>

namespace assay {

namespace {

std::mutex room_mutex;
std::weak_ptr<GraphRoom> shared_room;

template <class Size> std::int64_t sum_of_segments(c10::MempoolId_t pool, Size size) {
  std::int64_t bytes = 0;
  for (const auto& segment : c10::cuda::CUDACachingAllocator::snapshot(pool, false).segments)
    if (segment.owner_private_pool_id == pool) bytes += static_cast<std::int64_t>(size(segment));
  return bytes;
}

void wait_for(const c10::cuda::CUDAStream& waiting, const c10::cuda::CUDAStream& other) {
  at::cuda::CUDAEvent event;
  event.record(other);
  event.block(waiting);
}

// Libraries keep a workspace for every stream that they were called on (cuBLAS 32 MiB and more), so
// all rooms of a process use one.
c10::cuda::CUDAStream stream_of_graphs() {
  static const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  return stream;
}

} // namespace

// `pool_` holds the pool's device memory alone. The host allocator refuses a pool whose last graph
// is gone, so the room holds the pinned memory of the pool too.
GraphRoom::GraphRoom() : stream_(stream_of_graphs()) {
  at::HostAllocator& host = *at::getHostAllocator(at::kCUDA);
  host.begin_allocate_to_pool(pool(), [](c10::Stream) { return false; });
  host.end_allocate_to_pool(pool());
}

GraphRoom::~GraphRoom() {
  at::getHostAllocator(at::kCUDA)->release_pool(pool());
}

std::shared_ptr<GraphRoom> GraphRoom::shared() {
  const std::lock_guard lock(room_mutex);
  std::shared_ptr<GraphRoom> there = shared_room.lock();
  if (!there) shared_room = there = std::shared_ptr<GraphRoom>(new GraphRoom);
  return there;
}

std::int64_t GraphRoom::live_bytes() {
  return sum_of_segments(pool(), [](const auto& segment) { return segment.active_size; });
}

std::int64_t GraphRoom::reserved_bytes() {
  return sum_of_segments(pool(), [](const auto& segment) { return segment.total_size; });
}

std::int64_t graph_pool_bytes() {
  std::shared_ptr<GraphRoom> there;
  {
    const std::lock_guard lock(room_mutex);
    there = shared_room.lock();
  }
  return there ? there->reserved_bytes() : 0;
}

GraphStreamGuard::GraphStreamGuard(const GraphRoom& owner)
    : outer_(c10::cuda::getCurrentCUDAStream()), inner_(owner.stream()) {
  wait_for(inner_, outer_);
  c10::cuda::setCurrentCUDAStream(inner_);
}

GraphStreamGuard::~GraphStreamGuard() {
  c10::cuda::setCurrentCUDAStream(outer_);
  wait_for(outer_, inner_);
}

} // namespace assay
