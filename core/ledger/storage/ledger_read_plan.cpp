// Reading what a ledger plans (spec, optimizations, claims, cells, variants, their cost, notes),
// and the calibrations of the machines that measured it.
#include "core/ledger/calibration.h"
#include "core/ledger/ledger_schema.h"
#include "core/ledger/looks.h"
#include "core/ledger/storage/ledger_columns.h"
#include "core/ledger/storage/ledger_rows.h"
#include "core/lines.h"
#include "core/sqlite/database.h"

namespace assay::ledger_rows {

namespace {

SpecRow read_spec(const Database& db, std::int64_t schema) {
  Statement s =
      db.prepare("SELECT hash, name, seed, matrix_toml, plan_json, command, created_utc, "
                 "launches, alpha, sesoi, power, " +
                 since(schema, 5, "steal_limit, run_delay_limit, pairs_limit", "NULL, NULL, NULL") +
                 ", " + since(schema, 6, "directory", "''") + " FROM spec");
  if (!s.step())
    throw Failure(Failure::Kind::BadInput,
                  ledger_schema::damaged(db.path(), "it contains no plan").message);
  InOrder c(s);
  SpecRow row;
  row.hash = c.text();
  row.name = c.text();
  row.seed = static_cast<std::uint64_t>(c.integer());
  row.matrix_toml = c.text();
  row.plan_json = c.text();
  row.command = c.text();
  row.created_utc = c.text();
  row.launches = c.small();
  row.alpha = c.real();
  row.sesoi = c.real();
  row.power = c.real();
  row.limits = {c.maybe_real().value_or(row.limits.steal),
                c.maybe_real().value_or(row.limits.run_delay),
                c.maybe_real().value_or(row.limits.pairs)};
  row.directory = c.text();
  return row;
}

void read_contrasts(const Database& db, OptimizationRow& row) {
  Statement s = db.prepare("SELECT c.name, c.kind, t.from_level, t.to_level, t.weight, t.position "
                           "FROM contrast c JOIN contrast_term t "
                           "ON t.optimization = c.optimization AND t.contrast = c.position "
                           "WHERE c.optimization = ?1 ORDER BY c.position, t.position");
  s.bind(1, row.name);
  while (s.step()) {
    if (s.integer(5) == 0) row.contrasts.push_back({s.text(0), s.text(1), {}});
    if (row.contrasts.empty()) continue; // damaged: the first term is gone
    row.contrasts.back().terms.push_back({s.text(2), s.text(3), s.real(4)});
  }
}

std::vector<OptimizationRow> read_optimizations(const Database& db, std::int64_t schema) {
  std::vector<OptimizationRow> rows;
  Statement s =
      db.prepare("SELECT name, summary, equivalence, unit, scope, equality, " +
                 since(schema, 8, "design", "''") + " FROM optimization ORDER BY position");
  while (s.step()) {
    rows.push_back({s.text(0), s.text(1), s.text(2), s.text(3), s.text(4), s.text(5), {}, {}});
    rows.back().design = s.text(6);
  }
  for (OptimizationRow& row : rows) {
    Statement levels = db.prepare(
        "SELECT name, summary, span FROM level WHERE optimization = ?1 ORDER BY position");
    levels.bind(1, row.name);
    while (levels.step()) row.levels.push_back({levels.text(0), levels.text(1), levels.text(2)});
    Statement pairs = db.prepare("SELECT from_level, to_level FROM also_compare "
                                 "WHERE optimization = ?1 ORDER BY position");
    pairs.bind(1, row.name);
    while (pairs.step()) row.also_compare.emplace_back(pairs.text(0), pairs.text(1));
    if (schema >= 8) read_contrasts(db, row);
  }
  return rows;
}

std::vector<ClaimRow> read_claims(const Database& db, std::int64_t schema) {
  std::vector<ClaimRow> rows;
  Statement s = db.prepare(
      "SELECT id, optimization, from_level, to_level, text, source, metric, lo, hi, conditions, "
      "unmet, requires_json, " +
      since(schema, 2, "stages", "''") + ", " + since(schema, 3, "lints", "''") + ", " +
      since(schema, 11, "phases", "''") + " FROM claim ORDER BY position");
  while (s.step()) {
    InOrder c(s);
    ClaimRow row;
    row.id = c.text();
    row.optimization = c.text();
    row.from = c.text();
    row.to = c.text();
    row.text = c.text();
    row.source = c.text();
    row.metric = c.text();
    row.lo = c.real();
    row.hi = c.real();
    row.conditions = c.text();
    row.unmet = c.text();
    row.requires_json = c.text();
    row.stages = c.text();
    row.source_errors = lines_of(c.text());
    row.of = c.text();
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<CellRow> read_cells(const Database& db, std::int64_t schema) {
  std::vector<CellRow> rows;
  Statement s = db.prepare(
      "SELECT id, name, optimization, unit, config_json, rounds, visit_steps, "
      "discard_steps, launches, " +
      since(schema, 2, "traced_rounds", "0") + ", " +
      since(schema, 4, "loss_seeds, loss_rounds, loss_steps, loss_margin", "0, 0, 0, 0.0") + ", " +
      since(schema, 7, "turns", "0") + ", " + since(schema, 9, "looks", "''") + ", " +
      since(schema, 11, "loss_target, energy_rounds", "0.0, 0") + " FROM cell ORDER BY id");
  while (s.step()) {
    InOrder c(s);
    CellRow row;
    row.id = c.integer();
    row.name = c.text();
    row.optimization = c.text();
    row.unit = c.text();
    row.config_json = c.text();
    row.rounds = c.small();
    row.visit_steps = c.small();
    row.discard_steps = c.small();
    row.launches = c.small();
    row.traced_rounds = c.small();
    row.loss_seeds = c.small();
    row.loss_rounds = c.small();
    row.loss_steps = c.small();
    row.loss_margin = c.real();
    const std::int64_t turns = c.integer(); // 2 since schema 11
    row.turns = turns != 0;
    row.apart = turns == 2;
    std::optional<std::vector<int>> looks = parse_looks(c.text());
    if (!looks)
      throw Failure(Failure::Kind::BadInput,
                    ledger_schema::damaged(db.path(), "a cell has no list of looks").message);
    row.looks = *std::move(looks);
    row.loss_target = c.real();
    row.energy_rounds = c.small();
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<VariantRow> read_variants(const Database& db, std::int64_t schema) {
  std::vector<VariantRow> rows;
  Statement s =
      db.prepare("SELECT id, cell, name, level, role, config_json, " +
                 since(schema, 7, "environment, worker", "'', ''") + " FROM variant ORDER BY id");
  while (s.step()) {
    const Role role = from_text(db, s.text(4), {Role::Reference, Role::Level, Role::Control});
    rows.push_back(
        {s.integer(0), s.integer(1), s.text(2), s.text(3), role, s.text(5), s.text(6), s.text(7)});
  }
  return rows;
}

std::vector<StepCostRow> read_costs(const Database& db, std::int64_t schema) {
  std::vector<StepCostRow> rows;
  if (schema < 5) return rows;
  Statement s =
      db.prepare("SELECT variant, tokens, all_kernel_launches FROM step_cost ORDER BY variant");
  while (s.step()) {
    StepCostRow row{s.integer(0), s.integer(1), s.integer(2) != 0, {}};
    Statement operations = db.prepare("SELECT name, flops, bytes, kernel_launches, peak FROM "
                                      "operation_cost WHERE variant = ?1 ORDER BY position");
    operations.bind(1, row.variant);
    while (operations.step())
      row.operations.push_back(
          {operations.text(0),
           operations.real(1),
           operations.real(2),
           operations.integer(3),
           from_text(db, operations.text(4), {Peak::Compute, Peak::Fp32, Peak::Fp8})});
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<NoteRow> read_notes(const Database& db, std::int64_t schema) {
  std::vector<NoteRow> rows;
  if (schema < 10) return rows;
  Statement s = db.prepare("SELECT cell, text FROM note ORDER BY position");
  while (s.step()) rows.push_back({s.text(0), s.text(1)});
  return rows;
}

std::vector<CalibrationRow> read_calibrations(const Database& db, std::int64_t schema) {
  std::vector<CalibrationRow> rows;
  if (schema < 10) return rows;
  std::string columns;
  for_each_calibration_field(CalibrationRow(), [&](const char* name, const auto&) {
    columns += (columns.empty() ? "" : ", ") + std::string(name);
  });
  Statement s = db.prepare("SELECT " + columns +
                           " FROM calibration ORDER BY utc, host, cpu, cores, gpu, device");
  while (s.step()) {
    InOrder c(s);
    CalibrationRow row;
    for_each_calibration_field(row, [&](const char*, auto& value) { c.read(value); });
    rows.push_back(std::move(row));
  }
  return rows;
}

} // namespace

void read_plan(const Database& db, std::int64_t schema, LedgerData& data) {
  data.spec = read_spec(db, schema);
  data.spec.schema = static_cast<int>(schema);
  data.optimizations = read_optimizations(db, schema);
  data.claims = read_claims(db, schema);
  data.cells = read_cells(db, schema);
  data.variants = read_variants(db, schema);
  data.costs = read_costs(db, schema);
  data.notes = read_notes(db, schema);
  data.calibrations = read_calibrations(db, schema);
}

} // namespace assay::ledger_rows
