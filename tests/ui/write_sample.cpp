// Writes the results directory of the viewer's tests, for pictures: `ui_sample DIR`.
#include <cstdio>

#include "tests/ui/small_trace.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: ui_sample DIR\n");
    return 2;
  }
  try {
    assay::store_with_traces(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
