#include "main/doors.h"

#include <unistd.h>

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "doors/sandboxer/import_json.h"
#include "engine/microvm/vm_store.h"
#include "engine/plan.h"
#include "main/front_door.h"

namespace caisson::server {
namespace {

namespace asio = boost::asio;

constexpr seconds kSessionSweep{60};

std::function<void(const doors::RequestLine&)> into(ServerLog& log, std::string_view route) {
  return [&log, route](const doors::RequestLine& line) {
    log.request({.request_id = line.request_id,
                 .method = line.method,
                 .path = line.path,
                 .route = route,
                 .status = line.status,
                 .took = line.took,
                 .peer = line.peer,
                 .actor = line.actor,
                 .tenant = line.tenant});
  };
}

class AllDoors final : public Doors {
 public:
  AllDoors(DoorParts parts, std::unique_ptr<control::People> people)
      : parts_(std::move(parts)),
        logins_(control::Logins::make(parts_.access)),
        people_(std::move(people)),
        history_(control::History::make(parts_.executor, parts_.store)),
        console_(console_options(parts_.settings)),
        preview_(parts_.fleet, parts_.access, *logins_, preview_with_log()),
        sandboxer_(parts_.executor, parts_.fleet, parts_.access, *logins_, *people_, *history_,
                   sandboxer_with_log()),
        rest_(parts_.fleet, parts_.access, parts_.store, parts_.log, rest_options()),
        mcp_(parts_.executor, parts_.fleet, parts_.access, mcp_with_log()),
        sweeper_(parts_.executor),
        session_sweeper_(parts_.executor) {}

  Result<void> make_daiv() {
    daiv::DaivOptions options = TRY(daiv_options(parts_.settings));
    options.on_request = into(parts_.log, "daiv");
    options.on_failure = failures();
    reaper_ = options.reaper;
    interval_ = options.reaper_interval;
    daiv_ = std::make_unique<daiv::Door>(parts_.fleet, parts_.access, std::move(options));
    front_ =
        std::make_unique<FrontDoor>(FrontRooms{rest_, *daiv_, mcp_, sandboxer_, preview_, console_,
                                               parts_.access, *logins_, parts_.hosts});
    return {};
  }

  asio::awaitable<Result<void>> open() override { return sandboxer_.open(); }
  http::Handler& front() noexcept override { return *front_; }

  asio::awaitable<void> sweep() override {
    using namespace asio::experimental::awaitable_operators;
    co_await (sweep_daiv() && sweep_sessions());
  }

  asio::awaitable<void> sweep_sessions() {
    boost::system::error_code cancelled;
    while (!cancelled && !closed_) {
      co_await mcp_.sweep();
      session_sweeper_.expires_after(kSessionSweep);
      co_await session_sweeper_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
    }
  }

  asio::awaitable<void> sweep_daiv() {
    boost::system::error_code cancelled;
    while (reaper_ && !cancelled && !closed_) {
      co_await daiv_->sweep();
      sweeper_.expires_after(interval_);
      co_await sweeper_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
    }
  }

  void close() noexcept override {
    closed_ = true;
    rest_.close();
    daiv_->close();
    sandboxer_.close();
    mcp_.close();
    sweeper_.cancel();
    session_sweeper_.cancel();
  }

 private:
  std::function<void(std::string_view, const Error&)> failures() {
    return [this](std::string_view request_id, const Error& error) {
      parts_.log.failed(request_id, error);
    };
  }

  preview::PreviewOptions preview_with_log() {
    preview::PreviewOptions options = preview_options(parts_.settings);
    options.on_request = into(parts_.log, "preview");
    options.on_failure = failures();
    return options;
  }

  sandboxer::SandboxerOptions sandboxer_with_log() {
    sandboxer::SandboxerOptions options = sandboxer_options(parts_.settings);
    options.hosts = parts_.hosts;
    options.on_request = into(parts_.log, "sandboxer");
    options.on_failure = failures();
    if (!parts_.settings.server.vhost.name.empty()) {
      options.address = [this](std::string_view sandbox) {
        return preview_.address(sandbox, std::nullopt);
      };
    }
    return options;
  }

  mcp::McpOptions mcp_with_log() {
    mcp::McpOptions options = mcp_options(parts_.settings);
    options.hosts = parts_.hosts;
    options.on_request = into(parts_.log, "mcp");
    options.on_failure = failures();
    if (parts_.settings.server.vhost.name.empty()) return options;
    options.preview = [this](
                          const control::Caller& caller, std::string_view sandbox,
                          std::optional<std::uint16_t> port) -> Result<mcp::McpOptions::Preview> {
      return mcp::McpOptions::Preview{TRY(preview_.address(sandbox, port)),
                                      TRY(preview_.invitation(caller, sandbox, port))};
    };
    return options;
  }

  rest::DoorOptions rest_options() {
    rest::DoorOptions options;
    options.hosts = parts_.hosts;
    options.open = parts_.settings.auth.open;
    options.version = CAISSON_VERSION;
    options.extra_metrics = parts_.metrics;
    options.logins = logins_.get();
    options.people = people_.get();
    options.vhost = policy::to_string(parts_.settings.server.vhost);
    for (const auto& [name, profile] : parts_.settings.profiles) options.profiles.push_back(name);
    const std::string machines = parts_.settings.server.state_dir + "/" + engine::microvm::kVmAbout;
    options.tiers = engine::tiers_of(engine::probe_host(), ::access(machines.c_str(), F_OK) == 0);
    options.default_image = parts_.settings.sandbox.default_image;
    options.import_listings = [this](const control::Caller& caller, boost::json::object body) {
      return import(caller, std::move(body));
    };
    if (parts_.settings.server.vhost.name.empty()) return options;
    options.preview = [this](
                          const control::Caller& caller, std::string_view sandbox,
                          std::optional<std::uint16_t> port) -> Result<rest::DoorOptions::Preview> {
      return rest::DoorOptions::Preview{TRY(preview_.address(sandbox, port)),
                                        TRY(preview_.invitation(caller, sandbox, port))};
    };
    return options;
  }

  asio::awaitable<Result<boost::json::object>> import(const control::Caller& caller,
                                                      boost::json::object body) {
    auto wish = sandboxer::import_wish(body);
    if (!wish) co_return std::unexpected(wish.error());
    const auto count = co_await sandboxer_.import(caller, *std::move(wish));
    if (!count) co_return std::unexpected(count.error());
    co_return sandboxer::to_json(*count);
  }

  DoorParts parts_;
  std::unique_ptr<control::Logins> logins_;
  std::unique_ptr<control::People> people_;
  std::unique_ptr<control::History> history_;
  console::Door console_;
  preview::Door preview_;
  sandboxer::Door sandboxer_;
  rest::Door rest_;
  mcp::Door mcp_;
  std::unique_ptr<daiv::Door> daiv_;
  std::unique_ptr<FrontDoor> front_;
  asio::steady_timer sweeper_;
  asio::steady_timer session_sweeper_;
  seconds interval_{0};
  bool reaper_ = false;
  bool closed_ = false;
};

}  // namespace

Result<std::unique_ptr<Doors>> Doors::make(DoorParts parts) {
  auto people = TRY_IN("users", control::People::make(parts.store));
  auto doors = std::make_unique<AllDoors>(std::move(parts), std::move(people));
  TRY(doors->make_daiv());
  return doors;
}

}  // namespace caisson::server
