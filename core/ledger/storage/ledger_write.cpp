// Inserting rows. Values are bound in the order of the columns.

#include <cmath>
#include <tuple>

#include "core/ledger/calibration.h"
#include "core/ledger/covariates.h"
#include "core/ledger/ledger_schema.h"
#include "core/ledger/looks.h"
#include "core/ledger/storage/ledger_rows.h"
#include "core/lines.h"
#include "core/sqlite/database.h"

namespace assay::ledger_rows {

namespace {

// Binds its arguments to ?1, ?2, … and runs the statement.
template <class... Values> void insert(Statement& statement, const Values&... values) {
  int index = 0;
  (statement.bind(++index, values), ...);
  statement.run();
}

// The columns build … environment.
auto identity_columns(const Identity& id) {
  return std::tie(id.build,
                  id.libtorch,
                  id.cuda,
                  id.driver,
                  id.gpu,
                  id.gpu_uuid,
                  id.host,
                  id.boot,
                  id.cpu,
                  id.kernel,
                  id.cores,
                  id.threads,
                  id.environment);
}

// NaN is stored as NULL and read back as NaN.
std::optional<double> finite(double value) {
  return std::isnan(value) ? std::nullopt : std::optional(value);
}

// Ids count from 1; 0 is stored as NULL.
std::optional<std::int64_t> known(std::int64_t id) {
  return id == 0 ? std::nullopt : std::optional(id);
}

void insert_contrasts(const Database& db, const OptimizationRow& row) {
  Statement row_in = db.prepare("INSERT INTO contrast VALUES (?1, ?2, ?3, ?4)");
  Statement term_in = db.prepare("INSERT INTO contrast_term VALUES (?1, ?2, ?3, ?4, ?5, ?6)");
  for (std::size_t c = 0; c < row.contrasts.size(); ++c) {
    const ContrastRow& contrast = row.contrasts[c];
    insert(row_in, row.name, static_cast<int>(c), contrast.name, contrast.kind);
    for (std::size_t t = 0; t < contrast.terms.size(); ++t) {
      const ContrastTerm& term = contrast.terms[t];
      insert(term_in,
             row.name,
             static_cast<int>(c),
             static_cast<int>(t),
             term.from,
             term.to,
             term.weight);
    }
  }
}

void insert_optimizations(const Database& db, const std::vector<OptimizationRow>& rows) {
  Statement row_in = db.prepare("INSERT INTO optimization VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");
  Statement level_in = db.prepare("INSERT INTO level VALUES (?1, ?2, ?3, ?4, ?5)");
  Statement pair_in = db.prepare("INSERT INTO also_compare VALUES (?1, ?2, ?3, ?4)");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const OptimizationRow& r = rows[i];
    insert(row_in,
           r.name,
           static_cast<int>(i),
           r.summary,
           r.equivalence,
           r.unit,
           r.scope,
           r.equality,
           r.design);
    for (std::size_t l = 0; l < r.levels.size(); ++l)
      insert(level_in,
             r.name,
             static_cast<int>(l),
             r.levels[l].name,
             r.levels[l].summary,
             r.levels[l].span);
    for (std::size_t p = 0; p < r.also_compare.size(); ++p)
      insert(
          pair_in, r.name, static_cast<int>(p), r.also_compare[p].first, r.also_compare[p].second);
    insert_contrasts(db, r);
  }
}

void insert_costs(const Database& db, const std::vector<StepCostRow>& rows) {
  Statement row_in = db.prepare("INSERT INTO step_cost VALUES (?1, ?2, ?3)");
  Statement operation_in =
      db.prepare("INSERT INTO operation_cost VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)");
  for (const StepCostRow& r : rows) {
    insert(row_in, r.variant, r.tokens, static_cast<int>(r.all_kernel_launches));
    for (std::size_t i = 0; i < r.operations.size(); ++i) {
      const OpCost& o = r.operations[i];
      insert(operation_in,
             r.variant,
             static_cast<int>(i),
             o.name,
             o.flops,
             o.bytes,
             o.kernels,
             to_string(o.peak));
    }
  }
}

} // namespace

