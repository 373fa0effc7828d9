// The messages of engine and worker: one JSON object per line, requests on the worker's
// stdin, events on its file descriptor 3. docs/protocol.md is the reference. The constants are for
// both sides; the builders and parsers are the engine's.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/ledger/ledger.h"
#include "core/result.h"

namespace assay {

inline constexpr int kProtocolVersion = 4;
inline constexpr int kWorkerEventFd = 3;

// One variant of a launch, as the worker sees it. Its index in LaunchRequest is its name on the
// wire.
struct LaunchVariant {
  std::int64_t id = 0; // ledger id, never sent
  std::string name, level;
  Role role = Role::Level;
  std::string config_json;
  // Of its own process: what the engine starts, never sent.
  std::string environment = {}, worker = {};
};

// What a round of a traced launch records.
enum class Tracing { Off, WarmUp, Counted };

struct LaunchRequest {
  std::string kind; // timed | parity | memory | probe | traced | loss
  std::uint64_t seed = 0;
  std::string unit, optimization;
  std::string expect = {}; // equality of variants that no row of the table switches; else ""
  int visit_steps = 1, discard_steps = 0;
  std::vector<LaunchVariant> variants;
  std::vector<std::size_t> build_order =
      {};                        // variant indices; empty: the worker permutes them by `seed`
  std::string results_directory; // traced: the parent of traces/
  std::int64_t launch = 0;       // traced: the ledger's id, part of the files' names
  std::string cell;              // traced: its name, kept in the files
};

struct Built {
  std::string build_order; // variant names, separated by spaces
  double seconds = 0;
  int threads = 0;     // intra-op threads that the launch's configuration set
  std::string data;    // fingerprint of the documents and the tokenizer
  std::string warning; // about the data, or ""
};

struct Retirement { // a variant must leave the launch
  std::size_t variant = 0;
  std::string cause; // kCauseLoss, kCauseMemory
  std::string reason;
};

struct ProbeResult {
  double unit_ns = 0;                 // one unit of the reference
  std::int64_t replica_bytes = 0;     // that it holds between steps; of ranks the most of one
  std::int64_t step_bytes = 0;        // above these, at the peak of its steps; 0: not told
  double build_seconds = 0;           // one replica
  std::optional<double> pair_sd = {}; // of ln(time of a visit / time of the one before)
  std::string warning = {};           // of the worker, about the data, or ""
};

nlohmann::json hello_request();
nlohmann::json launch_request(const LaunchRequest& launch);
// `hold`: the worker reads no data ahead until its next round, since another process is timed.
nlohmann::json round_request(int round,
                             const std::vector<std::size_t>& order,
                             Tracing tracing = Tracing::Off,
                             bool hold = false);
nlohmann::json plain_request(const char* op); // parity, memory, probe, finish

// Each parser answers an error that names the missing or wrong field: a worker of another build is
// bad input, not a crash.
Result<Identity> parse_hello(const nlohmann::json& event);
Result<Built> parse_built(const nlohmann::json& event);
Result<Retirement> parse_retired(const nlohmann::json& event);
Result<ProbeResult> parse_probe(const nlohmann::json& event);
// Visits of one round; `launch` and the variants' ledger ids are filled in. Every index of `order`
// must be answered exactly once.
Result<std::vector<VisitRow>> parse_round(const nlohmann::json& event,
                                          std::int64_t launch,
                                          int round,
                                          const std::vector<std::size_t>& order,
                                          const std::vector<LaunchVariant>& variants);
Result<std::vector<MetricRow>> parse_metrics(const nlohmann::json& event,
                                             std::int64_t launch,
                                             const std::vector<LaunchVariant>& variants);
Result<std::vector<GateRow>> parse_gates(const nlohmann::json& event,
                                         std::int64_t launch,
                                         const std::vector<LaunchVariant>& variants);

} // namespace assay
