// What a torn write, a bad copy or an editor leaves of a ledger is refused in one line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/sqlite/database.h"
#include "tests/core/ledger_support.h"
#include "tests/names.h"

namespace assay {
namespace ledger_damage_test {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class LedgerDamageTest : public LedgerTest {
protected:
  void write_rounds(int rounds) {
    const auto ledger = open();
    const std::int64_t id = ledger->start_launch(timed_launch());
    for (int round = 0; round < rounds; ++round) ledger->commit_round({visit(id, 1, round)}, {});
    ledger->finish();
  }
};

// Such a visit would fall out of every figure, unseen.
TEST_F(LedgerDamageTest, AVisitThatTookNoTimeIsDamage) {
  for (const char* change : {"wall_ns = 0", "wall_ns = -5", "steps = 0"}) {
    fs::remove_all(directory_);
    write_rounds(1);
    ASSERT_EQ(error(), "");
    Database(file(), Database::Mode::ReadWrite).execute(std::string("UPDATE visit SET ") + change);
    EXPECT_THAT(error(), HasSubstr("damaged")) << change;
  }
}

// It would have replaced itself, so no launch would count.
TEST_F(LedgerDamageTest, ALaunchThatRepeatsItselfIsDamage) {
  write_rounds(1);
  Database(file(), Database::Mode::ReadWrite).execute("UPDATE launch SET repeats = id");
  EXPECT_THAT(error(), test::names("damaged", "not before it"));
}

// Two measurements of one seed would both be samples.
TEST_F(LedgerDamageTest, TwoLaunchesOfOneNumberAreDamage) {
  write_rounds(1);
  write_rounds(1);
  Database(file(), Database::Mode::ReadWrite).execute("UPDATE launch SET state = 'complete'");
  EXPECT_THAT(error(), test::names("damaged", "would both count"));
  Database(file(), Database::Mode::ReadWrite).execute("UPDATE launch SET repeats = 1 WHERE id = 2");
  EXPECT_EQ(error(), "");
  Database(file(), Database::Mode::ReadWrite)
      .execute("UPDATE launch SET position = 2 WHERE id = 2");
  EXPECT_THAT(error(), test::names("damaged", "another one of the plan"));
}

TEST_F(LedgerDamageTest, ATableThatIsGoneIsDamage) {
  write_rounds(1);
  Database(file(), Database::Mode::ReadWrite).execute("DROP TABLE event");
  EXPECT_THAT(
      error(),
      test::names("damaged: a table or a column is missing", "(SQLite: no such table: event)"));
}

TEST_F(LedgerDamageTest, TruncatedFilesAreDamaged) {
  write_rounds(400);
  const auto whole = fs::file_size(file());
  for (const auto size : {whole - 1, whole / 2, std::uintmax_t{4096}, std::uintmax_t{50}}) {
    fs::resize_file(file(), size);
    EXPECT_THAT(error(), HasSubstr("damaged")) << size;
    EXPECT_THAT(failure_of([&] { open(); }), HasSubstr("damaged")) << size;
  }
}

bool pages_are_sound(const std::string& path) {
  try {
    Database database(path, Database::Mode::ReadOnly);
    Statement check = database.prepare("PRAGMA integrity_check(1)");
    return check.step() && check.text(0) == "ok";
  } catch (const Failure&) {
    return false;
  }
}

// As a torn write or a bad copy leaves it: every page is one, and each parses.
TEST_F(LedgerDamageTest, APageCopiedOverAnotherIsDamage) {
  write_rounds(400);
  const auto pages = static_cast<std::streamoff>(fs::file_size(file()) / 4096);
  const std::string whole = scratch_ / "whole.sqlite";
  fs::copy_file(file(), whole);
  ASSERT_EQ(error(), "");
  int found = 0;
  bool in_our_words = false;
  for (int i = 1; i < pages - 1; ++i) {
    fs::copy_file(whole, file(), fs::copy_options::overwrite_existing);
    std::fstream raw(file(), std::ios::in | std::ios::out | std::ios::binary);
    std::string page(4096, ' ');
    raw.seekg((pages - i) * 4096).read(page.data(), 4096);
    raw.seekp((pages - i - 1) * 4096).write(page.data(), 4096).flush();
    const bool refused = error().find("damaged") != std::string::npos;
    found += refused;
    in_our_words = in_our_words || error().find("not in order (SQLite: ") != std::string::npos;
    if (pages_are_sound(file())) continue; // a page that no table and no index uses
    EXPECT_TRUE(refused) << "page " << pages - i - 1;
    EXPECT_EQ(error().find('\n'), std::string::npos) << error();
    EXPECT_THAT(error(),
                Not(AnyOf(HasSubstr("***"), HasSubstr("damaged: Tree"), HasSubstr(".c:"))));
    EXPECT_THAT(failure_of([&] { open(); }), HasSubstr("damaged")) << "page " << pages - i - 1;
  }
  EXPECT_TRUE(in_our_words) << "no fault that the check of pages found";
  EXPECT_GE(found, pages / 2); // a page that no table uses is none's loss
}

TEST_F(LedgerDamageTest, ARowOfALaunchThatIsNotThereIsDamage) {
  open()->finish();
  Database(file(), Database::Mode::ReadWrite)
      .execute("INSERT INTO metric(launch, path, unit, value, detail) VALUES (99, 'p', '', 1, '')");
  EXPECT_THAT(error(), test::names("metric", "row of launch"));
}

} // namespace ledger_damage_test
} // namespace assay
