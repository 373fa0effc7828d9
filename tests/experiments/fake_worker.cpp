// A worker without a model: speaks the protocol and answers with computed times, so that the engine
// is tested in milliseconds. Its behaviour stands in ASSAY_FAKE as "key=value;…":
//   build=ID             its build id                    sleep_us=N   real time a round takes
//   finish_ms=N          real time that the end of a launch takes
//   finish_signal=1      it begins with a SIGTERM to the engine
//   exit_ms=N            … from its last answer to its exit
//   data=TEXT            fingerprint of the data that it reads
//   effect=X             step time of levels, as a factor of the reference's
//   fail_gate=NAME       that variant's gate does not pass
//   die|hang|oom|error|garbage|bad_input|exit = KIND/INDEX/ROUND   in that launch (ROUND: "parity",
//   "memory",
//                        "launch" or a number); INDEX counts the launch requests of one kind, from
//                        1, in the file named by `count=PATH`; "*" stands for any index
//   die_at_hello=PATH    the first process dies at "hello" and leaves this file
//   retire=NAME/ROUND    that variant is retired when it is asked for that round
//   retire_in=KIND       … in launches of this kind alone
//   steal_in=N           steal of 50 % in the N-th timed launch request (needs count)
//   steal_every=N        … in every N-th of its rounds alone
//   watts=X              what visits draw; without it their energy is not known
//   lives=PATH           "begin" at each launch and "end" at its end, appended to this file
//   harm=X               loss of levels beyond the reference's, nats per token
// Losses of a loss launch fall with the step and differ by 1 from seed to seed.
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/protocol/protocol.h"

