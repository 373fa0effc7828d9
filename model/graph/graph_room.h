// GraphRoom: what all CUDA graphs of a process share: the stream they are captured on and the
// memory of what they compute.
#pragma once

#include <ATen/cuda/MemPool.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdint>
#include <memory>

namespace assay {

// Replays never overlap and leave nothing in the pool, so graphs of several trainers take the
// memory of the largest. Lives as long as one of their owners, which may capture again after the
// last graph is gone; the next room begins with an empty pool.
class GraphRoom {
public:
  static std::shared_ptr<GraphRoom> shared();
  ~GraphRoom();
  GraphRoom(const GraphRoom&) = delete;
  GraphRoom& operator=(const GraphRoom&) = delete;

  c10::cuda::CUDAStream stream() const { return stream_; }
  c10::MempoolId_t pool() { return pool_.id(); }
  std::int64_t live_bytes();     // of tensors that are still in the pool
  std::int64_t reserved_bytes(); // of the pool: what a replay may write to

private:
  GraphRoom();

  c10::cuda::CUDAStream stream_;
  at::cuda::MemPool pool_;
};

// reserved_bytes() of the room there is, else 0.
std::int64_t graph_pool_bytes();

// On the room's stream while it lives: that stream first waits for the current one, which waits for
// it afterwards.
class GraphStreamGuard {
public:
  explicit GraphStreamGuard(const GraphRoom& room);
  ~GraphStreamGuard();
  GraphStreamGuard(const GraphStreamGuard&) = delete;
  GraphStreamGuard& operator=(const GraphStreamGuard&) = delete;

private:
  c10::cuda::CUDAStream outer_, inner_;
};

} // namespace assay
