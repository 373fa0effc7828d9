#include "core/ledger/calibration_store.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/files/atomic_file.h"
#include "core/json_fault.h"
#include "core/ledger/calibration.h"

namespace assay {

namespace {

using nlohmann::ordered_json;

constexpr int kStoreSchema = 1;

CalibrationRow stored_row(const ordered_json& object) {
  CalibrationRow row;
  for_each_calibration_field(row,
                             [&](const char* name, auto& value) { object.at(name).get_to(value); });
  return row;
}

ordered_json store_object(const CalibrationRow& row) {
  ordered_json object;
  for_each_calibration_field(row,
                             [&](const char* name, const auto& value) { object[name] = value; });
  return object;
}

} // namespace

std::string calibration_store_path() {
  for (const auto& [variable, below] :
       {std::pair{"XDG_DATA_HOME", "assay"}, std::pair{"HOME", ".local/share/assay"}}) {
    const char* const root = std::getenv(variable);
    if (root != nullptr && *root != '\0')
      return (std::filesystem::path(root) / below / "calibration.json").string();
  }
  return "";
}

Result<std::vector<CalibrationRow>> read_calibration_store(const std::string& path) {
  std::vector<CalibrationRow> rows;
  if (std::error_code ignored; path.empty() || !std::filesystem::exists(path, ignored)) return rows;
  std::ifstream file(path);
  try {
    const ordered_json store = ordered_json::parse(file);
    if (const int schema = store.at("schema_version").get<int>(); schema != kStoreSchema)
      return fail("{}: has schema {}, and this build reads {}: use the newer Assay, or move the "
                  "file away and calibrate again",
                  path,
                  schema,
                  kStoreSchema);
    for (const ordered_json& object : store.at("calibrations")) rows.push_back(stored_row(object));
  } catch (const ordered_json::exception& error) {
    return fail("{}: cannot be read as the calibrations of this machine; move it away and run "
                "`assay calibrate DIR` again ({})",
                path,
                json_fault(error));
  }
  return rows;
}

void store_calibration(const std::string& path, const CalibrationRow& row) {
  std::vector<CalibrationRow> rows = value_or_throw(read_calibration_store(path));
  const auto known = std::find_if(rows.begin(), rows.end(), [&](const CalibrationRow& other) {
    return machine_key(other) == machine_key(row);
  });
  if (known == rows.end())
    rows.push_back(row);
  else if (known->utc <= row.utc)
    *known = row;
  ordered_json store{{"schema_version", kStoreSchema}, {"calibrations", ordered_json::array()}};
  for (const CalibrationRow& kept : rows) store["calibrations"].push_back(store_object(kept));
  std::error_code ignored; // writing names the path
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  write_file_atomically(path,
                        store.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

} // namespace assay