namespace {

using nlohmann::json;

std::map<std::string, std::string> settings() {
  std::map<std::string, std::string> result;
  const char* text = std::getenv("ASSAY_FAKE");
  std::istringstream stream(text == nullptr ? "" : text);
  for (std::string item; std::getline(stream, item, ';');)
    if (const auto equals = item.find('='); equals != std::string::npos)
      result[item.substr(0, equals)] = item.substr(equals + 1);
  return result;
}

void send(const json& event) {
  const std::string line = event.dump() + "\n";
  if (::write(assay::kWorkerEventFd, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    std::_Exit(3);
}

class Fake {
public:
  void serve() {
    for (std::string line; std::getline(std::cin, line);) {
      const json request = json::parse(line);
      const std::string op = request.at("op");
      if (op == "hello") hello();
      if (op == "launch") launch(request);
      if (op == "round") round(request);
      if (op == "parity") parity();
      if (op == "memory") memory();
      if (op == "probe")
        send({{"event", "probe"},
              {"unit_ns", 1e6},
              {"replica_bytes", 1000},
              {"build_seconds", 0.5}});
      if (op == "finish") {
        if (settings_.count("finish_signal")) ::kill(::getppid(), SIGTERM);
        if (settings_.count("finish_ms"))
          std::this_thread::sleep_for(std::chrono::milliseconds(std::stoi(settings_["finish_ms"])));
        live("end");
        send({{"event", "bye"},
              {"metrics",
               json::array({{{"variant", nullptr},
                             {"path", "time/step_ns"},
                             {"unit", "ns"},
                             {"value", 1e6},
                             {"detail", ""}}})}});
        if (settings_.count("exit_ms"))
          std::this_thread::sleep_for(std::chrono::milliseconds(std::stoi(settings_["exit_ms"])));
        std::exit(0);
      }
    }
  }

private:
  void hello() {
    if (const std::string path = settings_["die_at_hello"]; !path.empty() && !std::ifstream(path)) {
      std::ofstream(path) << "died\n";
      std::raise(SIGKILL);
    }
    send(
        {{"event", "hello"},
         {"protocol",
          settings_.count("protocol") ? std::stoi(settings_["protocol"]) : assay::kProtocolVersion},
         {"identity",
          {{"build", settings_.count("build") ? settings_["build"] : "fake-1"},
           {"libtorch", "none"},
           {"cuda", ""},
           {"driver", ""},
           {"gpu", ""},
           {"gpu_uuid", ""},
           {"host", "host"},
           {"boot", "boot"},
           {"cpu", "cpu"},
           {"kernel", "kernel"},
           {"cores", 2},
           {"threads", 1},
           {"environment", "OMP_X=1\n"}}}});
  }

  void launch(const json& request) {
    kind_ = request.at("kind");
    launch_ = request;
    live("begin");
    if (settings_.count("count")) {
      const std::string path = settings_["count"] + "." + kind_;
      std::ifstream(path) >> index_;
      std::ofstream(path) << ++index_;
    }
    misbehave("launch");
    json names = json::array(), bytes = json::array();
    for (const json& v : request.at("variants"))
      names.push_back(v.at("name")), bytes.push_back(1000);
    send({{"event", "progress"}, {"text", "building"}});
    send({{"event", "built"},
          {"build_order", names},
          {"seconds", 0.01},
          {"threads", 1},
          {"data", settings_.count("data") ? settings_["data"] : "text-1"},
          {"parameters", 10},
          {"bytes", bytes}});
  }

  void round(const json& request) {
    const int round = request.at("round");
    misbehave(std::to_string(round));
    json visits = json::array();
    int position = 0;
    for (const json& index : request.at("order")) {
      const json& variant = launch_.at("variants").at(index.get<std::size_t>());
      if (retired(variant, std::to_string(round), index)) return;
      const int steps =
          launch_.at("visit_steps").get<int>() - launch_.at("discard_steps").get<int>();
      const double effect = variant.at("role") == "level" && settings_.count("effect")
                                ? std::stod(settings_["effect"])
                                : 1.0;
      const auto ns = static_cast<std::int64_t>(
          1e6 * effect * (1 + 0.001 * ((round * 7 + position * 3) % 5)) * steps);
      visits.push_back(
          {{"variant", index},
           {"position", position++},
           {"steps", steps},
           {"wall_ns", ns},
           {"tokens", 128 * steps},
           {"loss", loss(variant, round)},
           {"skipped_steps", 0},
           {"sample_ns", json::array({ns})},
           {"covariates", {{"steal_share", steal(round)}, {"involuntary_switches", 3}}}});
      if (settings_.count("watts"))
        visits.back()["covariates"]["energy_j"] =
            std::stod(settings_["watts"]) * 1e-9 * static_cast<double>(ns);
    }
    if (settings_.count("sleep_us"))
      std::this_thread::sleep_for(std::chrono::microseconds(std::stoi(settings_["sleep_us"])));
    send({{"event", "round"}, {"round", round}, {"visits", visits}});
  }

  void live(const char* word) {
    if (settings_.count("lives")) std::ofstream(settings_["lives"], std::ios::app) << word << '\n';
  }

  double steal(int round) {
    const bool asked =
        kind_ == "timed" && settings_.count("steal_in") &&
        settings_["steal_in"] == std::to_string(index_) &&
        (!settings_.count("steal_every") || round % std::stoi(settings_["steal_every"]) == 0);
    return asked ? 0.5 : 0.01;
  }

  double loss(const json& variant, int round) {
    if (kind_ == "timed") return variant.at("config").at("seed").get<double>();
    if (kind_ != "loss") return 2.5;
    const json& config = variant.at("config");
    const bool level = variant.at("role") == "level" && settings_.count("harm");
    return config.at("seed").get<double>() + 3 - 0.1 * round +
           (level ? std::stod(settings_["harm"]) : 0);
  }

  bool retired(const json& variant, const std::string& place, const json& index) {
    if (settings_.count("retire_in") && settings_["retire_in"] != kind_) return false;
    if (!settings_.count("retire") ||
        settings_["retire"] != variant.at("name").get<std::string>() + "/" + place)
      return false;
    send({{"event", "retired"},
          {"variant", index},
          {"cause", assay::kCauseLoss},
          {"reason", "loss is nan"}});
    return true;
  }

  void parity() {
    misbehave("parity");
    json gates = json::array();
    for (std::size_t i = 0; i < launch_.at("variants").size(); ++i) {
      const json& variant = launch_.at("variants")[i];
      if (retired(variant, "parity", i)) return;
      const bool failed = settings_.count("fail_gate") &&
                          settings_["fail_gate"] == variant.at("name").get<std::string>();
      if (variant.at("role") == "level")
        gates.push_back({{"variant", i},
                         {"name", "bitwise/weights"},
                         {"passed", !failed},
                         {"value", failed ? 0.5 : 0.0},
                         {"bound", 0.0},
                         {"detail", "fake"}});
    }
    send({{"event", "parity"}, {"gates", gates}, {"metrics", json::array()}});
  }

  void memory() {
    misbehave("memory");
    json metrics = json::array();
    const json& variants = launch_.at("variants");
    for (std::size_t i = 0; i < variants.size(); ++i)
      metrics.push_back(
          {{"variant", i},
           {"path", "memory/peak_bytes"},
           {"unit", "bytes"},
           {"value",
            variants[i].at("role") == "level" ? 4096.0 * static_cast<double>(i + 1) : 4096.0},
           {"detail", ""}});
    send({{"event", "memory"}, {"metrics", metrics}});
  }

  bool now(const char* what, const std::string& place) {
    if (!settings_.count(what)) return false;
    std::istringstream wanted(settings_[what]);
    std::string kind, index, round;
    std::getline(wanted, kind, '/');
    std::getline(wanted, index, '/');
    std::getline(wanted, round);
    return kind == kind_ && (index == "*" || index == std::to_string(index_)) && round == place;
  }

  void misbehave(const std::string& place) {
    if (now("die", place)) {
      std::cerr << "about to die" << '\n';
      std::raise(SIGKILL);
    }
    if (now("hang", place)) std::this_thread::sleep_for(std::chrono::hours(1));
    if (now("garbage", place)) send("not an object");
    if (now("exit", place)) std::exit(7);
    for (const char* kind : {"bad_input", "internal", "out_of_memory"}) {
      const char* key = std::string_view(kind) == "internal"        ? "error"
                        : std::string_view(kind) == "out_of_memory" ? "oom"
                                                                    : kind;
      if (!now(key, place)) continue;
      send({{"event", "error"},
            {"kind", kind},
            {"message", std::string("told to fail with ") + kind}});
      std::exit(1);
    }
  }

  std::map<std::string, std::string> settings_ = settings();
  std::string kind_;
  json launch_;
  int index_ = 0;
};

} // namespace

int main() {
  Fake().serve();
}
