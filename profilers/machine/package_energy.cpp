#include "profilers/machine/package_energy.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

namespace assay {

namespace {

std::optional<double> read_number(const std::string& path) {
  std::ifstream file(path);
  double value = 0;
  if (!(file >> value) || value < 0) return std::nullopt;
  return value;
}

} // namespace

PackageEnergy::PackageEnergy(const std::string& root) {
  for (int i = 0;; ++i) {
    const std::string folder = fmt::format("{}/intel-rapl:{}", root, i);
    if (std::error_code none; !std::filesystem::is_directory(folder, none)) return;
    packages_.push_back({folder + "/energy_uj", read_number(folder + "/max_energy_range_uj")});
  }
}

void PackageEnergy::begin() {
  for (Package& package : packages_) package.at_begin = read_number(package.counter);
}

std::optional<double> PackageEnergy::end() const {
  if (packages_.empty()) return std::nullopt;
  double microjoules = 0;
  for (const Package& package : packages_) {
    const std::optional<double> now = read_number(package.counter);
    if (!now || !package.at_begin) return std::nullopt;
    double more = *now - *package.at_begin;
    if (more < 0 && package.range_uj) more += *package.range_uj;
    if (more < 0) return std::nullopt;
    microjoules += more;
  }
  return microjoules * 1e-6;
}

} // namespace assay
