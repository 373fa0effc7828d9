#include "core/protocol/protocol.h"

#include <limits>
#include <set>

#include "core/json_fault.h"
#include "core/protocol/visit_json.h"
#include "core/text.h"

namespace assay {

using nlohmann::json;

namespace {

// Runs `body`; a missing or mistyped field becomes an error that quotes the event's start.
template <class T, class Body> Result<T> parse(const json& event, const char* what, Body body) {
  try {
    return body();
  } catch (const json::exception& error) {
    const std::string text = event.dump(-1, ' ', false, json::error_handler_t::replace);
    return fail("the worker's {} breaks the protocol ({}): {}",
                what,
                json_fault(error),
                text.substr(0, 200));
  } catch (const Failure& error) {
    return Error{error.what()};
  }
}

std::int64_t variant_id(const json& index, const std::vector<LaunchVariant>& variants) {
  if (index.is_null()) return 0;
  const auto i = index.get<std::size_t>();
  if (i >= variants.size())
    bad_input("the worker names variant {}, the launch has {}", i, variants.size());
  return variants[i].id;
}

double number(const json& value) { // NaN and infinities travel as null
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

} // namespace

json hello_request() {
  return {{"op", "hello"}, {"protocol", kProtocolVersion}};
}

json launch_request(const LaunchRequest& launch) {
  json variants = json::array();
  for (const LaunchVariant& v : launch.variants)
    variants.push_back({{"name", v.name},
                        {"level", v.level},
                        {"role", to_string(v.role)},
                        {"config", json::parse(v.config_json)}});
  json request = {{"op", "launch"},
                  {"kind", launch.kind},
                  {"seed", launch.seed},
                  {"unit", launch.unit},
                  {"optimization", launch.optimization},
                  {"visit_steps", launch.visit_steps},
                  {"discard_steps", launch.discard_steps},
                  {"variants", std::move(variants)}};
  if (!launch.expect.empty()) request["expect"] = launch.expect;
  if (!launch.build_order.empty()) request["build_order"] = launch.build_order;
  if (launch.kind == to_string(LaunchKind::Traced))
    request["trace"] = {
        {"directory", launch.results_directory}, {"launch", launch.launch}, {"cell", launch.cell}};
  return request;
}

json round_request(int round, const std::vector<std::size_t>& order, Tracing tracing, bool hold) {
  json request = {{"op", "round"}, {"round", round}, {"order", order}};
  if (hold) request["hold"] = true;
  if (tracing != Tracing::Off)
    request["trace"] = tracing == Tracing::WarmUp ? "warm-up" : "counted";
  return request;
}

json plain_request(const char* op) {
  return {{"op", op}};
}

Result<Identity> parse_hello(const json& event) {
  return parse<Identity>(event, "hello", [&] {
    if (const int version = event.at("protocol").get<int>(); version != kProtocolVersion)
      bad_input("the worker speaks protocol {}, this engine {}; build both from one checkout",
                version,
                kProtocolVersion);
    const json& i = event.at("identity");
    Identity id;
    id.build = i.at("build").get<std::string>();
    id.libtorch = i.at("libtorch").get<std::string>();
    id.cuda = i.at("cuda").get<std::string>();
    id.driver = i.at("driver").get<std::string>();
    id.gpu = i.at("gpu").get<std::string>();
    id.gpu_uuid = i.at("gpu_uuid").get<std::string>();
    id.host = i.at("host").get<std::string>();
    id.boot = i.at("boot").get<std::string>();
    id.cpu = i.at("cpu").get<std::string>();
    id.kernel = i.at("kernel").get<std::string>();
    id.cores = i.at("cores").get<int>();
    id.threads = i.at("threads").get<int>();
    id.environment = i.at("environment").get<std::string>();
    if (id.build.empty()) bad_input("the worker reports no build id");
    return id;
  });
}

Result<Built> parse_built(const json& event) {
  return parse<Built>(event, "answer to launch", [&] {
    const auto order = event.at("build_order").get<std::vector<std::string>>();
    return Built{fmt::format("{}", fmt::join(order, " ")),
                 event.at("seconds").get<double>(),
                 event.at("threads").get<int>(),
                 event.at("data").get<std::string>(),
                 printable(event.value("warning", ""))};
  });
}

Result<Retirement> parse_retired(const json& event) {
  return parse<Retirement>(event, "retirement", [&] {
    Retirement retired{
        event.at("variant").get<std::size_t>(), event.at("cause").get<std::string>(), ""};
    if (retired.cause != kCauseLoss && retired.cause != kCauseMemory)
      bad_input("the worker retired a variant for cause '{}'; causes are '{}' and '{}'",
                retired.cause,
                kCauseLoss,
                kCauseMemory);
    retired.reason = event.value("reason", "no reason given");
    return retired;
  });
}

Result<ProbeResult> parse_probe(const json& event) {
  return parse<ProbeResult>(event, "answer to probe", [&] {
    ProbeResult probe{event.at("unit_ns").get<double>(),
                      event.value("replica_bytes", std::int64_t{0}),
                      event.value("step_bytes", std::int64_t{0}),
                      event.at("build_seconds").get<double>(),
                      std::nullopt};
    if (const auto sd = event.find("pair_sd"); sd != event.end() && sd->is_number())
      probe.pair_sd = sd->get<double>();
    return probe;
  });
}

Result<std::vector<VisitRow>> parse_round(const json& event,
                                          std::int64_t launch,
                                          int round,
                                          const std::vector<std::size_t>& order,
                                          const std::vector<LaunchVariant>& variants) {
  return parse<std::vector<VisitRow>>(event, "round", [&] {
    std::vector<VisitRow> rows;
    std::set<std::size_t> seen;
    for (const json& v : event.at("visits")) {
      VisitRow row = visit_from_json(v);
      const auto index = v.at("variant").get<std::size_t>();
      const auto place = static_cast<std::size_t>(row.position);
      if (place >= order.size() || order[place] != index || !seen.insert(index).second)
        bad_input("the worker answered variant {} at position {} of round {}, which was not asked",
                  index,
                  row.position,
                  round);
      row.launch = launch;
      row.round = round;
      row.variant = variant_id(index, variants);
      rows.push_back(std::move(row));
    }
    if (rows.size() != order.size())
      bad_input(
          "the worker answered {} of {} visits of round {}", rows.size(), order.size(), round);
    return rows;
  });
}

Result<std::vector<MetricRow>>
parse_metrics(const json& event, std::int64_t launch, const std::vector<LaunchVariant>& variants) {
  return parse<std::vector<MetricRow>>(event, "metrics", [&] {
    std::vector<MetricRow> rows;
    for (const json& m : event.at("metrics"))
      rows.push_back({launch,
                      variant_id(m.at("variant"), variants),
                      m.at("path").get<std::string>(),
                      m.at("unit").get<std::string>(),
                      number(m.at("value")),
                      m.value("detail", "")});
    return rows;
  });
}

Result<std::vector<GateRow>>
parse_gates(const json& event, std::int64_t launch, const std::vector<LaunchVariant>& variants) {
  return parse<std::vector<GateRow>>(event, "gates", [&] {
    std::vector<GateRow> rows;
    for (const json& g : event.at("gates"))
      rows.push_back({launch,
                      variant_id(g.at("variant"), variants),
                      g.at("name").get<std::string>(),
                      g.at("passed").get<bool>(),
                      number(g.at("value")),
                      number(g.at("bound")),
                      g.value("detail", "")});
    return rows;
  });
}

} // namespace assay
