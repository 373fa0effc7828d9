// `assay plan`: what a matrix will measure, how long it takes and how small an effect it can see.
#include "experiments/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "app/assay/matrix_options.h"
#include "app/assay/output/json_output.h"
#include "app/assay/output/terminal.h"
#include "app/assay/plan_budget.h"
#include "app/assay/programs.h"
#include "app/assay/time_limits.h"
#include "app/assay/verbs.h"
#include "app/command_line/program.h"
#include "core/ledger/ledger_schema.h"
#include "core/ledger/plan_difference.h"
#include "core/result.h"
#include "core/text.h"
#include "experiments/analysis/report.h"
#include "experiments/analysis/shape_warnings.h"
#include "experiments/analysis/wording.h"
#include "experiments/engine/probe.h"
#include "experiments/engine/stop_signal.h"
#include "experiments/evidence/cell_view.h"
#include "experiments/evidence/owed/plan_state.h"
#include "experiments/report/text_layout.h"
#include "experiments/report/text_sections.h"
#include "profilers/machine/nvml_sampler.h"
#include "profilers/machine/package_energy.h"

namespace assay::cli {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct PlanArguments {
  MatrixOptions matrix;
  std::string out;    // "": no earlier results
  std::string budget; // a duration; "": none
  bool no_probe = false, json = false;
  TerminalOptions terminal;
};

void note_nothing_taken(const std::string& directory, const std::string& why) {
  print_error(fmt::format("--out {}: {}, so the MDE takes nothing from it", directory, why),
              "note");
}

// Of the directory that `run --out` will continue, or that measured the same cells before.
std::optional<Report> earlier_results(const std::string& directory) {
  if (directory.empty()) return std::nullopt;
  const fs::path ledger = fs::path(directory) / ledger_schema::kFileName;
  std::error_code ignored;
  if (fs::exists(ledger, ignored)) return judge_results(value_or_throw(read_ledger(directory)));
  const bool there = fs::exists(directory, ignored);
  note_nothing_taken(directory, there ? "it contains no results" : "there is no such directory");
  return std::nullopt;
}

// Where nothing of earlier results could be used, whoever named them hears it.
void note_unused_results(const std::string& directory,
                         const Report& earlier,
                         const Plan& plan,
                         const PlanEstimate& estimate) {
  if (std::ranges::any_of(estimate.cells, &CellEstimate::mde_from_results)) return;
  const bool same_names = std::ranges::any_of(earlier.cells, [&](const CellReport& found) {
    return std::ranges::find(plan.ledger.cells, found.cell.name, &CellRow::name) !=
           plan.ledger.cells.end();
  });
  const std::string difference =
      same_names ? plan_difference(earlier.spec.plan_json, plan.ledger.spec.plan_json) : "";
  note_nothing_taken(directory,
                     fmt::format("it has measured no cell of this plan in {} launches or more{}",
                                 kProvisionalLaunches,
                                 difference.empty() ? "" : " (" + difference + ")"));
}

// For the logs of the probe; removed with this object.
class TemporaryDirectory {
public:
  TemporaryDirectory() : name_((fs::temp_directory_path() / "assay-plan-XXXXXX").string()) {
    if (::mkdtemp(name_.data()) == nullptr)
      bad_input("{}: no directory can be made in it", fs::temp_directory_path().string());
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(name_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& name() const { return name_; }

private:
  std::string name_;
};

using Probes = std::map<std::int64_t, ProbeResult>;

// A plan for a machine with a GPU may be made here: what does not need the GPU is printed.
bool has_no_gpu() {
  const auto gpus = list_gpus();
  return !gpus || gpus->empty();
}

// Short worker launches, for the time of a unit on this machine. Nothing after Ctrl-C. A cell that
// cannot run here is an error, since `assay run` would end by it, and leaves kBadInput.
std::optional<Probes> probe(const Plan& plan, int& exit_code) {
  const StopSignal signals;
  const TemporaryDirectory logs;
  RunOptions options;
  options.worker_path = program_path("assay-worker");
  const auto starting = [](const CellRow& cell) {
    fmt::print(stderr, "probing {}\n", printable(cell.name));
  };
  PlanProbes probes = probe_plan(plan, options, logs.name(), starting);
  if (StopSignal::count() > 0) return std::nullopt;
  std::set<std::string> warnings;
  for (const auto& [cell, result] : probes.by_cell)
    if (!result.warning.empty() && warnings.insert(result.warning).second)
      fmt::print(stderr, "warning: {}\n", result.warning);
  for (const ProbeFailure& failure : probes.failures) {
    const bool elsewhere = failure.on_gpu && has_no_gpu();
    if (!elsewhere) exit_code = kBadInput;
    print_error(fmt::format("the time of cell{} '{}' is unknown: {}",
                            failure.cells.size() == 1 ? "" : "s",
                            fmt::join(failure.cells, "', '"),
                            failure.text),
                elsewhere ? "note" : "error");
  }
  if (probes.skipped > 0)
    fmt::print(stderr,
               "note: {} more cell{} on cuda not timed, for the same reason\n",
               probes.skipped,
               probes.skipped == 1 ? "" : "s");
  return std::move(probes.by_cell);
}

// The row of a cell's design, or nullptr.
const OptimizationRow* design_of(const Plan& plan, std::int64_t cell) {
  const OptimizationRow* row = optimization_of(plan.ledger, plan.ledger.cell(cell));
  return row == nullptr || row->design.empty() ? nullptr : row;
}

// Of ln(time ratio).
std::optional<double> contrast_mde(const CellEstimate& cell, std::size_t contrast) {
  if (!cell.mde) return std::nullopt;
  return *cell.mde * cell.contrast_mde_factors[contrast];
}

void add_design(json& out, const OptimizationRow& row, const CellEstimate& cell) {
  out["design"] = row.design;
  out["comparisons"] = json::array();
  for (const auto& [from, to] : row.also_compare)
    out["comparisons"].push_back({{"baseline", from}, {"candidate", to}});
  out["contrasts"] = json::array();
  for (std::size_t i = 0; i < row.contrasts.size(); ++i) {
    json contrast = {{"name", row.contrasts[i].name}, {"kind", row.contrasts[i].kind}};
    if (const auto mde = contrast_mde(cell, i)) contrast["mde"] = std::expm1(*mde);
    out["contrasts"].push_back(std::move(contrast));
  }
}

// "a, b, c (main effect, MDE 1.2 %)": neighbours of one kind and MDE share it.
std::vector<std::string> contrast_texts(const OptimizationRow& row, const CellEstimate& cell) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < row.contrasts.size();) {
    const auto mde = contrast_mde(cell, i);
    const std::string about =
        contrast_kind_text(row.contrasts[i]) + (mde ? ", MDE " + share_text(std::expm1(*mde)) : "");
    std::vector<std::string> names;
    for (const std::size_t first = i;
         i < row.contrasts.size() && row.contrasts[i].kind == row.contrasts[first].kind &&
         cell.contrast_mde_factors[i] == cell.contrast_mde_factors[first];
         ++i)
      names.push_back(row.contrasts[i].name);
    texts.push_back(fmt::format("{} ({})", fmt::join(names, ", "), about));
  }
  return texts;
}

// "ladder; compares base -> amp, …; judges also amp x norm (interaction, MDE 1.2 %)"
std::string design_text(const OptimizationRow& row, const CellEstimate& cell) {
  std::vector<std::string> pairs;
  for (const auto& [from, to] : row.also_compare)
    pairs.push_back(fmt::format("{} -> {}", from, to));
  return fmt::format("{}; compares {}; judges also {}",
                     row.design,
                     fmt::join(pairs, ", "),
                     fmt::join(contrast_texts(row, cell), ", "));
}

json cell_json(const Plan& plan, const CellEstimate& cell) {
  json variants = json::array();
  for (const VariantRow* variant : variants_of(plan.ledger, cell.cell))
    variants.push_back(variant->name);
  json row = {{"cell", plan.ledger.cell(cell.cell).name},
              {"variants", variants},
              {"launches", cell.launches},
              {"least_launches", cell.least_launches},
              {"rounds", cell.rounds},
              {"loss_seeds", cell.loss_seeds},
              {"loss_steps", cell.loss_steps},
              {"energy_rounds", plan.ledger.cell(cell.cell).energy_rounds},
              {"memory_bytes", cell.memory_bytes},
              {"memory_measured", cell.memory_measured},
              {"trace_bytes", std::round(cell.trace_bytes)},
              {"mde_from_results", cell.mde_from_results}};
  if (!cell.mde_from_results) {
    row["pair_sd"] = cell.pair_sd;
    row["pair_sd_measured"] = cell.pair_sd_measured;
    row["process_sd"] = cell.process_sd;
  }
  if (cell.seconds) row["seconds"] = *cell.seconds;
  if (cell.least_seconds) row["least_seconds"] = *cell.least_seconds;
  if (cell.mde) row["mde"] = std::expm1(*cell.mde);
  if (const OptimizationRow* design = design_of(plan, cell.cell)) add_design(row, *design, cell);
  return row;
}

std::string range_text(int least, int most) {
  return least == most ? std::to_string(most) : fmt::format("{} to {}", least, most);
}

TableRows cell_rows(const Plan& plan, const PlanEstimate& estimate) {
  TableRows rows{{"cell", "variants", "launches", "rounds", "loss", "memory", "time", "MDE"}};
  for (const CellEstimate& cell : estimate.cells) {
    std::string variants;
    for (const VariantRow* variant : variants_of(plan.ledger, cell.cell))
      variants += (variants.empty() ? "" : ", ") + variant->name;
    rows.push_back(
        {plan.ledger.cell(cell.cell).name,
         variants,
         range_text(cell.least_launches, cell.launches),
         std::to_string(cell.rounds),
         cell.loss_seeds > 0 ? fmt::format("{} x {}", cell.loss_seeds, cell.loss_steps) : "-",
         human_bytes(static_cast<double>(cell.memory_bytes)),
         cell.seconds ? human_seconds(*cell.seconds) : "-",
         cell.mde ? share_text(std::expm1(*cell.mde)) : "-"});
  }
  return rows;
}

// Where the terminal is too narrow the variants have lines of their own.
void print_cells(TextWriter& out, TableRows rows, bool any_loss) {
  std::vector<bool> right{false, false, true, true, true, true, true, true};
  TableRows variants;
  const auto take_column = [&](std::size_t column) {
    for (std::vector<std::string>& row : rows) row.erase(row.begin() + static_cast<long>(column));
    right.erase(right.begin() + static_cast<long>(column));
  };
  if (!any_loss) take_column(4);
  if (table_width(rows) + 2 > out.width()) {
    for (std::size_t i = 1; i < rows.size(); ++i) variants.push_back({rows[i][0], rows[i][1]});
    take_column(1);
  }
  if (table_width(rows) + 2 <= out.width())
    out.columns(rows, right, 2);
  else
    print_section(out, as_section(rows, right, 1));
  for (const std::vector<std::string>& row : variants) out.line(row[0] + ": " + row[1], 2);
}

// "3.1 %", "1.2 to 3.1 %"
std::string range_of(const std::vector<double>& shares) {
  const auto [low, high] = std::minmax_element(shares.begin(), shares.end());
  return fmt::format(
      "{}{:.2g} %", *low < *high ? fmt::format("{:.2g} to ", *low * 100) : "", *high * 100);
}

// "the probe having shown that pairs scatter by 3.1 % (sd)", and where several things are known of
// the cells each with their number.
std::string scatter_text(const PlanEstimate& estimate, const std::string& directory) {
  std::vector<double> shown, assumed, between;
  std::size_t from_results = 0;
  for (const CellEstimate& cell : estimate.cells) {
    if (cell.mde_from_results)
      ++from_results;
    else
      (cell.pair_sd_measured ? shown : assumed).push_back(cell.pair_sd);
    if (cell.process_sd > 0) between.push_back(cell.process_sd);
  }
  std::vector<std::string> texts;
  const auto add = [&](std::size_t cells, const std::string& text) {
    const bool all = cells == estimate.cells.size();
    texts.push_back(all ? text
                        : fmt::format("{} of {} cells {}", cells, estimate.cells.size(), text));
  };
  if (from_results > 0)
    add(from_results, fmt::format("as launches and pairs scatter in {}", directory));
  if (!shown.empty())
    add(shown.size(),
        fmt::format("the probe having shown that pairs scatter by {} (sd)", range_of(shown)));
  if (!assumed.empty())
    add(assumed.size(), fmt::format("assuming that pairs scatter by {} (sd)", range_of(assumed)));
  if (!between.empty())
    add(between.size(),
        fmt::format("assuming that processes of their own scatter by {} (sd)", range_of(between)));
  return fmt::format("{}", fmt::join(texts, "; "));
}

std::string traces_text(const Plan& plan, const PlanEstimate& estimate) {
  if (estimate.trace_bytes == 0) return "";
  std::string text = " Traces about " + human_bytes(estimate.trace_bytes);
  if (plan.trace_budget_bytes && estimate.trace_bytes > *plan.trace_budget_bytes)
    text +=
        fmt::format(", more than [trace] max_gib ({}): cells whose trace would exceed it get none",
                    human_bytes(*plan.trace_budget_bytes));
  return text + ".";
}

std::string memory_text(const PlanEstimate& estimate) {
  const auto measured = std::ranges::count_if(estimate.cells, &CellEstimate::memory_measured);
  if (measured == 0) return " Memory by arithmetic on the shapes, which is rough.";
  return fmt::format(
      " Memory{} by the probe of the baseline, and by arithmetic for other variants.",
      measured == std::ssize(estimate.cells) ? "" : fmt::format(" of {} cells", measured));
}

// What the column MDE is; "" where no cell has one.
std::string mde_text(const Plan& plan, const PlanEstimate& estimate, const std::string& directory) {
  if (std::none_of(estimate.cells.begin(), estimate.cells.end(), [](const CellEstimate& cell) {
        return cell.mde.has_value();
      }))
    return "";
  return fmt::format(" MDE: smallest effect that this plan would detect ({:.4g} % power, alpha = "
                     "{:.4g}{}), {}.",
                     plan.ledger.spec.power * 100,
                     plan.ledger.spec.alpha,
                     estimate.judgements == 1 ? "" : fmt::format(" / {}", estimate.judgements),
                     scatter_text(estimate, directory));
}

std::string total_time_text(const PlanEstimate& estimate, const PlanArguments& options) {
  if (estimate.seconds && *estimate.least_seconds < *estimate.seconds)
    return fmt::format(
        "{} to {}", human_seconds(*estimate.least_seconds), human_seconds(*estimate.seconds));
  if (estimate.seconds) return human_seconds(*estimate.seconds);
  return options.no_probe ? "unknown without a probe"
                          : "unknown: the probe failed (see the message above)";
}

bool on_cpu_alone(const Plan& plan) {
  return std::ranges::all_of(plan.ledger.variants, [](const VariantRow& variant) {
    return nlohmann::json::parse(variant.config_json).value("device", "") == "cpu";
  });
}

std::string energy_text(const Plan& plan) {
  int rounds = 0;
  for (const CellRow& cell : plan.ledger.cells) rounds = std::max(rounds, cell.energy_rounds);
  if (rounds == 0) return "";
  PackageEnergy packages;
  packages.begin();
  const bool readable = !on_cpu_alone(plan) || packages.end().has_value();
  return fmt::format(
      " Energy: {} rounds of visits of {:.0f} s or more in each cell.{}",
      rounds,
      kEnergySeconds,
      readable ? ""
               : " This machine's kernel gives no energy of its CPU: it will stay unknown here.");
}

void print_plan(const Plan& plan, const PlanEstimate& estimate, const PlanArguments& options) {
  TextWriter out(options.terminal.style());
  out.line(
      fmt::format("{} (spec {})",
                  plan.ledger.spec.name,
                  plan.lacks.empty() ? plan.ledger.spec.hash : "not known yet: see the notes"));
  const bool any_loss = std::any_of(plan.ledger.cells.begin(),
                                    plan.ledger.cells.end(),
                                    [](const CellRow& cell) { return cell.loss_seeds > 0; });
  print_cells(out, cell_rows(plan, estimate), any_loss);
  for (const CellEstimate& cell : estimate.cells)
    if (const OptimizationRow* design = design_of(plan, cell.cell))
      out.line(plan.ledger.cell(cell.cell).name + ": " + design_text(*design, cell), 2);
  out.line(fmt::format("total time {}.{}{}{}{}{}",
                       total_time_text(estimate, options),
                       memory_text(estimate),
                       traces_text(plan, estimate),
                       any_loss ? " Loss: seeds x optimizer steps." : "",
                       energy_text(plan),
                       mde_text(plan, estimate, options.out)));
  for (const std::string& note : note_texts(plan)) out.line(note, 0, "note: ");
  for (const std::string& what : plan.lacks) out.line("`assay run` needs " + what, 0, "note: ");
  for (const std::string& text : shape_warnings(plan.ledger)) out.line(text, 0, "shape warning: ");
  fmt::print("{}", out.take());
}

// Nothing where nobody asks.
std::optional<BudgetChoice> best_for_budget(const PlanArguments& options,
                                            const Probes& probes,
                                            const std::optional<Report>& earlier) {
  if (options.budget.empty()) return std::nullopt;
  const double budget = value_or_throw(parse_duration(options.budget));
  return choose_for_budget(budget, [&](int launches, int rounds) {
    const Plan plan =
        options.matrix.load({.settings = {fmt::format("experiment.launches={}", launches),
                                          fmt::format("measure.rounds={}", rounds)}});
    return estimate(plan, probes, earlier ? &*earlier : nullptr);
  });
}

} // namespace

