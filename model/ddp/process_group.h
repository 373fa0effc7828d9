// ProcessGroup: the processes that train one model together. Every collective of ours passes
// through it, the gradient reducer's included, so that all are announced and counted in one place.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "model/config/train_config.h"

namespace assay {

struct RankPlace {
  int rank = 0, size = 1;
  int local_rank = 0; // on its machine: the index of its board
};

// Span of a CPU thread that waits for a collective with nothing left to compute: what traces call
// exposed communication. A GPU's is seen in its device events.
inline constexpr const char* kExposedSpan = "exposed_communication";
// Span in which memory for what ranks exchange is taken (model/memory/allocation_log.h).
inline constexpr const char* kRankBuffersSpan = "ranks/buffers";

class ProcessGroup {
public:
  // Gloo for Device::Cpu, NCCL for Device::Cuda (on the board `local_rank`). Returns once every
  // rank has come; throws c10::Error when the store or a rank cannot be reached. `on_issue` is
  // called before every collective, in the thread that issues it, with a fingerprint that must be
  // the same on every rank: "all_reduce ddp/bucket 262144 float".
  ProcessGroup(c10::intrusive_ptr<c10d::Store> store,
               RankPlace place,
               Device device,
               std::function<void(std::string)> on_issue = {});

  // Ends the group in order, as PyTorch's destroy_process_group does: waits for all that was
  // issued, then gives NCCL's communicators back. Every rank of a machine calls it, once its
  // trainers are gone; none issues anything afterwards. Waits for ever where a rank does not come:
  // call it while a RankWatchdog lives. A group that is destroyed without it aborts what still
  // runs.
  void close();

  int rank() const { return place_.rank; }
  int size() const { return place_.size; }
  const c10::intrusive_ptr<c10d::ProcessGroup>& process_group() { return group_; }

  // Replaces `sum` by its sum over the ranks. Waits on the CPU; ordered in the stream on CUDA.
  void all_reduce(at::Tensor& sum, const char* what);
  // The same without waiting; null while rehearsing. The caller keeps the tensor.
  c10::intrusive_ptr<c10d::Work> start_all_reduce(at::Tensor& sum, const char* what);
  // out [N * in] <- the `in` of every rank, in their order; and out <- this rank's part of the sum
  // of every rank's `in` [N * out]. As start_all_reduce(): without waiting, the caller keeps both.
  c10::intrusive_ptr<c10d::Work>
  start_all_gather(at::Tensor& out, at::Tensor& in, const char* what);
  c10::intrusive_ptr<c10d::Work>
  start_reduce_scatter(at::Tensor& out, at::Tensor& in, const char* what);
  // For what was started, as all_reduce() waits; null: nothing.
  void finish(const c10::intrusive_ptr<c10d::Work>& work) const;
  void broadcast(at::Tensor& tensor, int root, const char* what);
  void barrier(const char* what);

  // Announces a collective that LibTorch issues by itself.
  void announce(const char* operation, const char* what, std::int64_t elements, const char* dtype);
  void announce_all_reduce(const char* what, const at::Tensor& tensor);

  // While it lives, collectives are written down instead of issued: what a rank would do, found out
  // without a partner that may never answer.
  class Rehearsal {
  public:
    explicit Rehearsal(ProcessGroup& group);
    ~Rehearsal();
    Rehearsal(const Rehearsal&) = delete;
    Rehearsal& operator=(const Rehearsal&) = delete;
    std::vector<std::string> fingerprints() const;

  private:
    ProcessGroup& group_;
  };

private:
  void wait_for(c10d::Work& work) const;

  c10::intrusive_ptr<c10d::Store> store_;
  RankPlace place_;
  Device device_;
  std::function<void(std::string)> on_issue_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::atomic<bool> rehearsing_{false}, closed_{false};
  mutable std::mutex mutex_; // of rehearsed_
  std::vector<std::string> rehearsed_;
};

// The text of rank `root`, on every rank (the others give theirs in vain).
std::string broadcast_text(ProcessGroup& ranks, const std::string& text, int root, Device device);

} // namespace assay
