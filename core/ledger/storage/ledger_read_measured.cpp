// Reading what a ledger measured: launches, visits, metrics, gates and events.
#include <limits>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "core/ledger/covariates.h"
#include "core/ledger/ledger_schema.h"
#include "core/ledger/old_events.h"
#include "core/ledger/storage/ledger_columns.h"
#include "core/ledger/storage/ledger_rows.h"
#include "core/sqlite/database.h"

namespace assay::ledger_rows {

namespace {

std::vector<LaunchRow> read_launches(const Database& db, std::int64_t schema) {
  std::vector<LaunchRow> rows;
  Statement s = db.prepare(
      "SELECT id, cell, kind, position, attempt, state, reason, started_utc, ended_utc, "
      "build_order, rounds_planned, steady, build, libtorch, cuda, driver, gpu, gpu_uuid, host, "
      "boot, cpu, kernel, cores, threads, environment, " +
      since(schema, 5, "repeats", "NULL") + " FROM launch ORDER BY id");
  while (s.step()) {
    InOrder c(s);
    LaunchRow row;
    row.id = c.integer();
    row.cell = c.integer();
    row.kind = from_text(db,
                         c.text(),
                         {LaunchKind::Parity,
                          LaunchKind::Timed,
                          LaunchKind::Memory,
                          LaunchKind::Traced,
                          LaunchKind::Loss,
                          LaunchKind::Energy});
    row.index = c.small();
    row.attempt = c.small();
    row.state = from_text(
        db,
        c.text(),
        {LaunchState::Running, LaunchState::Complete, LaunchState::Partial, LaunchState::Failed});
    row.reason = c.text();
    row.started_utc = c.text();
    row.ended_utc = c.text();
    row.build_order = c.text();
    row.rounds_planned = c.small();
    row.steady = c.flag();
    Identity& id = row.identity;
    for (std::string* field : {&id.build,
                               &id.libtorch,
                               &id.cuda,
                               &id.driver,
                               &id.gpu,
                               &id.gpu_uuid,
                               &id.host,
                               &id.boot,
                               &id.cpu,
                               &id.kernel})
      *field = c.text();
    id.cores = c.small();
    id.threads = c.small();
    id.environment = c.text();
    row.repeats = c.maybe_integer().value_or(0);
    if (row.repeats >= row.id)
      internal_error(
          "launch {} measures launch {} again, which is not before it", row.id, row.repeats);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<VisitRow> read_visits(const Database& db, std::int64_t schema) {
  std::vector<VisitRow> rows;
  std::unordered_map<std::int64_t, std::size_t> place;
  std::string covariates;
  for_each_covariate(Covariates(), [&](const char* name, const auto&) {
    const bool absent = name == std::string_view("energy_j") && schema < 11;
    covariates += fmt::format(", {}", absent ? "NULL" : name);
  });
  Statement s = db.prepare(fmt::format("SELECT id, launch, variant, round, position, warmup, "
                                       "steps, wall_ns, device_ns, tokens, loss, skipped_steps{} "
                                       "FROM visit ORDER BY id",
                                       covariates));
  while (s.step()) {
    InOrder c(s);
    VisitRow row;
    row.id = c.integer();
    row.launch = c.integer();
    row.variant = c.integer();
    row.round = c.small();
    row.position = c.small();
    row.warmup = c.flag();
    row.steps = c.small();
    row.wall_ns = c.integer();
    if (row.steps < 1 || row.wall_ns < 1)
      internal_error("visit {} of launch {} counts {} units in {} ns",
                     row.id,
                     row.launch,
                     row.steps,
                     row.wall_ns);
    row.device_ns = c.maybe_integer();
    row.tokens = c.integer();
    row.loss = c.maybe_real();
    row.skipped_steps = c.integer();
    for_each_covariate(row.covariates, [&](const char*, auto& value) { c.read(value); });
    place.emplace(row.id, rows.size());
    rows.push_back(std::move(row));
  }
  Statement samples = db.prepare("SELECT visit, ns FROM sample ORDER BY visit, position");
  while (samples.step()) {
    const auto found = place.find(samples.integer(0));
    if (found == place.end()) internal_error("{}: a sample belongs to no visit", db.path());
    rows[found->second].sample_ns.push_back(samples.integer(1));
  }
  return rows;
}

double number(const Statement& s, int column) {
  return s.maybe_real(column).value_or(std::numeric_limits<double>::quiet_NaN());
}

std::vector<MetricRow> read_metrics(const Database& db) {
  std::vector<MetricRow> rows;
  Statement s =
      db.prepare("SELECT launch, variant, path, unit, value, detail FROM metric ORDER BY id");
  while (s.step())
    rows.push_back({s.integer(0), s.integer(1), s.text(2), s.text(3), number(s, 4), s.text(5)});
  return rows;
}

std::vector<GateRow> read_gates(const Database& db) {
  std::vector<GateRow> rows;
  Statement s = db.prepare(
      "SELECT launch, variant, name, passed, value, bound, detail FROM gate ORDER BY id");
  while (s.step())
    rows.push_back({s.integer(0),
                    s.integer(1),
                    s.text(2),
                    s.integer(3) != 0,
                    number(s, 4),
                    number(s, 5),
                    s.text(6)});
  return rows;
}

std::vector<EventRow> read_events(const Database& db, std::int64_t schema) {
  std::vector<EventRow> rows;
  Statement s =
      db.prepare("SELECT launch, round, utc, kind, detail, " +
                 since(schema, 5, "variant, cause", "NULL, ''") + " FROM event ORDER BY id");
  while (s.step())
    rows.push_back({s.integer(0),
                    static_cast<int>(s.integer(1)),
                    s.text(2),
                    s.text(3),
                    s.text(4),
                    s.maybe_integer(5).value_or(0),
                    s.text(6)});
  return rows;
}

// What no writer of ours leaves, and what would change verdicts unseen.
void check_repetitions(const LedgerData& data) {
  std::map<std::int64_t, const LaunchRow*> launches;
  std::map<std::tuple<std::int64_t, LaunchKind, int>, std::int64_t> counted;
  const auto place = [](const LaunchRow& row) { return std::tuple(row.cell, row.kind, row.index); };
  for (const LaunchRow& launch : data.launches) {
    launches[launch.id] = &launch;
    const auto repeated = launches.find(launch.repeats);
    if (launch.repeats != 0 &&
        (repeated == launches.end() || place(*repeated->second) != place(launch)))
      internal_error("launch {} measures launch {} again, which is another one of the plan",
                     launch.id,
                     launch.repeats);
    if (launch.kind != LaunchKind::Timed || !has_results(launch.state) ||
        data.superseded(launch.id))
      continue;
    if (const auto [first, is_new] = counted.try_emplace(place(launch), launch.id); !is_new)
      internal_error("launches {} and {} of one number would both count", first->second, launch.id);
  }
}

} // namespace

void read_measured(const Database& db, std::int64_t schema, LedgerData& data) {
  data.launches = read_launches(db, schema);
  check_repetitions(data);
  data.visits = read_visits(db, schema);
  data.metrics = read_metrics(db);
  data.gates = read_gates(db);
  data.events = read_events(db, schema);
  if (schema < 5) name_retired_variants(data);
}

Meters read_meters(const Database& db) {
  const Transaction snapshot(db, "BEGIN");
  const std::int64_t schema = db.integer("PRAGMA user_version");
  value_or_throw(ledger_schema::check_version(db.path(), schema));
  Meters found;
  if (schema < 12) return found;
  std::map<std::int64_t, std::size_t> places; // of meters, by id
  Statement meters = db.prepare("SELECT id, board, name, source, status FROM meter ORDER BY id");
  while (meters.step()) {
    places.emplace(meters.integer(0), found.meters.size());
    found.meters.push_back({meters.text(1), meters.text(2), meters.text(3), meters.text(4)});
  }
  Statement readings = db.prepare(
      "SELECT launch, time_ns, meter, value FROM reading ORDER BY launch, time_ns, meter");
  while (readings.step()) {
    const auto place = places.find(readings.integer(2));
    if (place == places.end()) internal_error("{}: a reading belongs to no meter", db.path());
    found.readings[readings.integer(0)].push_back(
        {readings.integer(1), place->second, readings.real(3)});
  }
  return found;
}

} // namespace assay::ledger_rows
