#include "kernels/attention/cudnn_plans.h"

#include <cudnn.h>
#include <cudnn_frontend.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/result.h"
#include "kernels/cuda_check.h"

namespace assay::cudnn_plans {

namespace fe = cudnn_frontend;

namespace {

constexpr int kFirstComputeCapability = 90; // below, cuDNN has no backward pass of packed documents

// The front end takes the pointers of a call in ascending order of these.
enum Id : std::int64_t {
  kIdLengths = 1,
  kIdQ,
  kIdK,
  kIdV,
  kIdOut,
  kIdStats,
  kIdGradOut,
  kIdGradQ,
  kIdGradK,
  kIdGradV,
  kIdOffsets = 100 // + the tensor's own
};

Kind kind_of(Id id, bool joined) {
  switch (id) {
  case kIdQ:
  case kIdK:
  case kIdGradQ:
  case kIdGradK:
    return kWideQk;
  case kIdV:
  case kIdGradV:
    return joined ? kWideQk : kWideV;
  case kIdStats:
    return kStats;
  default:
    return kWideV;
  }
}

// Elements from one token to the next.
std::int64_t token_of(const Shape& shape, int kind) {
  const std::int64_t widths[kKinds] = {(shape.joined ? 3 : 1) * shape.width_qk, shape.width_v, 1};
  return shape.heads * widths[kind];
}

void check(fe::error_t status, const char* what) {
  if (status.is_bad()) internal_error("cuDNN, {}: {}", what, status.get_message());
}
void check(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS)
    internal_error("cuDNN, {}: {}", what, cudnnGetErrorString(status));
}

// Every tensor is [documents, heads, longest, width] with our strides; packed, a document begins at
// its offset instead of a multiple of the first stride.
class GraphBuilder {
public:
  using Graph = std::shared_ptr<fe::graph::Graph>;
  using Tensor = fe::graph::Tensor_attributes;

  explicit GraphBuilder(const Shape& shape)
      : s_(shape), graph_(std::make_shared<fe::graph::Graph>()) {
    graph_->set_io_data_type(io());
    graph_->set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  Graph forward() {
    fe::graph::SDPA_attributes a;
    a.set_name("attention").set_generate_stats(true);
    mask(a);
    auto [out, stats] = graph_->sdpa(input(q()), input(k()), input(v()), a);
    output(out, tensor(kIdOut, "out", s_.width_v));
    output(stats, stats_tensor());
    return graph_;
  }

  Graph backward() {
    fe::graph::SDPA_backward_attributes a;
    a.set_name("attention_backward");
    mask(a);
    // Without this the sums take documents * longest tokens: gigabytes instead of 146 MiB.
    if (s_.packed) a.set_max_total_seq_len_q(s_.tokens).set_max_total_seq_len_kv(s_.tokens);
    auto [dq, dk, dv] = graph_->sdpa_backward(input(q()),
                                              input(k()),
                                              input(v()),
                                              input(tensor(kIdOut, "out", s_.width_v)),
                                              input(tensor(kIdGradOut, "d_out", s_.width_v)),
                                              input(stats_tensor()),
                                              a);
    output(dq, tensor(kIdGradQ, "dq", s_.width_qk));
    output(dk, tensor(kIdGradK, "dk", s_.width_qk));
    output(dv, tensor(kIdGradV, "dv", s_.width_v));
    return graph_;
  }

private:
  fe::DataType_t io() const { return s_.fp16 ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16; }
  Tensor q() { return tensor(kIdQ, "q", s_.width_qk); }
  Tensor k() { return tensor(kIdK, "k", s_.width_qk); }
  Tensor v() { return tensor(kIdV, "v", s_.width_v); }
  Tensor stats_tensor() {
    Tensor t = tensor(kIdStats, "stats", 1).set_data_type(fe::DataType_t::FLOAT);
    return s_.packed ? t : t.set_stride({s_.longest * s_.heads, s_.longest, 1, 1});
  }
  Tensor tensor(Id id, const char* name, std::int64_t width) {
    const std::int64_t token = token_of(s_, kind_of(id, s_.joined));
    Tensor t;
    t.set_uid(id).set_name(name).set_data_type(io());
    t.set_dim({s_.documents, s_.heads, s_.longest, width})
        .set_stride({s_.longest * token, width, token, 1});
    if (s_.packed)
      t.set_ragged_offset(integers(kIdOffsets + id, s_.documents + 1, fe::DataType_t::INT64));
    return t;
  }
  std::shared_ptr<Tensor> integers(std::int64_t id, std::int64_t count, fe::DataType_t type) {
    Tensor t;
    t.set_uid(id).set_name("integers " + std::to_string(id)).set_data_type(type);
    return graph_->tensor(t.set_dim({count, 1, 1, 1}).set_stride({1, 1, 1, 1}));
  }
  std::shared_ptr<Tensor> input(const Tensor& t) { return graph_->tensor(t); }
  static void output(const std::shared_ptr<Tensor>& made, Tensor t) {
    made->set_output(true).set_uid(t.get_uid()).set_data_type(t.get_data_type());
    made->set_dim(t.get_dim()).set_stride(t.get_stride()).set_ragged_offset(t.get_ragged_offset());
  }
  // Aligned at the top left: the bottom right costs the backward pass a third more. Ragged offsets
  // require the mask of the lengths.
  template <class Attributes> void mask(Attributes& a) {
    a.set_attn_scale(static_cast<float>(s_.scale));
    a.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT).set_diagonal_band_right_bound(0);
    if (!s_.packed) return;
    const auto lengths = integers(kIdLengths, s_.documents, fe::DataType_t::INT32);
    a.set_padding_mask(true).set_seq_len_q(lengths).set_seq_len_kv(lengths);
  }

