// doors/daiv/fake_fleet_test.h — a fleet that can nothing. What a test needs, its own fleet does.
#pragma once

#include <string>

#include "control/fleet.h"

namespace caisson::daiv::fake {

using boost::asio::awaitable;
using control::Caller;

class EmptyFleet : public control::Fleet {
 public:
  static std::unexpected<Error> not_here() {
    return failure(Errc::Unsupported, "not in this test");
  }

// Each call of control that this door never makes.
#define CAISSON_NOT_HERE(type, name, ...) \
  awaitable<Result<type>> name(__VA_ARGS__) override { co_return not_here(); }
  CAISSON_NOT_HERE(boost::json::object, execute_tool, const Caller&, std::string, std::string,
                   boost::json::object, engine::AdmitOutput)
  CAISSON_NOT_HERE(control::OnceView, run_once, const Caller&, control::CreateWish,
                   control::ExecWish)
  CAISSON_NOT_HERE(control::ProcessView, start, const Caller&, std::string, control::ProcessWish)
  CAISSON_NOT_HERE(std::vector<control::ProcessView>, processes, const Caller&, std::string)
  CAISSON_NOT_HERE(control::ProcessView, process, const Caller&, std::string, std::uint32_t)
  CAISSON_NOT_HERE(std::unique_ptr<control::OutputStream>, attach, const Caller&, std::string,
                   std::uint32_t, std::uint64_t, std::uint64_t)
  CAISSON_NOT_HERE(void, write_input, const Caller&, std::string, std::uint32_t, std::string, bool)
  CAISSON_NOT_HERE(void, signal, const Caller&, std::string, std::uint32_t, int, bool)
  CAISSON_NOT_HERE(void, resize, const Caller&, std::string, std::uint32_t, std::uint16_t,
                   std::uint16_t)
  CAISSON_NOT_HERE(control::ProcessView, wait, const Caller&, std::string, std::uint32_t,
                   milliseconds)
  CAISSON_NOT_HERE(void, forget, const Caller&, std::string, std::uint32_t)
  CAISSON_NOT_HERE(control::CodeOutcome, run_code, const Caller&, std::string, control::CodeWish)
  CAISSON_NOT_HERE(control::ContextView, create_context, const Caller&, std::string,
                   control::ContextWish)
  CAISSON_NOT_HERE(std::vector<control::ContextView>, contexts, const Caller&, std::string)
  CAISSON_NOT_HERE(void, interrupt_context, const Caller&, std::string, std::string)
  CAISSON_NOT_HERE(void, remove_context, const Caller&, std::string, std::string)
  CAISSON_NOT_HERE(void, move, const Caller&, std::string, std::string, std::string, bool)
  CAISSON_NOT_HERE(std::unique_ptr<control::WatchStream>, watch, const Caller&, std::string,
                   std::string, bool)
  CAISSON_NOT_HERE(std::unique_ptr<control::ByteReader>, tar_out, const Caller&, std::string,
                   std::string)
  CAISSON_NOT_HERE(std::unique_ptr<control::ByteWriter>, tar_in, const Caller&, std::string,
                   std::string)
  CAISSON_NOT_HERE(std::unique_ptr<control::ImageUpload>, import_image, const Caller&,
                   control::ImportWish)
  CAISSON_NOT_HERE(control::ImageView, build_image, const Caller&, control::BuildWish)
  CAISSON_NOT_HERE(void, remove_image, const Caller&, std::string)
  CAISSON_NOT_HERE(std::unique_ptr<control::ByteReader>, export_image, const Caller&, std::string)
  CAISSON_NOT_HERE(control::GarbageView, collect_garbage, const Caller&)
  CAISSON_NOT_HERE(control::SnapshotView, snapshot, const Caller&, std::string,
                   control::SnapshotWish)
  CAISSON_NOT_HERE(void, remove_snapshot, const Caller&, std::string)
  CAISSON_NOT_HERE(control::SandboxView, fork, const Caller&, std::string, control::ForkWish)
  CAISSON_NOT_HERE(control::UndoView, undo, const Caller&, std::string, control::UndoWish)
  CAISSON_NOT_HERE(control::DiffView, diff, const Caller&, control::DiffWish)
  CAISSON_NOT_HERE(std::unique_ptr<control::ByteReader>, patch, const Caller&, control::DiffWish)
  CAISSON_NOT_HERE(control::MergeView, merge, const Caller&, std::string, control::MergeWish)
  CAISSON_NOT_HERE(control::VolumeView, set_volume, const Caller&, std::string, std::uint64_t)
  CAISSON_NOT_HERE(std::vector<control::VolumeView>, volumes, const Caller&)
  CAISSON_NOT_HERE(control::SandboxView, promote, const Caller&, std::string, control::PromoteWish)
  CAISSON_NOT_HERE(control::SandboxView, hibernate, const Caller&, std::string)
  CAISSON_NOT_HERE(void, remove_volume, const Caller&, std::string)
  CAISSON_NOT_HERE(control::SandboxView, set_limits, const Caller&, std::string, control::LimitWish)
  CAISSON_NOT_HERE(control::UsageView, usage, const Caller&, std::string)
  CAISSON_NOT_HERE(control::UsageView, record_usage, const Caller&, std::string, control::UsageWish)
  CAISSON_NOT_HERE(control::PortSocket, connect_port, const Caller&, std::string, std::uint16_t)
  CAISSON_NOT_HERE(control::PortSocket, connect_again, const Caller&, std::string, std::uint16_t)
  CAISSON_NOT_HERE(control::PortsView, ports, const Caller&, std::string)
  CAISSON_NOT_HERE(void, wait_for_port, const Caller&, std::string, std::uint16_t, milliseconds)
#undef CAISSON_NOT_HERE
  Result<control::SandboxView> look_up(std::string_view) override { return not_here(); }
  [[nodiscard]] std::size_t living_of(std::string_view) const override { return 0; }
  [[nodiscard]] policy::SandboxTier minimum_tier(std::string_view) const override {
    return policy::SandboxTier::Native;
  }
  [[nodiscard]] boost::json::array tools() const override { return {}; }
  std::vector<control::ImageView> images(const Caller&) override { return {}; }
  std::vector<control::SnapshotView> snapshots(const Caller&, std::optional<std::string>) override {
    return {};
  }
  Result<control::SnapshotView> get_snapshot(const Caller&, std::string_view) override {
    return not_here();
  }
  Result<std::unique_ptr<control::EventStream>> events(const Caller&, std::optional<std::string>,
                                                       std::uint64_t) override {
    return not_here();
  }
  [[nodiscard]] control::FleetCounters counters() const override { return {}; }
};

}  // namespace caisson::daiv::fake
