// A small ledger with edits.
#include <map>

#include "experiments/demo/synthetic_ledger.h"
#include "tests/fuzz/edited_database.h"
#include "tests/fuzz/input.h"
#include "tests/synthetic_cells.h"

namespace {

using namespace assay;

std::string good_ledger() {
  synthetic::SyntheticPlan plan;
  plan.launches = 1;
  plan.rounds = 3;
  plan.cells = {synthetic::two_level_cell(-0.1)};
  plan.claims = {synthetic::step_time_claim(0.05, 0.1)};
  const LedgerData data = synthetic::synthetic_ledger(plan);
  const std::string directory = fuzz::folder() / "good";
  {
    LedgerData planned = data;
    planned.launches.clear();
    const std::unique_ptr<Ledger> ledger = Ledger::open(directory, planned);
    for (const LaunchRow& launch : data.launches) {
      const std::int64_t id = ledger->start_launch(launch);
      ledger->set_identity(id, launch.identity, "");
      std::map<int, std::vector<VisitRow>> rounds;
      for (const VisitRow& visit : data.visits)
        if (visit.launch == launch.id) rounds[visit.round].push_back(visit);
      for (auto& [round, visits] : rounds) {
        for (VisitRow& visit : visits) visit.launch = id;
        ledger->commit_round(visits, {});
      }
    }
  }
  return directory + "/ledger.sqlite";
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::EditedDatabase good(good_ledger());
  static const std::string directory = fuzz::folder() / "edited";
  std::filesystem::create_directories(directory);
  good.write(directory + "/ledger.sqlite", data, size);
  fuzz::try_to([] { return read_ledger(directory); });
  return 0;
}