void insert_plan(const Database& db, const LedgerData& plan) {
  const SpecRow& s = plan.spec;
  Statement spec_in =
      db.prepare("INSERT INTO spec VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, "
                 "?12, ?13, ?14, ?15)");
  insert(spec_in,
         s.hash,
         s.name,
         static_cast<std::int64_t>(s.seed),
         s.matrix_toml,
         s.plan_json,
         s.command,
         s.created_utc,
         s.launches,
         s.alpha,
         s.sesoi,
         s.power,
         s.limits.steal,
         s.limits.run_delay,
         s.limits.pairs,
         s.directory);
  insert_optimizations(db, plan.optimizations);
  Statement claim_in = db.prepare("INSERT INTO claim VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, "
                                  "?10, ?11, ?12, ?13, ?14, ?15, ?16)");
  for (std::size_t i = 0; i < plan.claims.size(); ++i) {
    const ClaimRow& c = plan.claims[i];
    insert(claim_in,
           c.id,
           static_cast<int>(i),
           c.optimization,
           c.from,
           c.to,
           c.text,
           c.source,
           c.metric,
           c.lo,
           c.hi,
           c.conditions,
           c.unmet,
           c.requires_json,
           c.stages,
           text_of(c.source_errors),
           c.of);
  }
  Statement cell_in = db.prepare("INSERT INTO cell VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, "
                                 "?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)");
  for (const CellRow& c : plan.cells)
    insert(cell_in,
           c.id,
           c.name,
           c.optimization,
           c.unit,
           c.config_json,
           c.rounds,
           c.visit_steps,
           c.discard_steps,
           c.launches,
           c.traced_rounds,
           c.loss_seeds,
           c.loss_rounds,
           c.loss_steps,
           c.loss_margin,
           c.apart ? 2 : static_cast<int>(c.turns),
           looks_text(c.looks),
           c.loss_target,
           c.energy_rounds);
  Statement variant_in = db.prepare("INSERT INTO variant VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");
  for (const VariantRow& v : plan.variants)
    insert(variant_in,
           v.id,
           v.cell,
           v.name,
           v.level,
           to_string(v.role),
           v.config_json,
           v.environment,
           v.worker);
  insert_costs(db, plan.costs);
  Statement note_in = db.prepare("INSERT INTO note VALUES (?1, ?2, ?3)");
  for (std::size_t i = 0; i < plan.notes.size(); ++i)
    insert(note_in, static_cast<int>(i), plan.notes[i].cell, plan.notes[i].text);
}

void insert_readings(const Database& db,
                     std::int64_t launch,
                     const std::vector<MeterRow>& meters,
                     const std::vector<MeterReading>& readings) {
  Statement meter_in =
      db.prepare("INSERT INTO meter(board, name, source, status) VALUES (?1, ?2, ?3, ?4) "
                 "ON CONFLICT (board, name) DO UPDATE SET status = excluded.status "
                 "WHERE status <> excluded.status");
  for (const MeterRow& meter : meters)
    insert(meter_in, meter.board, meter.name, meter.source, meter.status);
  Statement reading_in =
      db.prepare("INSERT OR REPLACE INTO reading SELECT ?1, ?2, id, ?3 FROM meter "
                 "WHERE board = ?4 AND name = ?5");
  for (const MeterReading& reading : readings) {
    const MeterRow& meter = meters.at(reading.meter);
    insert(reading_in, launch, reading.time_ns, reading.value, meter.board, meter.name);
  }
}

void insert_calibrations(const Database& db, const std::vector<CalibrationRow>& rows) {
  std::string columns, values;
  int count = 0;
  for_each_calibration_field(CalibrationRow(), [&](const char* name, const auto&) {
    columns += fmt::format("{}{}", count == 0 ? "" : ", ", name);
    values += fmt::format("{}?{}", count == 0 ? "" : ", ", count + 1);
    ++count;
  });
  Statement in =
      db.prepare(fmt::format("INSERT OR IGNORE INTO calibration({}) VALUES ({})", columns, values));
  for (const CalibrationRow& row : rows) {
    int index = 0;
    for_each_calibration_field(row,
                               [&](const char*, const auto& value) { in.bind(++index, value); });
    in.run();
  }
}

