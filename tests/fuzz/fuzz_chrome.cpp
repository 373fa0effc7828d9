// JSON in the Chrome format, or gzip of it, imported, read and tiled.
#include "core/trace/trace_file.h"
#include "experiments/attribution/tiling.h"
#include "experiments/import/import_trace.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace assay;
  static const std::string path = fuzz::folder() / "trace.json",
                           copy = fuzz::folder() / "copy.sqlite";
  fuzz::write_file(path, {reinterpret_cast<const char*>(data), size});
  fuzz::try_to([] {
    std::error_code ignored;
    std::filesystem::remove(copy, ignored);
    const Result<std::string> made = import_trace(path, {"", copy});
    if (!made) return made;
    const Result<Trace> trace = read_trace(*made);
    if (!trace) std::abort(); // what we write we must be able to read
    tile_trace(*trace);
    return made;
  });
  return 0;
}
