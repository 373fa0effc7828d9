// Runs a matrix with a given worker, as `assay run` does: a small program that tests can kill.
//   engine_driver MATRIX DATA RESULTS WORKER [--fork] [--stop-after SECONDS]
#include <cstdio>
#include <cstring>

#include "experiments/engine/runner.h"
#include "experiments/plan/matrix/matrix.h"

int main(int argc, char** argv) {
  using namespace assay;
  if (argc < 5) return 2;
  try {
    const std::string data = std::string("base.data=\"") + argv[2] + "\"";
    const Plan plan = value_or_throw(make_plan(value_or_throw(load_matrix(argv[1], {data})), {}));
    RunOptions options;
    options.worker_path = argv[4];
    for (int i = 5; i < argc; ++i) {
      if (std::strcmp(argv[i], "--fork") == 0) options.fork = true;
      if (std::strcmp(argv[i], "--stop-after") == 0)
        options.stop_after_seconds = std::atof(argv[i + 1]);
    }
    const RunSummary summary = run_plan(plan, argv[3], options);
    return summary.outcome == RunSummary::Outcome::Complete ? 0 : 6;
  } catch (const Failure& failure) {
    fmt::print(stderr, "error: {}\n", failure.what());
    return failure.kind() == Failure::Kind::BadInput ? 2 : 1;
  }
}