std::int64_t insert_launch(const Database& db, const LaunchRow& r) {
  Statement in =
      db.prepare("INSERT INTO launch(cell, kind, position, attempt, state, reason, "
                 "started_utc, ended_utc, build_order, "
                 "rounds_planned, steady, build, libtorch, cuda, driver, gpu, gpu_uuid, "
                 "host, boot, cpu, kernel, cores, "
                 "threads, environment, repeats) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, "
                 "?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, "
                 "?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25)");
  std::apply(
      [&](const auto&... identity) {
        insert(in,
               r.cell,
               to_string(r.kind),
               r.index,
               r.attempt,
               to_string(r.state),
               r.reason,
               r.started_utc,
               r.ended_utc,
               r.build_order,
               r.rounds_planned,
               static_cast<int>(r.steady),
               identity...,
               known(r.repeats));
      },
      identity_columns(r.identity));
  return db.last_id();
}

void update_identity(const Database& db,
                     std::int64_t launch,
                     const Identity& id,
                     const std::string& build_order) {
  Statement update = db.prepare("UPDATE launch SET build = ?2, libtorch = ?3, cuda = ?4, driver = "
                                "?5, gpu = ?6, gpu_uuid = ?7, host = ?8, "
                                "boot = ?9, cpu = ?10, kernel = ?11, cores = ?12, threads = ?13, "
                                "environment = ?14, build_order = ?15 "
                                "WHERE id = ?1");
  std::apply([&](const auto&... identity) { insert(update, launch, identity..., build_order); },
             identity_columns(id));
}

void insert_visits(const Database& db, const std::vector<VisitRow>& rows) {
  std::string columns = "launch, variant, round, position, warmup, steps, wall_ns, device_ns, "
                        "tokens, loss, skipped_steps";
  int count = 11;
  for_each_covariate(Covariates(), [&](const char* name, const auto&) {
    columns += fmt::format(", {}", name);
    ++count;
  });
  std::string values = "?1";
  for (int i = 2; i <= count; ++i) values += fmt::format(", ?{}", i);
  Statement in = db.prepare(fmt::format("INSERT INTO visit({}) VALUES ({})", columns, values));
  Statement sample_in = db.prepare("INSERT INTO sample VALUES (?1, ?2, ?3)");
  for (const VisitRow& v : rows) {
    int index = 0;
    const auto bind = [&](const auto&... value) { (in.bind(++index, value), ...); };
    bind(v.launch, v.variant, v.round, v.position, static_cast<int>(v.warmup), v.steps);
    bind(v.wall_ns, v.device_ns, v.tokens, v.loss, v.skipped_steps);
    for_each_covariate(v.covariates, [&](const char*, const auto& value) { bind(value); });
    in.run();
    const std::int64_t visit = db.last_id();
    for (std::size_t i = 0; i < v.sample_ns.size(); ++i)
      insert(sample_in, visit, static_cast<int>(i), v.sample_ns[i]);
  }
}

void insert_metrics(const Database& db, const std::vector<MetricRow>& rows) {
  Statement in = db.prepare("INSERT INTO metric(launch, variant, path, unit, value, detail) VALUES "
                            "(?1, ?2, ?3, ?4, ?5, ?6)");
  for (const MetricRow& m : rows) {
    insert(in, m.launch, known(m.variant), m.path, m.unit, finite(m.value), m.detail);
  }
}

void insert_gates(const Database& db, const std::vector<GateRow>& rows) {
  Statement in = db.prepare(
      "INSERT INTO gate(launch, variant, name, passed, value, bound, detail) VALUES (?1, "
      "?2, ?3, ?4, ?5, ?6, ?7)");
  for (const GateRow& g : rows)
    insert(in,
           g.launch,
           g.variant,
           g.name,
           static_cast<int>(g.passed),
           finite(g.value),
           finite(g.bound),
           g.detail);
}

void insert_events(const Database& db, const std::vector<EventRow>& rows) {
  Statement in =
      db.prepare("INSERT INTO event(launch, round, utc, kind, detail, variant, cause) VALUES "
                 "(?1, ?2, ?3, ?4, ?5, ?6, ?7)");
  for (const EventRow& e : rows)
    insert(in, e.launch, e.round, e.utc, e.kind, e.detail, known(e.variant), e.cause);
}

} // namespace assay::ledger_rows
