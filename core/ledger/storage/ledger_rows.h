// Rows of the ledger to and from SQLite, shared by its readers and its one writer.
#pragma once

#include "core/ledger/ledger.h"

namespace assay {
class Database;
}

namespace assay::ledger_rows {

LedgerData read(const Database& db); // all tables but meters and readings, in one snapshot
Meters read_meters(const Database& db);
// Its two parts; `schema` is the file's own.
void read_plan(const Database& db, std::int64_t schema, LedgerData& data);
void read_measured(const Database& db, std::int64_t schema, LedgerData& data);

// Callers hold a transaction. Ids of cells and variants are kept; those of visits are SQLite's.
void insert_plan(const Database& db, const LedgerData& plan);
std::int64_t insert_launch(const Database& db, const LaunchRow& row); // returns the new id
void update_identity(const Database& db,
                     std::int64_t launch,
                     const Identity& identity,
                     const std::string& build_order);
void insert_visits(const Database& db, const std::vector<VisitRow>& rows);
void insert_metrics(const Database& db, const std::vector<MetricRow>& rows);
void insert_gates(const Database& db, const std::vector<GateRow>& rows);
void insert_calibrations(const Database& db, const std::vector<CalibrationRow>& rows);
void insert_readings(const Database& db,
                     std::int64_t launch,
                     const std::vector<MeterRow>& meters,
                     const std::vector<MeterReading>& readings);
void insert_events(const Database& db, const std::vector<EventRow>& rows);

} // namespace assay::ledger_rows
