#include "app/worker/ranks/rank_launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "app/worker/ranks/rank_store.h"
#include "core/result.h"

namespace assay::worker {

namespace {

constexpr std::chrono::seconds kChildEndTime{10}, kGoodbyeTime{10};
constexpr const char* kDone = "done ";                  // and the engine's exit code and message
constexpr const char* kLaunchVariable = "ASSAY_LAUNCH"; // prefix of the launch in the store
constexpr const char* kChildVariable = "ASSAY_RANK_CHILD";

// Messages between engine, followers and hosts, apart from the launches' own parts.
StorePtr control_store(const RankEnvironment& environment, StorePtr store) {
  return c10::make_intrusive<c10d::PrefixStore>("assay/" + environment.attempt, std::move(store));
}

std::string launch_key(std::int64_t number) {
  return fmt::format("launch/{}", number);
}

void set_text(c10d::Store& store, const std::string& key, const std::string& text) {
  store.set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
}

// This environment without the rank's variables, and with those of `place`.
std::vector<std::string> environment_of(const RankPlace& place,
                                        const std::string& address,
                                        int port,
                                        const std::string& prefix,
                                        bool child) {
  std::vector<std::string> result;
  const std::vector<std::pair<std::string, std::string>> own{
      {"RANK", std::to_string(place.rank)},
      {"WORLD_SIZE", std::to_string(place.size)},
      {"LOCAL_RANK", std::to_string(place.local_rank)},
      {"MASTER_ADDR", address},
      {"MASTER_PORT", std::to_string(port)},
      {kLaunchVariable, prefix},
      {kChildVariable, child ? "1" : "0"}};
  const auto replaced = [&](const std::string& entry) {
    return std::any_of(
        own.begin(), own.end(), [&](const auto& o) { return entry.rfind(o.first + "=", 0) == 0; });
  };
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (!replaced(*entry)) result.emplace_back(*entry);
  for (const auto& [name, value] : own) result.push_back(fmt::format("{}={}", name, value));
  return result;
}

// `assay-worker rank`, which dies with this process. Its output goes where this one's goes.
pid_t start_rank(std::vector<std::string> environment) {
  std::vector<char*> variables;
  for (std::string& entry : environment) variables.push_back(entry.data());
  variables.push_back(nullptr);
  std::string program = "assay-worker", command = "rank";
  std::array<char*, 3> arguments{program.data(), command.data(), nullptr};
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) internal_error("fork: {}", std::strerror(errno));
  if (child > 0) return child;
  // Async-signal-safe calls only. Nothing of the parent's stays open: not the engine's pipe either.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(125);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  if (::close_range(3, ~0u, 0) != 0)
    for (int fd = 3; fd < 65536; ++fd) ::close(fd);
  ::execve("/proc/self/exe", arguments.data(), variables.data());
  ::_exit(127);
}

// Exit code of an engine that ended with "CODE MESSAGE"; its message is this rank's as well.
int repeat_end(const std::string& end) {
  const std::size_t space = std::min(end.find(' '), end.size() - 1);
  const int code = std::stoi(end.substr(0, space));
  if (code != 0) fmt::print(stderr, "error: rank 0: {}\n", end.substr(space + 1));
  return code;
}

// All that comes on standard input until it ends.
std::string read_input() {
  std::string text;
  std::array<char, 512> part{};
  for (ssize_t n = 0; (n = ::read(STDIN_FILENO, part.data(), part.size())) != 0;) {
    if (n > 0)
      text.append(part.data(), static_cast<std::size_t>(n));
    else if (errno != EINTR)
      break;
  }
  return text;
}

RankEnvironment required_environment() {
  const auto environment = value_or_throw(read_rank_environment());
  if (!environment)
    bad_input("RANK and WORLD_SIZE are not set; torchrun and `assay run` start this command");
  return *environment;
}

StorePtr part_of(const StorePtr& store, const std::string& prefix) {
  return c10::make_intrusive<c10d::PrefixStore>(prefix, store);
}

} // namespace

RankLauncher::RankLauncher(int size) {
  place_ = {0, size, 0};
  if (const auto environment = value_or_throw(read_rank_environment())) {
    if (environment->size < size)
      bad_input("ranks = {} needs as many processes, the launcher started {}; start more, or set "
                "ranks = {}",
                size,
                environment->size,
                environment->size);
    place_.local_rank = environment->local_rank;
    const StorePtr store = connect_store(environment->address, environment->port);
    const StorePtr control = control_store(*environment, store);
    const std::int64_t number = control->add("launches", 1);
    store_ = part_of(control, launch_key(number));
    set_text(*control, launch_key(number), std::to_string(size));
    return;
  }
  const auto store = host_store(kThisMachine, 0);
  store_ = part_of(store, "launch");
  for (int rank = 1; rank < size; ++rank)
    children_.push_back(start_rank(
        environment_of({rank, size, rank}, kThisMachine, store->getPort(), "launch", true)));
}

RankLauncher::~RankLauncher() {
  const auto deadline = std::chrono::steady_clock::now() + kChildEndTime;
  for (const pid_t child : children_) {
    while (::waitpid(child, nullptr, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > deadline) ::kill(child, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
}

JoinedLaunch join_launch() {
  const RankEnvironment environment = required_environment();
  const char* prefix = std::getenv(kLaunchVariable);
  const char* child = std::getenv(kChildVariable);
  if (prefix == nullptr || child == nullptr)
    bad_input("{} is not set; rank 0 or `assay-worker follow` starts this command",
              kLaunchVariable);
  return {part_of(connect_store(environment.address, environment.port), prefix),
          {environment.rank, environment.size, environment.local_rank},
          std::strcmp(child, "1") == 0};
}

int follow() {
  const RankEnvironment environment = required_environment();
  const StorePtr control = control_store(environment, wait_for_rank_0(environment));
  for (std::int64_t number = 1;; ++number) {
    control->wait({launch_key(number)}, kNoTimeout);
    const std::string size = control->get_to_str(launch_key(number));
    if (size.starts_with(kDone)) {
      control->add("goodbyes", 1);
      return repeat_end(size.substr(std::strlen(kDone)));
    }
    const RankPlace place{environment.rank, std::stoi(size), environment.local_rank};
    if (place.rank >= place.size) continue;
    const std::string prefix = "assay/" + environment.attempt + "/" + launch_key(number);
    const pid_t rank =
        start_rank(environment_of(place, environment.address, environment.port, prefix, false));
    while (::waitpid(rank, nullptr, 0) < 0 && errno == EINTR) { // rank 0 reports how it ended
    }
  }
}

int host_ranks() {
  const RankEnvironment environment = required_environment();
  StorePtr store;
  if (environment.agent_store)
    store = connect_store(environment.address, environment.port);
  else
    store = host_store(environment.address, environment.port);
  const StorePtr control = control_store(environment, store);
  fmt::print("ready\n");
  std::fflush(stdout);
  std::string end = read_input();
  if (end.empty()) end = "1 its engine ended before it reported the state of the plan";
  set_text(*control, launch_key(control->add("launches", 1)), kDone + end);
  const auto deadline = std::chrono::steady_clock::now() + kGoodbyeTime;
  while (control->add("goodbyes", 0) < environment.size - 1) {
    if (std::chrono::steady_clock::now() > deadline) {
      fmt::print(stderr, "warning: not every rank has ended; its launcher has to end it\n");
      return 0;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return 0;
}

} // namespace assay::worker