void add_plan(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("plan", "cells, launches, predicted time, memory and MDE of a matrix");
  auto options = std::make_shared<PlanArguments>();
  options->matrix.add_to(*command);
  command->add_option("--out",
                      options->out,
                      "results directory: cells that it has measured take their MDE from there");
  command
      ->add_option("--budget",
                   options->budget,
                   "how many launches and rounds detect the least effect in this time: 10m, 1h")
      ->type_name("TIME")
      ->check(duration());
  command->add_flag("--no-probe",
                    options->no_probe,
                    "do not run the short probe that predicts time; needs no training data");
  command->add_flag("--json", options->json, "print JSON");
  options->terminal.add_to(*command);
  command->callback([options, &exit_code] {
    if (options->no_probe && !options->budget.empty())
      bad_input("--budget needs the probe, which measures time; leave out --no-probe");
    const Plan plan = options->matrix.load({.needs_data = !options->no_probe});
    const std::optional<Report> earlier = earlier_results(options->out);
    const std::optional<Probes> probes = options->no_probe ? Probes() : probe(plan, exit_code);
    if (!probes) {
      fmt::print(stderr, "interrupted; --no-probe prints the plan without timing anything\n");
      exit_code = kIncomplete;
      return;
    }
    const PlanEstimate result = estimate(plan, *probes, earlier ? &*earlier : nullptr);
    if (earlier) note_unused_results(options->out, *earlier, plan, result);
    const std::optional<BudgetChoice> choice = best_for_budget(*options, *probes, earlier);
    if (!options->json) {
      print_plan(plan, result, *options);
      if (choice) print_budget(*choice, options->terminal.style());
      return;
    }
    json cells = json::array();
    for (const CellEstimate& cell : result.cells) cells.push_back(cell_json(plan, cell));
    json out = {{"name", plan.ledger.spec.name},
                {"spec", plan.ledger.spec.hash},
                {"cells", cells},
                {"pair_sd", result.pair_sd},
                {"pair_sd_measured", result.pair_sd_measured},
                {"trace_bytes", std::round(result.trace_bytes)},
                {"judgements", result.judgements},
                {"judged_alpha", result.judged_alpha},
                {"notes", note_texts(plan)},
                {"shape_warnings", shape_warnings(plan.ledger)},
                {"source_errors", source_errors(plan.ledger)}};
    if (choice) out["budget"] = budget_json(*choice);
    if (!plan.lacks.empty()) out["spec"] = nullptr;
    if (result.seconds) out["seconds"] = *result.seconds;
    if (result.least_seconds) out["least_seconds"] = *result.least_seconds;
    print_json(out);
  });
}

} // namespace assay::cli
