#include "control/people.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>

#include "sys/temp_dir_test.h"

namespace caisson::control {
namespace {

namespace asio = boost::asio;

const Caller kRoot{.tenant = "default",
                   .actor = "aaaaaaaaaaaa",
                   .scopes = 8,
                   .max_sandboxes = 0,
                   .peer = "",
                   .request_id = "r1"};
const Caller kUser{.tenant = "red",
                   .actor = "bbbbbbbbbbbb",
                   .scopes = 7,
                   .max_sandboxes = 0,
                   .peer = "",
                   .request_id = "r2"};

Person person(std::string tenant) {
  return {.tenant = std::move(tenant),
          .name = "Ada Lovelace",
          .email = "ada@example.org",
          .login = "ada",
          .avatar_url = "https://example.org/ada.png",
          .created = 0};
}

class PeopleTest : public testing::Test {
 protected:
  void SetUp() override { open(); }
  void open() {
    people_.reset();
    access_.reset();
    store_.reset();
    store_ = store::Store::open({.path = dir_.path("db"), .anchor_path = ""}).value();
    access_ = Access::make(*store_, false).value();
    auto made = People::make(*store_);
    ASSERT_TRUE(made) << made.error().message;
    people_ = std::move(*made);
  }
  template <class T>
  T run(awaitable<T> work) {
    auto future = asio::co_spawn(io_, std::move(work), asio::use_future);
    io_.restart();
    io_.run();
    return future.get();
  }
  std::string wrong_field(const Person& wish) {
    const auto made = run(people_->put(kRoot, wish));
    return made ? "accepted" : made.error().field;
  }
  NewToken token(std::string tenant) {
    TokenWish wish{.tenant = std::move(tenant), .label = "", .scopes = 3, .expires_seconds = {}};
    return run(access_->create(kRoot, wish)).value();
  }
  std::vector<store::AuditRow> rows(const std::string& action) {
    store::AuditQuery query;
    query.action = action;
    return store_->audit(query).value();
  }

  sys::TempDir dir_;
  asio::io_context io_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<Access> access_;
  std::unique_ptr<People> people_;
};

TEST_F(PeopleTest, OnlyAnAdminChangesOrListsThem) {
  ASSERT_TRUE(run(people_->put(kRoot, person("red"))));
  EXPECT_EQ(run(people_->put(kUser, person("red"))).error().code, Errc::Denied);
  EXPECT_EQ(run(people_->remove(kUser, "red", *access_)).error().code, Errc::Denied);
  EXPECT_TRUE(people_->list(kUser).empty());
  EXPECT_EQ(people_->list(kRoot).size(), 1U);
  const auto puts = rows("user.put");
  ASSERT_EQ(puts.size(), 2U);
  EXPECT_EQ(puts[1].event.outcome, store::Outcome::Denied);
  EXPECT_EQ(puts[1].event.actor, kUser.actor);
  EXPECT_EQ(rows("user.remove").at(0).event.outcome, store::Outcome::Denied);
}

TEST_F(PeopleTest, BadFieldsAreNamed) {
  Person wish = person("red");
  wish.tenant = "Red";
  EXPECT_EQ(wrong_field(wish), "tenant");
  wish = person("");
  EXPECT_EQ(wrong_field(wish), "tenant");
  wish = person("red");
  wish.name.assign(kPersonTextBytesMax + 1, 'x');
  EXPECT_EQ(wrong_field(wish), "name");
  wish = person("red");
  wish.email = "a\nb";
  EXPECT_EQ(wrong_field(wish), "email");
  wish = person("red");
  wish.login = "\xFF";
  EXPECT_EQ(wrong_field(wish), "login");
  for (const char* url : {"http://example.org/", "javascript:alert(1)", "https://a b", "x"}) {
    wish = person("red");
    wish.avatar_url = url;
    EXPECT_EQ(wrong_field(wish), "avatar_url") << url;
  }
  wish.avatar_url = "https://" + std::string(kAvatarBytesMax, 'x');
  EXPECT_EQ(wrong_field(wish), "avatar_url");
  EXPECT_TRUE(people_->list(kRoot).empty());
  EXPECT_TRUE(rows("user.put").empty());
}

TEST_F(PeopleTest, TheyOutliveTheServerAndKeepTheirDay) {
  ASSERT_TRUE(run(people_->put(kRoot, person("red"))));
  const Person first = *people_->find("red");
  EXPECT_GT(first.created, 0);
  Person other = person("red");
  other.name = "Ada King \xC3\xA9";
  other.created = 5;
  ASSERT_TRUE(run(people_->put(kRoot, other)));
  ASSERT_TRUE(run(people_->put(kRoot, person("blue"))));
  open();
  const auto found = people_->find("red");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->name, other.name);
  EXPECT_EQ(found->email, "ada@example.org");
  EXPECT_EQ(found->login, "ada");
  EXPECT_EQ(found->avatar_url, "https://example.org/ada.png");
  EXPECT_EQ(found->created, first.created);
  EXPECT_FALSE(people_->find("green"));
  const auto all = people_->list(kRoot);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].tenant, "blue");
}

