// Reading a ledger: rows of every table, in one snapshot.
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>

#include "core/ledger/covariates.h"
#include "core/ledger/ledger.h"
#include "core/ledger/ledger_rows.h"
#include "core/ledger/ledger_schema.h"
#include "core/ledger/looks.h"
#include "core/ledger/old_events.h"
#include "core/ledger/plan_json.h"
#include "core/lines.h"
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

// The columns of a row one after another, as its SELECT names them: a column is added in both lists
// at the same place, and no other number changes.
class InOrder {
public:
  explicit InOrder(const Statement& row) : row_(row) {}

  std::string text() { return row_.text(column_++); }
  std::int64_t integer() { return row_.integer(column_++); }
  int small() { return static_cast<int>(integer()); }
  bool flag() { return integer() != 0; }
  double real() { return row_.real(column_++); }
  std::optional<double> maybe_real() { return row_.maybe_real(column_++); }
  std::optional<std::int64_t> maybe_integer() { return row_.maybe_integer(column_++); }
  void read(std::optional<double>& value) { value = maybe_real(); }
  void read(std::optional<std::int64_t>& value) { value = maybe_integer(); }

private:
  const Statement& row_;
  int column_ = 0;
};

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
      since(schema, 2, "stages", "''") + ", " + since(schema, 3, "lints", "''") +
      " FROM claim ORDER BY position");
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
      since(schema, 7, "turns", "0") + ", " + since(schema, 9, "looks", "''") +
      " FROM cell ORDER BY id");
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
    row.turns = c.integer() != 0;
    std::optional<std::vector<int>> looks = parse_looks(c.text());
    if (!looks)
      throw Failure(Failure::Kind::BadInput,
                    ledger_schema::damaged(db.path(), "a cell has no list of looks").message);
    row.looks = *std::move(looks);
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
                          LaunchKind::Loss});
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
  // A message about the copy, which is gone when it is read, as one about the original.
  std::string about(std::string text, const std::string& original) const {
    for (std::size_t at = 0; (at = text.find(path(), at)) != std::string::npos;
         at += original.size())
      text.replace(at, path().size(), original);
    return text;
  }
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
  try {
    return read_file(copy.path(), Database::Mode::ReadWrite);
  } catch (const DatabaseError& error) {
    throw DatabaseError(error.code(), copy.about(error.what(), path));
  } catch (const Failure& failure) {
    throw Failure(failure.kind(), copy.about(failure.what(), path));
  }
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

LedgerData ledger_rows::read(const Database& db) {
  const Transaction snapshot(db, "BEGIN");
  const std::int64_t schema = db.integer("PRAGMA user_version");
  value_or_throw(ledger_schema::check_version(db.path(), schema));
  LedgerData data;
  data.spec = read_spec(db, schema);
  data.spec.schema = static_cast<int>(schema);
  data.optimizations = read_optimizations(db, schema);
  data.claims = read_claims(db, schema);
  data.cells = read_cells(db, schema);
  data.variants = read_variants(db, schema);
  data.costs = read_costs(db, schema);
  if (const std::string change = changed_plan(data); !change.empty())
    bad_input("{}: {}. Nothing that was measured can be judged by it: bring the ledger back from a "
              "copy, or run the matrix again into another directory",
              db.path(),
              change);
  data.launches = read_launches(db, schema);
  check_repetitions(data);
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
    const bool lacks = error.code() == SQLITE_ERROR; // a table or a column
    if (error.is_damaged() || lacks) return ledger_schema::damaged(path, error.what());
    return Error{error.what()};
  } catch (const Failure& error) {
    if (error.kind() == Failure::Kind::Internal)
      return ledger_schema::damaged(path, error.what()); // rows that no writer of ours leaves
    return Error{error.what()};
  }
}

} // namespace assay
