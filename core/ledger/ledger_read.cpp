// Reading a ledger: rows of every table, in one snapshot.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <unordered_map>

#include "core/ledger/covariates.h"
#include "core/ledger/ledger.h"
#include "core/ledger/ledger_rows.h"
#include "core/ledger/ledger_schema.h"
#include "core/ledger/old_events.h"
#include "core/ledger/plan_json.h"
#include "core/sqlite/database.h"

namespace assay {

namespace {

template <class E>
E from_text(const Database& db, const std::string& text, std::initializer_list<E> all) {
  for (const E value : all)
    if (to_string(value) == text) return value;
  internal_error("{}: unknown value '{}' in the ledger", db.path(), text);
}

// `column`, or the literal `absent` (several likewise), where the ledger's schema is older than the
// column.
std::string
since(std::int64_t schema, std::int64_t version, const char* column, const char* absent) {
  return schema >= version ? column : absent;
}

SpecRow read_spec(const Database& db, std::int64_t schema) {
  Statement s =
      db.prepare("SELECT hash, name, seed, matrix_toml, plan_json, command, created_utc, "
                 "launches, alpha, sesoi, power, " +
                 since(schema, 5, "steal_limit, run_delay_limit, pairs_limit", "NULL, NULL, NULL") +
                 " FROM spec");
  if (!s.step()) internal_error("{}: the ledger contains no plan", db.path());
  SpecRow row;
  row.hash = s.text(0);
  row.name = s.text(1);
  row.seed = static_cast<std::uint64_t>(s.integer(2));
  row.matrix_toml = s.text(3);
  row.plan_json = s.text(4);
  row.command = s.text(5);
  row.created_utc = s.text(6);
  row.launches = static_cast<int>(s.integer(7));
  row.alpha = s.real(8);
  row.sesoi = s.real(9);
  row.power = s.real(10);
  row.limits = {s.maybe_real(11).value_or(row.limits.steal),
                s.maybe_real(12).value_or(row.limits.run_delay),
                s.maybe_real(13).value_or(row.limits.pairs)};
  return row;
}

std::vector<OptimizationRow> read_optimizations(const Database& db) {
  std::vector<OptimizationRow> rows;
  Statement s = db.prepare("SELECT name, summary, equivalence, unit, scope, equality "
                           "FROM optimization ORDER BY position");
  while (s.step())
    rows.push_back({s.text(0), s.text(1), s.text(2), s.text(3), s.text(4), s.text(5), {}, {}});
  for (OptimizationRow& row : rows) {
    Statement levels = db.prepare(
        "SELECT name, summary, span FROM level WHERE optimization = ?1 ORDER BY position");
    levels.bind(1, row.name);
    while (levels.step()) row.levels.push_back({levels.text(0), levels.text(1), levels.text(2)});
    Statement pairs = db.prepare("SELECT from_level, to_level FROM also_compare "
                                 "WHERE optimization = ?1 ORDER BY position");
    pairs.bind(1, row.name);
    while (pairs.step()) row.also_compare.emplace_back(pairs.text(0), pairs.text(1));
  }
  return rows;
}

std::vector<ClaimRow> read_claims(const Database& db, std::int64_t schema) {
  std::vector<ClaimRow> rows;
  Statement s = db.prepare(
      "SELECT id, optimization, from_level, to_level, text, source, metric, lo, hi, conditions, "
      "unmet, requires_json, " +
      since(schema, 2, "stages", "''") + ", " + since(schema, 3, "lints", "''") +
      " FROM claim ORDER BY position");
  while (s.step()) {
    ClaimRow row{s.text(0),
                 s.text(1),
                 s.text(2),
                 s.text(3),
                 s.text(4),
                 s.text(5),
                 s.text(6),
                 s.real(7),
                 s.real(8),
                 s.text(9),
                 s.text(10),
                 s.text(11),
                 s.text(12),
                 s.text(13)};
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
      since(schema, 4, "loss_seeds, loss_rounds, loss_steps, loss_margin", "0, 0, 0, 0.0") +
      " FROM cell ORDER BY id");
  while (s.step()) {
    CellRow row;
    row.id = s.integer(0);
    row.name = s.text(1);
    row.optimization = s.text(2);
    row.unit = s.text(3);
    row.config_json = s.text(4);
    row.rounds = static_cast<int>(s.integer(5));
    row.visit_steps = static_cast<int>(s.integer(6));
    row.discard_steps = static_cast<int>(s.integer(7));
    row.launches = static_cast<int>(s.integer(8));
    row.traced_rounds = static_cast<int>(s.integer(9));
    row.loss_seeds = static_cast<int>(s.integer(10));
    row.loss_rounds = static_cast<int>(s.integer(11));
    row.loss_steps = static_cast<int>(s.integer(12));
    row.loss_margin = s.real(13);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<VariantRow> read_variants(const Database& db) {
  std::vector<VariantRow> rows;
  Statement s =
      db.prepare("SELECT id, cell, name, level, role, config_json FROM variant ORDER BY id");
  while (s.step()) {
    const Role role = from_text(db, s.text(4), {Role::Reference, Role::Level, Role::Control});
    rows.push_back({s.integer(0), s.integer(1), s.text(2), s.text(3), role, s.text(5)});
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

std::vector<LaunchRow> read_launches(const Database& db, std::int64_t schema) {
  std::vector<LaunchRow> rows;
  Statement s = db.prepare(
      "SELECT id, cell, kind, position, attempt, state, reason, started_utc, ended_utc, "
      "build_order, rounds_planned, steady, build, libtorch, cuda, driver, gpu, gpu_uuid, host, "
      "boot, cpu, kernel, cores, threads, environment, " +
      since(schema, 5, "repeats", "NULL") + " FROM launch ORDER BY id");
  while (s.step()) {
    LaunchRow row;
    row.id = s.integer(0);
    row.cell = s.integer(1);
    row.kind = from_text(db,
                         s.text(2),
                         {LaunchKind::Parity,
                          LaunchKind::Timed,
                          LaunchKind::Memory,
                          LaunchKind::Traced,
                          LaunchKind::Loss});
    row.index = static_cast<int>(s.integer(3));
    row.attempt = static_cast<int>(s.integer(4));
    row.state = from_text(
        db,
        s.text(5),
        {LaunchState::Running, LaunchState::Complete, LaunchState::Partial, LaunchState::Failed});
    row.reason = s.text(6);
    row.started_utc = s.text(7);
    row.ended_utc = s.text(8);
    row.build_order = s.text(9);
    row.rounds_planned = static_cast<int>(s.integer(10));
    row.steady = s.integer(11) != 0;
    row.identity = {s.text(12),
                    s.text(13),
                    s.text(14),
                    s.text(15),
                    s.text(16),
                    s.text(17),
                    s.text(18),
                    s.text(19),
                    s.text(20),
                    s.text(21),
                    static_cast<int>(s.integer(22)),
                    static_cast<int>(s.integer(23)),
                    s.text(24)};
    row.repeats = s.maybe_integer(25).value_or(0);
    rows.push_back(std::move(row));
  }
  return rows;
}

void read_value(const Statement& s, int column, std::optional<double>& value) {
  value = s.maybe_real(column);
}
void read_value(const Statement& s, int column, std::optional<std::int64_t>& value) {
  value = s.maybe_integer(column);
}

std::vector<VisitRow> read_visits(const Database& db) {
  std::vector<VisitRow> rows;
  std::unordered_map<std::int64_t, std::size_t> place;
  std::string covariates;
  for_each_covariate(Covariates(), [&](const char* name, const auto&) {
    covariates += fmt::format(", {}", name);
  });
  Statement s = db.prepare(fmt::format("SELECT id, launch, variant, round, position, warmup, "
                                       "steps, wall_ns, device_ns, tokens, loss, skipped_steps{} "
                                       "FROM visit ORDER BY id",
                                       covariates));
  while (s.step()) {
    VisitRow row;
    row.id = s.integer(0);
    row.launch = s.integer(1);
    row.variant = s.integer(2);
    row.round = static_cast<int>(s.integer(3));
    row.position = static_cast<int>(s.integer(4));
    row.warmup = s.integer(5) != 0;
    row.steps = static_cast<int>(s.integer(6));
    row.wall_ns = s.integer(7);
    row.device_ns = s.maybe_integer(8);
    row.tokens = s.integer(9);
    row.loss = s.maybe_real(10);
    row.skipped_steps = s.integer(11);
    int column = 12;
    for_each_covariate(row.covariates,
                       [&](const char*, auto& value) { read_value(s, column++, value); });
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

// A private copy of ledger and WAL, for a directory in which SQLite cannot make its shared-memory
// file.
class PrivateCopy {
public:
  explicit PrivateCopy(const std::string& path) {
    std::string name = (std::filesystem::temp_directory_path() / "assay-ledger-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      bad_input("{}: is in a read-only directory and needs a copy in {}, which cannot be written",
                path,
                std::filesystem::temp_directory_path().string());
    directory_ = name;
    const auto target = directory_ / ledger_schema::kFileName;
    std::filesystem::copy_file(path, target);
    std::filesystem::copy_file(path + "-wal", target.string() + "-wal");
    ::chmod(target.c_str(), 0600);
    ::chmod((target.string() + "-wal").c_str(), 0600);
  }
  ~PrivateCopy() {
    std::error_code ignored; // a leftover copy in the temporary directory harms nobody
    std::filesystem::remove_all(directory_, ignored);
  }
  PrivateCopy(const PrivateCopy&) = delete;
  PrivateCopy& operator=(const PrivateCopy&) = delete;
  std::string path() const { return (directory_ / ledger_schema::kFileName).string(); }

private:
  std::filesystem::path directory_;
};

LedgerData read_file(const std::string& path, Database::Mode mode) {
  const Database db(path, mode);
  ledger_schema::check_pages(db);
  return ledger_rows::read(db);
}

// A finished ledger is a plain file. One in WAL mode needs a shared-memory file beside it; where
// the directory is read-only it is read in place, or, with a WAL, from a private copy.
LedgerData read_anywhere(const std::string& path) {
  try {
    return read_file(path, Database::Mode::ReadOnly);
  } catch (const DatabaseError& error) {
    if (!error.is_read_only()) throw;
  }
  std::error_code ignored;
  const auto wal = std::filesystem::file_size(path + "-wal", ignored);
  if (ignored || wal == 0) return read_file(path, Database::Mode::Immutable);
  const PrivateCopy copy(path);
  return read_file(copy.path(), Database::Mode::ReadWrite);
}

} // namespace

LedgerData ledger_rows::read(const Database& db) {
  const Transaction snapshot(db, "BEGIN");
  const std::int64_t schema = db.integer("PRAGMA user_version");
  value_or_throw(ledger_schema::check_version(db.path(), schema));
  LedgerData data;
  data.spec = read_spec(db, schema);
  data.optimizations = read_optimizations(db);
  data.claims = read_claims(db, schema);
  data.cells = read_cells(db, schema);
  data.variants = read_variants(db);
  data.costs = read_costs(db, schema);
  if (const std::string change = changed_plan(data); !change.empty())
    bad_input("{}: {}. Nothing that was measured can be judged by it: bring the ledger back from a "
              "copy, or run the matrix again into another directory",
              db.path(),
              change);
  data.launches = read_launches(db, schema);
  data.visits = read_visits(db);
  data.metrics = read_metrics(db);
  data.gates = read_gates(db);
  data.events = read_events(db, schema);
  if (schema < 5) name_retired_variants(data);
  return data;
}

Result<LedgerData> read_ledger(const std::string& directory) {
  const std::string path = (std::filesystem::path(directory) / ledger_schema::kFileName).string();
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::path(directory) / ledger_schema::kUnfinishedName,
                              ignored))
    return fail("{}: is what a merge that did not end has left; remove it and merge again",
                directory);
  if (Result<bool> ok = ledger_schema::check_file(path); !ok) return ok.error();
  try {
    return read_anywhere(path);
  } catch (const DatabaseError& error) {
    if (error.is_damaged()) return ledger_schema::damaged(path, error.what());
    return Error{error.what()};
  } catch (const Failure& error) {
    if (error.kind() == Failure::Kind::Internal)
      return ledger_schema::damaged(path, error.what()); // rows that no writer of ours leaves
    return Error{error.what()};
  }
}

const CellRow& LedgerData::cell(std::int64_t id) const {
  const auto found =
      std::find_if(cells.begin(), cells.end(), [id](const CellRow& row) { return row.id == id; });
  if (found == cells.end()) internal_error("the ledger has no cell {}", id);
  return *found;
}

const VariantRow& LedgerData::variant(std::int64_t id) const {
  const auto found = std::find_if(
      variants.begin(), variants.end(), [id](const VariantRow& row) { return row.id == id; });
  if (found == variants.end()) internal_error("the ledger has no variant {}", id);
  return *found;
}

const StepCostRow* LedgerData::cost(std::int64_t variant) const {
  const auto found = std::find_if(costs.begin(), costs.end(), [variant](const StepCostRow& row) {
    return row.variant == variant;
  });
  return found == costs.end() ? nullptr : &*found;
}

bool LedgerData::superseded(std::int64_t launch) const {
  return std::any_of(launches.begin(), launches.end(), [launch](const LaunchRow& row) {
    return row.repeats == launch &&
           (row.state == LaunchState::Complete || row.state == LaunchState::Partial);
  });
}

int LedgerData::planned_launches(const CellRow& cell) const {
  return cell.launches > 0 ? cell.launches : spec.launches;
}

const LaunchRow*
LedgerData::latest_launch(std::int64_t cell, LaunchKind kind, LaunchState state) const {
  const auto found = std::find_if(launches.rbegin(), launches.rend(), [&](const LaunchRow& row) {
    return row.cell == cell && row.kind == kind && row.state == state;
  });
  return found == launches.rend() ? nullptr : &*found;
}

std::string_view to_string(Role role) {
  constexpr std::string_view kNames[] = {"reference", "level", "control"};
  return kNames[static_cast<int>(role)];
}

std::string_view to_string(LaunchKind kind) {
  constexpr std::string_view kNames[] = {"parity", "timed", "memory", "traced", "loss"};
  return kNames[static_cast<int>(kind)];
}

std::string_view to_string(LaunchState state) {
  constexpr std::string_view kNames[] = {"running", "complete", "partial", "failed"};
  return kNames[static_cast<int>(state)];
}

} // namespace assay
