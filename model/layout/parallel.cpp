#include "model/layout/parallel.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <exception>
#include <latch>
#include <vector>

namespace assay {

void set_threads(int threads) {
  at::set_num_threads(threads);
  static const bool once = [threads] {
    at::set_num_interop_threads(threads);
    return true;
  }();
  static_cast<void>(once);
}

void in_parallel(std::int64_t count,
                 std::int64_t grain,
                 const std::function<void(std::int64_t begin, std::int64_t end)>& work) {
  if (count <= 0) return;
  const std::int64_t parts =
      std::clamp<std::int64_t>(count / std::max<std::int64_t>(grain, 1), 1, at::get_num_threads());
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(parts));
  const auto run = [&](std::int64_t part) noexcept {
    try {
      work(count * part / parts, count * (part + 1) / parts);
    } catch (...) {
      thrown[static_cast<std::size_t>(part)] = std::current_exception();
    }
  };
  std::latch others(parts - 1);
  for (std::int64_t part = 1; part < parts; ++part)
    at::launch([&run, &others, part] {
      run(part);
      others.count_down();
    });
  run(0);
  others.wait();
  for (const std::exception_ptr& error : thrown)
    if (error) std::rethrow_exception(error);
}

} // namespace assay