  const Shape& s_;
  Graph graph_;
};

// The pointers of a pass whose last tensor is `last`.
std::vector<void*> sorted(const Shape& shape, const Pointers& p, Id last) {
  const auto input = [](const void* x) { return const_cast<void*>(x); };
  void* const of[] = {nullptr,
                      nullptr,
                      input(p.q),
                      input(p.k),
                      input(p.v),
                      p.out,
                      p.stats,
                      input(p.d_out),
                      p.dq,
                      p.dk,
                      p.dv};
  const Table table = table_of(shape, p.table);
  std::vector<void*> all;
  all.reserve(2 * kIdGradV);
  if (shape.packed) all.push_back(table.lengths);
  for (std::int64_t id = kIdQ; id <= last; ++id) all.push_back(of[id]);
  for (std::int64_t id = kIdQ; shape.packed && id <= last; ++id)
    all.push_back(table.offsets[kind_of(static_cast<Id>(id), shape.joined)]);
  return all;
}

// Handle and plans of one device. Never destroyed: cuDNN may be unloaded before us.
struct DevicePlans {
  cudnnHandle_t handle = nullptr;
  std::map<Shape, std::unique_ptr<Plan>> plans;
};

struct Kept {
  std::mutex mutex; // of handles and plans: a call sets the stream of its handle
  std::map<int, DevicePlans> devices;
};

Kept& kept() {
  static Kept& all = *new Kept;
  return all;
}

int current_device() {
  int device = 0;
  ASSAY_CUDA(cudaGetDevice(&device));
  return device;
}

void require_board(int device) {
  int major = 0, minor = 0;
  ASSAY_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  ASSAY_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  if (10 * major + minor < kFirstComputeCapability)
    bad_input("mla_attention = cudnn needs a board of compute capability 9.0 or newer, this one "
              "has {}.{}: set mla_attention = flash_padded",
              major,
              minor);
}

} // namespace

class Plan {
public:
  Plan(const Shape& shape, cudnnHandle_t handle)
      : shape_(shape), handle_(handle), forward_(GraphBuilder(shape_).forward()),
        backward_(GraphBuilder(shape_).backward()) {
    // The first of the heuristics' plans that can be built.
    check(forward_->build(handle, {fe::HeurMode_t::A}), "plan of attention");
    check(backward_->build(handle, {fe::HeurMode_t::A}), "plan of attention's backward pass");
    check(forward_->get_workspace_size(forward_bytes), "workspace of attention");
    check(backward_->get_workspace_size(backward_bytes), "workspace of attention's backward pass");
  }
  void run(bool backward, const Pointers& p, cudaStream_t stream) const {
    const char* what = backward ? "attention's backward pass" : "attention";
    std::vector<void*> pointers = sorted(shape_, p, backward ? kIdGradV : kIdStats);
    const std::lock_guard lock(kept().mutex);
    check(cudnnSetStream(handle_, stream), what);
    check((backward ? backward_ : forward_)
              ->execute(handle_, pointers.data(), static_cast<int>(pointers.size()), p.workspace),
          what);
  }
  std::int64_t forward_bytes = 0, backward_bytes = 0;

private:
  Shape shape_;
  cudnnHandle_t handle_;
  GraphBuilder::Graph forward_, backward_;
};

bool Shape::operator<(const Shape& other) const {
  const auto all = [](const Shape& s) {
    return std::tuple(s.documents,
                      s.longest,
                      s.tokens,
                      s.heads,
                      s.width_qk,
                      s.width_v,
                      s.packed,
                      s.joined,
                      s.fp16,
                      s.scale);
  };
  return all(*this) < all(other);
}

Table table_of(const Shape& shape, void* memory) {
  const auto aligned = [](std::int64_t bytes) { return (bytes + 255) / 256 * 256; };
  Table table;
  auto* const begin = static_cast<std::byte*>(memory);
  table.documents = shape.documents;
  table.lengths = static_cast<std::int32_t*>(memory);
  table.bytes = aligned(shape.documents * 4);
  for (int kind = 0; kind < kKinds; ++kind) {
    table.token[kind] = token_of(shape, kind);
    if (memory != nullptr)
      table.offsets[kind] = reinterpret_cast<std::int64_t*>(begin + table.bytes);
    table.bytes += aligned((shape.documents + 1) * 8);
  }
  return table;
}

const Plan* find_plan(const Shape& shape) {
  const int device = current_device();
  const std::lock_guard lock(kept().mutex);
  const std::map<Shape, std::unique_ptr<Plan>>& plans = kept().devices[device].plans;
  const auto found = plans.find(shape);
  return found == plans.end() ? nullptr : found->second.get();
}

const Plan& plan_of(const Shape& shape) {
  if (const Plan* plan = find_plan(shape)) return *plan;
  const int device = current_device();
  require_board(device);
  const std::lock_guard lock(kept().mutex);
  DevicePlans& own = kept().devices[device];
  if (own.handle == nullptr) check(cudnnCreate(&own.handle), "first use of the device");
  std::unique_ptr<Plan>& plan = own.plans[shape];
  if (plan == nullptr) plan = std::make_unique<Plan>(shape, own.handle);
  return *plan;
}

std::int64_t forward_workspace_bytes(const Plan& plan) {
  return plan.forward_bytes;
}
std::int64_t backward_workspace_bytes(const Plan& plan) {
  return plan.backward_bytes;
}
void run_forward(const Plan& plan, const Pointers& pointers, cudaStream_t stream) {
  plan.run(false, pointers, stream);
}
void run_backward(const Plan& plan, const Pointers& pointers, cudaStream_t stream) {
  plan.run(true, pointers, stream);
}

} // namespace assay::cudnn_plans
