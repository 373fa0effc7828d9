#include "model/ddp/same_parameters.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "core/lines.h"
#include "core/result.h"
#include "core/text.h"
#include "model/layout/segments.h"

namespace assay {

namespace {

// One line per parameter: "layers.0.q [32, 32] 0x1.8p+3".
std::vector<std::string> describe(const std::vector<Parameter>& parameters) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> sums;
  for (const Parameter& parameter : parameters) sums.push_back(parameter.tensor.sum(at::kDouble));
  const at::Tensor values = at::stack(sums).cpu();
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    lines.push_back(fmt::format("{} [{}] {:a}",
                                parameters[i].name,
                                fmt::join(parameters[i].tensor.sizes(), ", "),
                                values.const_data_ptr<double>()[i]));
  return lines;
}

// Its text where one list is shorter, too.
std::string line(const std::vector<std::string>& lines, std::size_t index) {
  return index < lines.size() ? lines[index] : "no further parameter";
}

} // namespace

void require_same_parameters(const std::vector<Parameter>& parameters,
                             Device device,
                             ProcessGroup& ranks) {
  const std::vector<std::string> own = describe(parameters);
  const std::vector<std::string> first =
      lines_of(broadcast_text(ranks, fmt::format("{}\n", fmt::join(own, "\n")), 0, device));
  std::size_t differs = 0;
  while (differs < std::max(own.size(), first.size()) && line(own, differs) == line(first, differs))
    ++differs;
  const bool same = differs == std::max(own.size(), first.size());

  at::Tensor found = at::zeros({ranks.size()}, at::kLong);
  if (!same) found[ranks.rank()] = 1;
  found = found.to(torch_device(device));
  ranks.all_reduce(found, "ddp/same_parameters");
  found = found.cpu();
  for (int rank = 0; rank < ranks.size(); ++rank) {
    if (found.const_data_ptr<std::int64_t>()[rank] == 0) continue;
    const std::string theirs = broadcast_text(ranks, same ? "" : line(own, differs), rank, device);
    const std::string expected =
        broadcast_text(ranks, same ? "" : line(first, differs), rank, device);
    bad_input("rank {} has another model than rank 0: its parameter '{}' is '{}' there (name, "
              "shape, sum of the values); start every rank with the same configuration, seed and "
              "checkpoint",
              rank,
              printable(theirs),
              printable(expected));
  }
}

} // namespace assay
