#include "model/ddp/gather_batches.h"

#include <algorithm>
#include <cstdint>

#include "model/layout/segments.h"

namespace assay {

namespace {

// `batch` is looked at on rank `root` alone.
Batch broadcast_batch(const Batch& batch,
                      const TrainConfig& config,
                      int root,
                      ProcessGroup& ranks) {
  const at::Device device = torch_device(config.device);
  const auto longs = at::TensorOptions().dtype(at::kLong);
  const bool sends = ranks.rank() == root;
  at::Tensor header =
      at::tensor({static_cast<std::int64_t>(batch.documents.cu_host.size()), batch.bytes}, longs)
          .to(device);
  ranks.broadcast(header, root, "batch/header");
  header = header.cpu();
  const std::int64_t* sizes = header.const_data_ptr<std::int64_t>();

  at::Tensor tokens = at::zeros({2, config.batch_rows, config.seq_len}, longs.device(device));
  at::Tensor borders = at::zeros({sizes[0]}, longs);
  if (sends) {
    tokens.copy_(at::stack({batch.tokens, batch.targets}));
    std::copy(batch.documents.cu_host.begin(),
              batch.documents.cu_host.end(),
              borders.mutable_data_ptr<std::int64_t>());
  }
  borders = borders.to(device);
  ranks.broadcast(tokens, root, "batch/tokens");
  ranks.broadcast(borders, root, "batch/borders");
  tokens = tokens.cpu();
  borders = borders.cpu();
  const std::int64_t* ends = borders.const_data_ptr<std::int64_t>();
  Batch copy = make_batch(tokens[0].contiguous(),
                          tokens[1].contiguous(),
                          std::vector<std::int32_t>(ends + 1, ends + borders.numel()));
  copy.bytes = sizes[1];
  prepare(copy, config);
  return copy;
}

} // namespace

std::vector<Batch>
gather_batches(const std::vector<Batch>& own, const TrainConfig& config, ProcessGroup& ranks) {
  std::vector<Batch> all;
  for (int root = 0; root < ranks.size(); ++root)
    for (const Batch& batch : own) all.push_back(broadcast_batch(batch, config, root, ranks));
  return all;
}

} // namespace assay
