#include "model/data/spread.h"

#include <algorithm>
#include <optional>
#include <string>

namespace assay {

namespace {

std::vector<std::uint64_t>
first_order(const DataSource& source, const TrainConfig& config, Split split) {
  return shuffled(source.corpus->documents(split), config.seed, 0);
}

} // namespace

std::vector<double>
document_ends(const DataSource& source, const TrainConfig& config, Split split) {
  std::vector<double> ends;
  double all = 0;
  for (const std::uint64_t document : first_order(source, config, split))
    ends.push_back(all += static_cast<double>(source.corpus->bytes(document)));
  return ends;
}

std::vector<DataPosition> spread_positions(const DataSource& source,
                                           const TrainConfig& config,
                                           Split split,
                                           std::int64_t batches) {
  const Corpus& corpus = *source.corpus;
  const std::vector<std::uint64_t> order = first_order(source, config, split);
  const std::vector<double> ends = document_ends(source, config, split);
  const double step = (ends.empty() ? 0 : ends.back()) / static_cast<double>(batches);
  std::vector<DataPosition> places;
  double bytes = 0, positions = 0; // of the documents that are met, each time
  std::optional<std::size_t> known;
  std::uint64_t length = 0; // positions of document `known`
  for (std::int64_t i = 0; i < batches; ++i) {
    const double at = (static_cast<double>(i) + 0.5) * step;
    const auto index =
        static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), at) - ends.begin());
    if (index == ends.size()) return {}; // no text at all
    const double start = index == 0 ? 0 : ends[index - 1], size = ends[index] - start;
    if (known != index) {
      const std::optional<std::string> text = corpus.read(order[index]);
      length = text ? source.tokenizer->encode(*text).ids.size() : 0;
      known = index;
      bytes += size;
      positions += static_cast<double>(length);
      const double batch = static_cast<double>(config.batch_rows * config.seq_len);
      if (positions > 0 && step < batch * bytes / positions) return {};
    }
    const double share = (at - start) / size;
    places.push_back({0, index, static_cast<std::uint64_t>(share * static_cast<double>(length))});
  }
  return places;
}

} // namespace assay
