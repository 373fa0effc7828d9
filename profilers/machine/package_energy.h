// PackageEnergy: what all CPU packages of the machine drew, by the kernel's powercap counters
// (RAPL; Documentation/power/powercap/powercap.rst). Most virtual machines have none, and most
// kernels let root alone read them.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace assay {

class PackageEnergy {
public:
  // `root`: of canned files in tests.
  explicit PackageEnergy(const std::string& root = "/sys/class/powercap");

  void begin();
  // Joules since begin(); nothing where a package's counter could not be read at both ends.
  std::optional<double> end() const;

private:
  struct Package {
    std::string counter;                 // path of energy_uj
    std::optional<double> range_uj;      // where it starts again from 0
    std::optional<double> at_begin = {}; // microjoules
  };
  std::vector<Package> packages_;
};

} // namespace assay
