// kill -9 of engines and workers at random instants of a small plan. What must hold at every stage:
// the ledger can be read, every round in it is whole, no round that was there is lost, none stands
// twice; and in the end the plan completes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "experiments/evidence/owed/plan_state.h"
#include "tests/experiments/support.h"
#include "tests/paths.h"

namespace assay {
namespace kill9_test {

using namespace test;
namespace fs = std::filesystem;
using std::chrono::microseconds;

constexpr int kInstants = 50;
constexpr const char* kBehaviour = "sleep_us=2000"; // 16 rounds a launch: about 40 ms

pid_t start_engine(const std::string& matrix, const std::string& data, const std::string& results) {
  const std::string engine = engine_driver();
  const std::string worker = fake_worker();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::execl(engine.c_str(),
            engine.c_str(),
            matrix.c_str(),
            data.c_str(),
            results.c_str(),
            worker.c_str(),
            nullptr);
    ::_exit(127);
  }
  return pid;
}

int wait_for(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// The engine's worker, or 0. Not any child: a sanitizer has helpers of its own.
pid_t worker_of(pid_t engine) {
  std::ifstream file(fmt::format("/proc/{}/task/{}/children", engine, engine));
  for (pid_t child = 0; file >> child;) {
    std::string name;
    std::ifstream(fmt::format("/proc/{}/comm", child)) >> name;
    if (name == "fake_worker") return child;
  }
  return 0;
}

// A dead process that nobody has reaped yet is not alive.
bool alive(pid_t pid) {
  if (pid <= 0) return false;
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const auto end = text.rfind(") ");
  return end != std::string::npos && text.at(end + 2) != 'Z';
}

using RoundKey = std::pair<std::int64_t, int>;                           // launch, round
using Rounds = std::map<RoundKey, std::map<std::int64_t, std::int64_t>>; // variant -> time

// Reads the ledger and checks that it is consistent with itself.
Rounds check(const std::string& results) {
  const Result<LedgerData> data = read_ledger(results);
  if (!data) {
    ADD_FAILURE() << data.error().message;
    return {};
  }
  Rounds rounds;
  for (const VisitRow& visit : data->visits) {
    const bool fresh =
        rounds[{visit.launch, visit.round}].emplace(visit.variant, visit.wall_ns).second;
    EXPECT_TRUE(fresh) << "visit stands twice: launch " << visit.launch << " round " << visit.round;
    EXPECT_EQ(visit.sample_ns.size(), 1u);
  }
  for (const LaunchRow& launch : data->launches) {
    int next = 0;
    for (const auto& [key, visits] : rounds) {
      if (key.first != launch.id) continue;
      EXPECT_EQ(key.second, next++) << "a round is missing in launch " << launch.id;
      const std::size_t control = launch.kind == LaunchKind::Traced ? 1 : 0; // is not traced
      EXPECT_EQ(visits.size(), variants_of(*data, launch.cell).size() - control) << "a torn round";
    }
  }
  const PlanProgress progress = plan_progress(*data);
  EXPECT_EQ(progress.done + progress.missing + progress.failed + progress.not_run,
            progress.planned);
  return rounds;
}

void expect_kept(const Rounds& before, const Rounds& after) {
  for (const auto& [key, visits] : before) {
    const auto found = after.find(key);
    ASSERT_NE(found, after.end()) << "lost launch " << key.first << " round " << key.second;
    EXPECT_EQ(found->second, visits);
  }
}

class Kill9 : public testing::Test {
protected:
  Scratch scratch_; // first: the others use it
  std::string results_ = scratch_ / "r";
  std::string matrix_ = scratch_.write("small.toml", kSmallMatrix);
  std::string data_ = scratch_.write("corpus.txt", "text");
  FakeBehaviour behaviour_{kBehaviour};

  void finish_and_check(const Rounds& before) {
    ASSERT_EQ(wait_for(start_engine(matrix_, data_, results_)), 0);
    const Rounds after = check(results_);
    expect_kept(before, after);
    const LedgerData data = value_or_throw(read_ledger(results_));
    const PlanProgress progress = plan_progress(data);
    EXPECT_EQ(progress.missing, 0);
    EXPECT_EQ(progress.done, 10);
    for (const LaunchRow& launch : data.launches) EXPECT_NE(launch.state, LaunchState::Running);
  }
};

TEST_F(Kill9, EngineAtRandomInstants) {
  std::mt19937 random(20260101);
  Rounds before;
  int killed = 0;
  for (int start = 0; killed < kInstants && start < 4 * kInstants; ++start) {
    const pid_t engine = start_engine(matrix_, data_, results_);
    std::this_thread::sleep_for(microseconds(std::uniform_int_distribution(500, 120'000)(random)));
    const pid_t worker = worker_of(engine);
    ::kill(engine, SIGKILL);
    const bool ended_by_itself = wait_for(engine) == 0;
    if (!ended_by_itself) ++killed;
    for (int wait = 0; alive(worker) && wait < 200; ++wait)
      std::this_thread::sleep_for(microseconds(5000));
    EXPECT_FALSE(alive(worker)) << "worker " << worker << " outlived its engine";
    if (!fs::exists(results_ + "/ledger.sqlite")) continue;
    const Rounds after = check(results_);
    expect_kept(before, after);
    before = after;
    if (ended_by_itself ||
        killed % 10 == 9) { // a fresh directory, so that early instants come again
      finish_and_check(before);
      fs::remove_all(results_);
      before.clear();
    }
  }
  EXPECT_EQ(killed, kInstants);
}

// One that reads nothing and writes nothing does not notice the closed pipes.
TEST_F(Kill9, AHungWorkerDiesWithItsEngine) {
  const FakeBehaviour hang("hang=parity/*/parity");
  const pid_t engine = start_engine(matrix_, data_, results_);
  pid_t worker = 0;
  for (int wait = 0; worker == 0 && wait < 400; ++wait) {
    std::this_thread::sleep_for(microseconds(5000));
    worker = worker_of(engine);
  }
  ASSERT_TRUE(alive(worker));
  std::this_thread::sleep_for(microseconds(200'000)); // into its sleep
  ::kill(engine, SIGKILL);
  wait_for(engine);
  for (int wait = 0; alive(worker) && wait < 400; ++wait)
    std::this_thread::sleep_for(microseconds(5000));
  EXPECT_FALSE(alive(worker));
  if (alive(worker)) ::kill(worker, SIGKILL);
}

TEST_F(Kill9, WorkersAtRandomInstants) {
  std::mt19937 random(20260102);
  int killed = 0;
  for (int trial = 0; killed < kInstants && trial < kInstants; ++trial) {
    const pid_t engine = start_engine(matrix_, data_, results_);
    int status = 0;
    // Rarely enough that on a quiet machine a launch gets two tries in between.
    while (::waitpid(engine, &status, WNOHANG) == 0) {
      std::this_thread::sleep_for(
          microseconds(std::uniform_int_distribution(60'000, 160'000)(random)));
      if (const pid_t worker = worker_of(engine); worker > 0 && ::kill(worker, SIGKILL) == 0)
        ++killed;
      if (fs::exists(results_ + "/ledger.sqlite")) check(results_);
    }
    EXPECT_TRUE(WIFEXITED(status)) << status;
    // On a busy one a launch may be killed in both and given up; the next run tries it again.
    const bool given_up = plan_progress(value_or_throw(read_ledger(results_))).failed > 0;
    EXPECT_EQ(WEXITSTATUS(status), given_up ? 6 : 0);
    finish_and_check(check(results_));
    fs::remove_all(results_);
  }
  EXPECT_GE(killed, kInstants);
}

} // namespace kill9_test
} // namespace assay
