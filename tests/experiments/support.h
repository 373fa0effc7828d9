// Shared by the tests of the engine: a scratch directory, a small plan, the fake worker.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "experiments/engine/runner.h"
#include "experiments/plan/matrix/matrix.h"
#include "experiments/plan/plan.h"
#include "tests/paths.h"
#include "tests/scratch.h"

namespace assay::test {

// Two cells (2 + 1 levels beside their references) and few rounds.
inline const char* const kSmallMatrix = R"(
version = 1
[experiment]
name = "small"
seed = 7
launches = 2
[trace]
rounds = 3
[base]
preset = "tiny"
[[cell]]
name = "ema"
optimization = "ema_swap"
rounds = 6
[[cell]]
name = "guard"
optimization = "bf16_guard"
set = { bf16_delta_inputs = true }
rounds = 6
)";

inline Plan small_plan(const Scratch& scratch, const std::string& matrix = kSmallMatrix) {
  const std::string data = "base.data=\"" + scratch.write("corpus.txt", "some text") + "\"";
  return value_or_throw(make_plan(value_or_throw(parse_matrix(matrix, "small.toml", {data})), {}));
}

// Sets the fake worker's behaviour for the life of this object.
class FakeBehaviour {
public:
  explicit FakeBehaviour(const std::string& text) { ::setenv("ASSAY_FAKE", text.c_str(), 1); }
  ~FakeBehaviour() { ::unsetenv("ASSAY_FAKE"); }
  FakeBehaviour(const FakeBehaviour&) = delete;
  FakeBehaviour& operator=(const FakeBehaviour&) = delete;
};

inline RunOptions fake_options() {
  RunOptions options;
  options.worker_path = fake_worker();
  options.setup_timeout_seconds = 5;
  options.least_round_timeout_seconds = 1;
  return options;
}

template <class Body> std::string failure_of(Body body) {
  try {
    body();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

} // namespace assay::test
