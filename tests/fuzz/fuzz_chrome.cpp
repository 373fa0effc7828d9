// JSON in the Chrome format, or gzip of it, imported, read and tiled.
#include "tests/fuzz/import_once.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace assay;
  static const std::string path = fuzz::folder() / "trace.json";
  fuzz::write_file(path, {reinterpret_cast<const char*>(data), size});
  fuzz::import_once(path);
  return 0;
}
