// A fleet on a real launcher and a real store: create, exec, files, processes, ports, and what a
// new server finds when the old one is gone.
#include "control/fleet.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/json/parse.hpp>

#include "control/open_fleet.h"
#include "tests/integration/service.h"

namespace caisson::test {
namespace {

namespace asio = boost::asio;
using namespace control;  // NOLINT(google-build-using-namespace): the room under test

class Fleets : public testing::Test {
 protected:
  Fleets() {
    me_.tenant = "red";
    me_.actor = "token";
    me_.scopes = 7;
    store::StoreOptions options;
    options.path = state_.path() + "/audit.db";
    auto store = store::Store::open(options);
    EXPECT_TRUE(store) << store.error().message;
    store_ = *std::move(store);
    open();
  }
  ~Fleets() override { close(); }

  void open() {
    Result<std::unique_ptr<RunningFleet>> opened;
    ASSERT_TRUE(eventually([&] {
      opened = run(open_fleet(context_.get_executor(), FleetOptions{}, state_.socket(), *store_));
      return opened.has_value();
    })) << opened.error().message;
    fleet_ = *std::move(opened);
  }
  void close() {
    if (!fleet_) return;
    fleet_->leave();
    for (int i = 0; i < 50; ++i) {
      context_.restart();
      while (context_.poll() > 0) {
      }
    }
    fleet_.reset();
  }
  template <class T>
  std::shared_ptr<std::optional<T>> begin(awaitable<T> work) {
    auto value = std::make_shared<std::optional<T>>();
    asio::co_spawn(context_, std::move(work), [value](const std::exception_ptr& bug, T result) {
      EXPECT_FALSE(bug);
      *value = std::move(result);
    });
    return value;
  }
  template <class T>
  void wait_for(const std::shared_ptr<std::optional<T>>& value) {
    const TimePoint limit = Clock::now() + seconds(60);
    while (!value->has_value() && Clock::now() < limit) {
      context_.restart();
      context_.run_one_for(milliseconds(200));
    }
    ASSERT_TRUE(value->has_value()) << "no answer";
  }
  template <class T>
  T run(awaitable<T> work) {
    const auto value = begin(std::move(work));
    wait_for(value);
    return *std::move(*value);
  }
  std::string create(CreateWish wish = {}) {
    const auto made = run(fleet_->create(me_, std::move(wish)));
    EXPECT_TRUE(made) << made.error().message;
    return made ? made->id : "";
  }
  std::string sh(const std::string& id, std::string script) {
    ExecWish wish;
    wish.command = std::move(script);
    const auto done = run(fleet_->exec(me_, id, std::move(wish)));
    return done ? done->out + done->err : "failed: " + done.error().message;
  }
  std::string read_all(ByteReader& reader) {
    std::string all;
    for (;;) {
      const auto bytes = run(reader.next());
      EXPECT_TRUE(bytes) << bytes.error().message;
      if (!bytes || bytes->empty()) return all;
      all.append(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    }
  }

  StateFolder state_;
  LauncherService launcher_{state_};
  asio::io_context context_{1};
  Caller me_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<RunningFleet> fleet_;
};

TEST_F(Fleets, ASandboxIsMadeUsedAndDestroyed) {
  CreateWish wish;
  wish.files = {{"src/hello.sh", "echo hello from $NAME"}};
  wish.environment = {{"NAME", "inside"}};
  const std::string id = create(wish);
  EXPECT_EQ(sh(id, "sh src/hello.sh"), "hello from inside\n");
  EXPECT_EQ(sh(id, "id -u; pwd"), "65534\n/workspace\n");
  EXPECT_EQ(sh(id, "touch /usr/x 2>/dev/null || echo read-only"), "read-only\n");
  ExecWish slow;
  slow.command = "sleep 60";
  slow.timeout_seconds = 0.2;
  EXPECT_TRUE(run(fleet_->exec(me_, id, slow))->timed_out);
  EXPECT_GT(run(fleet_->usage(me_, id))->usage.memory_peak_bytes, 0U);
  ASSERT_TRUE(run(fleet_->destroy(me_, id)));
  EXPECT_EQ(run(fleet_->destroy(me_, id)).error().code, Errc::NotFound);
  store::AuditQuery query;
  query.sandbox = id;
  const auto rows = store_->audit(query);
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->size(), 6U);
  EXPECT_TRUE(store_->verify()->intact);
}

TEST_F(Fleets, FilesGoInAndOut) {
  const std::string id = create();
  std::string content;
  for (int i = 0; content.size() < 3'000'000; ++i) content += std::to_string(i) + "\n";
  auto writer = run(fleet_->write_file(me_, id, "deep/folder/f", {}));
  ASSERT_TRUE(writer) << writer.error().message;
  ASSERT_TRUE(run((*writer)->write(std::as_bytes(std::span(content)))));
  ASSERT_EQ(run((*writer)->finish())->bytes, content.size());
  auto download = run(fleet_->read_file(me_, id, "deep/folder/f", Range{10, 2'000'009}));
  ASSERT_TRUE(download) << download.error().message;
  EXPECT_EQ(read_all(*download->bytes), content.substr(10, 2'000'000));
  const auto moved = run(fleet_->move(me_, id, "deep/folder/f", "deep/folder/g", false));
  ASSERT_TRUE(moved) << moved.error().message;
  EXPECT_EQ(run(fleet_->list_files(me_, id, ".", true))->size(), 3U);
  auto archive = run(fleet_->tar_out(me_, id, "deep"));
  ASSERT_TRUE(archive);
  const std::string tar = read_all(**archive);
  EXPECT_GT(tar.size(), 512U);
  auto unpack = run(fleet_->tar_in(me_, id, "copy"));
  ASSERT_TRUE(unpack) << unpack.error().message;
  ASSERT_TRUE(run((*unpack)->write(std::as_bytes(std::span(tar)))));
  ASSERT_TRUE(run((*unpack)->finish()));
  EXPECT_NE(sh(id, "find copy -type d").find("folder"), std::string::npos);
  EXPECT_EQ(run(fleet_->read_file(me_, id, "/etc/shadow", std::nullopt)).has_value(), false);
  auto watch = run(fleet_->watch(me_, id, ".", false));
  ASSERT_TRUE(watch);
  const auto event = begin((*watch)->next());
  EXPECT_EQ(sh(id, "touch new"), "");
  wait_for(event);
  EXPECT_EQ((**event)->name, "new");
}

TEST_F(Fleets, ProcessesAreFollowedFedAndEnded) {
  const std::string id = create();
  ProcessWish wish;
  wish.exec.command = "while read line; do echo got $line; done; echo over >&2; exit 3";
  const auto process = run(fleet_->start(me_, id, wish));
  ASSERT_TRUE(process) << process.error().message;
  auto first = run(fleet_->attach(me_, id, process->id, 0, 0));
  ASSERT_TRUE(first);
  ASSERT_TRUE(run(fleet_->write_input(me_, id, process->id, "one\ntwo\n", true)));
  const auto collect = [&](OutputStream& stream) {
    std::string out;
    for (;;) {
      auto item = run(stream.next());
      EXPECT_TRUE(item) << item.error().message;
      if (!item) return out;
      if (const auto* view = std::get_if<ProcessView>(&*item))
        return out + "=" + std::to_string(view->exit_code.value_or(-1));
      const auto& chunk = std::get<OutputChunk>(*item);
      if (!chunk.error) out += chunk.bytes;
    }
  };
  EXPECT_EQ(collect(**first), "got one\ngot two\n=3");
  auto second = run(fleet_->attach(me_, id, process->id, 8, 0));
  ASSERT_TRUE(second);
  EXPECT_EQ(collect(**second), "got two\n=3");
  EXPECT_EQ(run(fleet_->wait(me_, id, process->id, seconds(10)))->exit_code, 3);
  ASSERT_TRUE(run(fleet_->forget(me_, id, process->id)));
  // Much output, and a reader who takes it all.
  wish.exec.command = "head -c 20000000 /dev/zero";
  const auto talker = run(fleet_->start(me_, id, wish));
  ASSERT_TRUE(talker);
  auto all = run(fleet_->attach(me_, id, talker->id, 0, 0));
  ASSERT_TRUE(all);
  EXPECT_EQ(collect(**all).size(), 20'000'000U + 2);
}

TEST_F(Fleets, APausedSandboxStandsStill) {
  const std::string id = create();
  ASSERT_TRUE(run(fleet_->pause(me_, id)));
  ExecWish wish;
  wish.command = "true";
  EXPECT_EQ(run(fleet_->exec(me_, id, wish)).error().code, Errc::Busy);
  ASSERT_TRUE(run(fleet_->resume(me_, id)));
  EXPECT_EQ(sh(id, "echo on"), "on\n");
  ASSERT_TRUE(run(fleet_->pause(me_, id)));
  EXPECT_TRUE(run(fleet_->destroy(me_, id)));
}

TEST_F(Fleets, APortInsideIsReached) {
  const std::string id = create();
  EXPECT_EQ(run(fleet_->connect_port(me_, id, 8000)).error().field, "port");
  ProcessWish wish;
  wish.exec.argv = {"/usr/bin/python3", "-c",
                    "import socket; s = socket.create_server(('127.0.0.1', 8000)); "
                    "print('up', flush=True); c, _ = s.accept(); c.sendall(b'hello'); c.close()"};
  const auto server = run(fleet_->start(me_, id, wish));
  ASSERT_TRUE(server) << server.error().message;
  auto output = run(fleet_->attach(me_, id, server->id, 0, 0));
  ASSERT_TRUE(output);
  ASSERT_TRUE(run((*output)->next()));
  const auto socket = run(fleet_->connect_port(me_, id, 8000));
  ASSERT_TRUE(socket) << socket.error().message;
  ASSERT_EQ(::fcntl(socket->socket.get(), F_SETFL, 0), 0);
  char text[6] = {};
  EXPECT_EQ(::recv(socket->socket.get(), text, 5, MSG_WAITALL), 5);
  EXPECT_STREQ(text, "hello");
}

TEST_F(Fleets, ANewServerGoesOnWithWhatIsThere) {
  CreateWish wish;
  wish.name = "kept";
  const std::string id = create(wish);
  const std::string paused = create();
  ASSERT_TRUE(run(fleet_->pause(me_, paused)));
  ProcessWish process;
  process.exec.command = "echo before; cat";
  const auto started = run(fleet_->start(me_, id, process));
  ASSERT_TRUE(started);
  close();
  open();
  ASSERT_TRUE(fleet_->get(me_, id));
  EXPECT_EQ(fleet_->get(me_, id)->name, "kept");
  EXPECT_TRUE(fleet_->get(me_, id)->expires);
  EXPECT_EQ(fleet_->get(me_, paused)->state, State::Paused);
  ASSERT_TRUE(run(fleet_->write_input(me_, id, started->id, "after\n", true)));
  auto output = run(fleet_->attach(me_, id, started->id, 0, 0));
  ASSERT_TRUE(output);
  std::string all;
  for (;;) {
    auto item = run((*output)->next());
    ASSERT_TRUE(item) << item.error().message;
    if (std::holds_alternative<ProcessView>(*item)) break;
    all += std::get<OutputChunk>(*item).bytes;
  }
  EXPECT_EQ(all, "before\nafter\n");
  ASSERT_TRUE(run(fleet_->resume(me_, paused)));
  EXPECT_EQ(sh(paused, "echo on"), "on\n");
}

TEST_F(Fleets, ADeadlineOfTheLauncherEndsItWithItsReason) {
  CreateWish wish;
  wish.limits.timeout_seconds = 0.5;
  const std::string id = create(wish);
  ExecWish slow;
  slow.command = "sleep 60";
  const auto done = run(fleet_->exec(me_, id, slow));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::Gone);
  EXPECT_NE(done.error().message.find("expired"), std::string::npos) << done.error().message;
}

}  // namespace
}  // namespace caisson::test