TEST_F(PeopleTest, TheAuditDoesNotKnowTheirNames) {
  ASSERT_TRUE(run(people_->put(kRoot, person("red"))));
  const auto row = rows("user.put").at(0).event;
  EXPECT_EQ(row.object, "red");
  EXPECT_EQ(row.request_id, "r1");
  EXPECT_EQ(row.detail.find("Ada"), std::string::npos);
}

TEST_F(PeopleTest, WhoIsRemovedHasNoTokensLeft) {
  ASSERT_TRUE(run(people_->put(kRoot, person("red"))));
  const NewToken one = token("red");
  const NewToken two = token("red");
  const NewToken other = token("blue");
  ASSERT_TRUE(run(people_->remove(kRoot, "red", *access_)));
  EXPECT_FALSE(people_->find("red"));
  EXPECT_FALSE(access_->authenticate(one.secret, "192.0.2.1"));
  EXPECT_FALSE(access_->authenticate(two.secret, "192.0.2.1"));
  EXPECT_TRUE(access_->authenticate(other.secret, "192.0.2.1"));
  EXPECT_EQ(rows("user.remove").at(0).event.object, "red");
  EXPECT_EQ(run(people_->remove(kRoot, "red", *access_)).error().code, Errc::NotFound);
  open();
  EXPECT_FALSE(people_->find("red"));
  EXPECT_FALSE(access_->authenticate(one.secret, "192.0.2.1"));
}

TEST_F(PeopleTest, ATenantWithTokensAndNoNameCanBeRemoved) {
  const NewToken one = token("red");
  ASSERT_TRUE(run(people_->remove(kRoot, "red", *access_)));
  EXPECT_FALSE(access_->authenticate(one.secret, "192.0.2.1"));
}

TEST_F(PeopleTest, AnAdminDoesNotRemoveHimself) {
  ASSERT_TRUE(run(people_->put(kRoot, person("default"))));
  EXPECT_EQ(run(people_->remove(kRoot, "default", *access_)).error().field, "tenant");
  EXPECT_TRUE(people_->find("default"));
}

TEST_F(PeopleTest, SoManyAndNoMore) {
  store::Store::Batch batch;
  for (std::size_t at = 0; at < kPeopleMax; ++at) {
    const std::string tenant = "t" + std::to_string(at);
    batch.files.push_back({{store::FileKind::Person, tenant, tenant},
                           1,
                           R"({"name":"","email":"","login":"","avatar_url":""})"});
  }
  store_->write(std::move(batch), [](const Result<void>& written) { EXPECT_TRUE(written); });
  ASSERT_TRUE(store_->flush());
  open();
  EXPECT_EQ(run(people_->put(kRoot, person("red"))).error().code, Errc::Exhausted);
  EXPECT_TRUE(run(people_->put(kRoot, person("t7"))));
  ASSERT_TRUE(run(people_->remove(kRoot, "t8", *access_)));
  EXPECT_TRUE(run(people_->put(kRoot, person("red"))));
}

TEST_F(PeopleTest, ARecordThatCannotBeReadIsSaid) {
  store::Store::Batch batch;
  batch.files.push_back({{store::FileKind::Person, "red", "red"}, 1, "[]"});
  store_->write(std::move(batch), [](const Result<void>& written) { EXPECT_TRUE(written); });
  ASSERT_TRUE(store_->flush());
  const auto made = People::make(*store_);
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("red"), std::string::npos);
}

}  // namespace
}  // namespace caisson::control
