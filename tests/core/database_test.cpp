#include "core/sqlite/database.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>

#include "tests/names.h"

namespace assay {
namespace database_test {

using testing::HasSubstr;

TEST(Database, BindsAndReadsEveryType) {
  const Database db(":memory:", Database::Mode::Create);
  db.execute("CREATE TABLE t(i INTEGER, r REAL, s TEXT, n REAL)");
  Statement in = db.prepare("INSERT INTO t VALUES (?1, ?2, ?3, ?4)");
  in.bind(1, std::int64_t{1} << 62)
      .bind(2, 0.1)
      .bind(3, std::string_view("a\0b", 3))
      .bind(4, std::optional<double>());
  in.run();
  Statement out = db.prepare("SELECT i, r, s, n FROM t");
  ASSERT_TRUE(out.step());
  EXPECT_EQ(out.integer(0), std::int64_t{1} << 62);
  EXPECT_EQ(out.real(1), 0.1);
  EXPECT_EQ(out.text(2), std::string("a\0b", 3));
  EXPECT_EQ(out.maybe_real(3), std::nullopt);
  EXPECT_EQ(out.maybe_integer(0), std::int64_t{1} << 62);
  EXPECT_FALSE(out.step());
}

TEST(Database, ErrorsNameFileAndCauseAndNoPlaceInTheSource) {
  const Database db(":memory:", Database::Mode::Create);
  try {
    (void)db.prepare("SELECT x FROM nowhere");
    FAIL();
  } catch (const DatabaseError& error) {
    EXPECT_THAT(error.what(), test::names(":memory::", "table: nowhere"));
    EXPECT_THAT(error.what(), testing::Not(HasSubstr(".cpp")));
  }
}

TEST(Database, SQLitesOwnWordsAreOneShortLineInParentheses) {
  EXPECT_EQ(sqlite_words(""), "");
  EXPECT_EQ(sqlite_words("*** in database main ***"), "");
  EXPECT_EQ(sqlite_words("*** in database main ***\nTree 5 page 3: never used\nPage 9: lost"),
            " (SQLite: Tree 5 page 3: never used)");
  const std::string cut = sqlite_words(std::string(500, 'x'));
  EXPECT_EQ(cut.size(), kLongestWords + std::string(" (SQLite: )").size());
  EXPECT_THAT(cut, testing::EndsWith("x ...)"));
}

TEST(Database, AFileThatCannotBeOpenedNamesTheCause) {
  const auto message = [] {
    try {
      const Database db("/proc/none.sqlite", Database::Mode::ReadOnly);
    } catch (const DatabaseError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message(), HasSubstr("No such file"));
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{3, limit.rlim_max}; // only the standard streams
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const std::string exhausted = message();
  ::setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_THAT(exhausted, testing::AllOf(HasSubstr("many open files"), HasSubstr("ulimit -n")));
}

TEST(Database, AnUncommittedTransactionIsUndone) {
  const Database db(":memory:", Database::Mode::Create);
  db.execute("CREATE TABLE t(x)");
  {
    const Transaction transaction(db);
    db.execute("INSERT INTO t VALUES (1)");
  }
  EXPECT_EQ(db.integer("SELECT count(*) FROM t"), 0);
  Transaction kept(db);
  db.execute("INSERT INTO t VALUES (1)");
  kept.commit();
  EXPECT_EQ(db.integer("SELECT count(*) FROM t"), 1);
}

TEST(Database, PathsWithUriCharactersWork) {
  const auto directory =
      std::filesystem::temp_directory_path() / fmt::format("assay ?#% {}", ::getpid());
  std::filesystem::create_directories(directory);
  const std::string path = (directory / "a.sqlite").string();
  Database(path, Database::Mode::Create).execute("CREATE TABLE t(x)");
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_EQ(Database(path, Database::Mode::ReadOnly).integer("SELECT count(*) FROM t"), 0);
  std::filesystem::remove_all(directory);
}

TEST(Database, ReadOnlyMeansReadOnly) {
  EXPECT_THROW(Database("/nowhere/x.sqlite", Database::Mode::ReadOnly), DatabaseError);
}

} // namespace database_test
} // namespace assay
