// A small export of Nsight Systems with edits, imported, read and tiled.
#include "core/sqlite/database.h"
#include "tests/fuzz/edited_database.h"
#include "tests/fuzz/import_once.h"

namespace {

using namespace assay;

std::string good_export() {
  std::string path = fuzz::folder() / "good.sqlite";
  const Database db(path, Database::Mode::Create);
  db.execute(
      "CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);"
      "INSERT INTO StringIds VALUES (3,'void "
      "gemm(float*)'),(4,'gemm'),(5,'cudaLaunchKernel_v7000');"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INT, end INT, eventClass INT, globalTid INT, "
      "correlationId INT, nameId INT, returnValue INT);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INT, end INT, deviceId INT, contextId INT, "
      "streamId INT, correlationId INT, globalPid INT, demangledName INT, shortName INT);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start INT, end INT, deviceId INT, contextId INT, "
      "streamId INT, correlationId INT, bytes INT, copyKind INT);"
      "CREATE TABLE NVTX_EVENTS(start INT, end INT, eventType INT, text TEXT, globalTid INT);");
  for (int i = 0; i < 4; ++i) {
    const int t = 5000 + 1000 * i;
    db.execute(fmt::format(
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES({0}+100,{0}+110,0,16777223,{1},5,0);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES({0}+200,{0}+300,0,1,7,{1},1,3,4);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES({0}+400,{0}+420,0,1,7,{1},512,1);"
        "INSERT INTO NVTX_EVENTS VALUES({0},{0}+900,59,'step',16777223);"
        "INSERT INTO NVTX_EVENTS VALUES({0}+5,{0}+90,59,'aten::mm, seq = 9',16777223);",
        t,
        i + 1));
  }
  return path;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::EditedDatabase good(good_export());
  static const std::string path = fuzz::folder() / "edited.sqlite";
  good.write(path, data, size);
  fuzz::import_once(path);
  return 0;
}
