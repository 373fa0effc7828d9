// The ledger where the disk is full, read-only or not there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/sqlite/database.h"
#include "tests/core/ledger_support.h"
#include "tests/names.h"

namespace assay {
namespace ledger_disk_test {

using testing::HasSubstr;
namespace fs = std::filesystem;

TEST_F(LedgerTest, AnUnwritableDirectoryIsNamed) {
  std::ofstream(scratch_ / "file").close();
  EXPECT_THAT(failure_of([&] { Ledger::open(scratch_ / "file/r", small_plan()); }),
              test::names("/file/r:", "be created"));
  EXPECT_THAT(failure_of([&] { Ledger::open("/proc/assay", small_plan()); }), HasSubstr("--out"));
}

// A full disk, as a limit on the size of files of a child process.
TEST_F(LedgerTest, AFullDiskIsOneClearErrorAndTheLedgerStaysWhole) {
  open().reset();
  int message_pipe[2];
  ASSERT_EQ(::pipe(message_pipe), 0);
  const pid_t writer = ::fork();
  if (writer == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const auto ledger = open();
    const std::int64_t id = ledger->start_launch(timed_launch());
    ledger->commit_round({visit(id, 1, 0)}, {});
    const rlimit limit{400'000, 400'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string message = failure_of([&] {
      for (int round = 1; round < 100'000; ++round) ledger->commit_round({visit(id, 1, round)}, {});
    });
    (void)!::write(message_pipe[1], message.data(), message.size());
    ::_exit(0);
  }
  ::close(message_pipe[1]);
  std::string message(4096, '\0');
  const ssize_t size = ::read(message_pipe[0], message.data(), message.size());
  ::close(message_pipe[0]);
  int status = 0;
  ::waitpid(writer, &status, 0);
  message.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  EXPECT_THAT(message, test::names("disk is full", "size limit"));
  EXPECT_THAT(message, HasSubstr("same command again"));
  const LedgerData data = value_or_throw(read_ledger(directory_));
  EXPECT_GT(data.visits.size(), 1u);
  for (std::size_t i = 0; i < data.visits.size(); ++i)
    EXPECT_EQ(data.visits[i].round, static_cast<int>(i));
  const auto ledger = open(); // and it goes on
  ledger->commit_round({visit(1, 1, 1'000'000)}, {});
}

// SQLite itself writes on into a file that no directory names, so rounds would be lost unnoticed.
TEST_F(LedgerTest, ALedgerThatIsMovedOrRemovedEndsTheRun) {
  const std::string aside = scratch_ / "aside";
  for (const bool replaced : {false, true}) {
    fs::remove_all(directory_);
    const auto ledger = open();
    const std::int64_t id = ledger->start_launch(timed_launch());
    ledger->commit_round({visit(id, 1, 0)}, {});
    fs::rename(directory_, aside);
    if (replaced) open(); // another run's, in the same place
    const auto next = HasSubstr("moved or removed");
    EXPECT_THAT(failure_of([&] { ledger->commit_round({visit(id, 1, 1)}, {}); }), next);
    EXPECT_THAT(failure_of([&] { ledger->end_launch(id, LaunchState::Complete, "", true); }), next);
    EXPECT_THAT(failure_of([&] { ledger->finish(); }), next);
    EXPECT_THAT(failure_of([&] { static_cast<void>(ledger->read()); }), next);
    EXPECT_EQ(value_or_throw(read_ledger(aside)).visits.size(), 1u) << "what was committed is kept";
    fs::remove_all(aside);
  }
}

// Needs the right to mount; elsewhere the RLIMIT_FSIZE test stands for a full disk.
class MountedLedgerTest : public LedgerTest {
protected:
  bool mount_tmpfs(const char* options) {
    mount_ = scratch_ / "mount";
    fs::create_directories(mount_);
    directory_ = mount_ + "/r";
    mounted_ = ::mount("tmpfs", mount_.c_str(), "tmpfs", 0, options) == 0;
    return mounted_;
  }
  ~MountedLedgerTest() override {
    if (mounted_) ::umount2(mount_.c_str(), MNT_DETACH);
  }
  std::string mount_;
  bool mounted_ = false;
};

TEST_F(MountedLedgerTest, AFullFileSystem) {
  if (!mount_tmpfs("size=512k")) GTEST_SKIP() << "mounting needs privileges";
  std::string message;
  {
    const auto ledger = open();
    const std::int64_t id = ledger->start_launch(timed_launch());
    message = failure_of([&] {
      for (int round = 0; round < 100'000; ++round) ledger->commit_round({visit(id, 1, round)}, {});
    });
  }
  EXPECT_THAT(message, HasSubstr("disk is full"));
  const LedgerData data = value_or_throw(read_ledger(directory_));
  for (std::size_t i = 0; i < data.visits.size(); ++i)
    EXPECT_EQ(data.visits[i].round, static_cast<int>(i));
}

TEST_F(MountedLedgerTest, AReadOnlyFileSystem) {
  if (!mount_tmpfs("size=8m")) GTEST_SKIP() << "mounting needs privileges";
  const auto remount = [&](unsigned long flags) {
    return ::mount(nullptr, mount_.c_str(), nullptr, MS_REMOUNT | flags, nullptr) == 0;
  };
  {
    const auto ledger = open();
    ledger->commit_round({visit(ledger->start_launch(timed_launch()), 1, 0)}, {});
    ledger->finish();
  }
  ASSERT_TRUE(remount(MS_RDONLY));
  EXPECT_EQ(value_or_throw(read_ledger(directory_)).visits.size(), 1u); // finished: one plain file
  ASSERT_TRUE(remount(0));
  const pid_t writer = ::fork();
  if (writer == 0) {
    const auto ledger = open();
    ledger->commit_round({visit(1, 1, 1)}, {});
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ::waitpid(writer, &status, 0);
  ASSERT_TRUE(remount(MS_RDONLY));
  EXPECT_EQ(value_or_throw(read_ledger(directory_)).visits.size(),
            2u); // killed: WAL and its index are there
  ASSERT_TRUE(remount(0));
  fs::remove(file() + "-shm"); // copied without the index
  ASSERT_TRUE(remount(MS_RDONLY));
  EXPECT_EQ(value_or_throw(read_ledger(directory_)).visits.size(), 2u);
}

// It is read from a copy, which no message names.
TEST_F(MountedLedgerTest, AChangedPlanOnAReadOnlyFileSystemIsNamedWhereItLies) {
  if (!mount_tmpfs("size=8m")) GTEST_SKIP() << "mounting needs privileges";
  const pid_t writer = ::fork();
  if (writer == 0) {
    const auto ledger = open();
    Database(file(), Database::Mode::ReadWrite).execute("UPDATE spec SET alpha = 0.5");
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ::waitpid(writer, &status, 0);
  fs::remove(file() + "-shm");
  ASSERT_EQ(::mount(nullptr, mount_.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
  const Result<LedgerData> data = read_ledger(directory_);
  ASSERT_FALSE(data);
  EXPECT_THAT(data.error().message, testing::StartsWith(file() + ": "));
  EXPECT_THAT(data.error().message, testing::Not(HasSubstr("assay-ledger-")));
}

} // namespace ledger_disk_test
} // namespace assay
