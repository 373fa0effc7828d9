// write_small_trace PATH: the small trace of the unit tests, for script tests.
#include <cstdio>

#include "tests/core/trace_support.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    assay::test::write_small_trace(argv[1]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
  return 0;
}
