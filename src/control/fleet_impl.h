// control/fleet_impl.h — the inside of fleet.h. Only the fleet_*.cc files include it.
//
//   fleet_open.cc      connecting, adopting what is there, the launcher's messages, the last words
//   fleet_create.cc    from a wish to a running sandbox, or back to nothing
//   fleet_life.cc      get, list, destroy, pause, resume, limits, usage
//   fleet_ports.cc     into the ports of a sandbox
//   fleet_network.cc   the way out: its gate, its rows, a change of rules, http_request
//   fleet_secrets.cc   secrets that rules name, and the authority of a sandbox whose TLS we end
//   fleet_models.cc    language models: budgets and their end
//   fleet_proxy.cc     how programs are shown the proxy, and the token by which it knows them
//   fleet_commands.cc  exec and processes
//   fleet_aloud.cc     exec whose output goes on as it comes
//   fleet_files.cc     files, archives, watches
//   fleet_work_tree.cc a tree to work on: archives in, patches out, searches, whose turn it is
//   fleet_tools.cc     the tools, on top of the two above
//   fleet_audit.cc     the row of each call, and how an end is recorded
//   fleet_expiry.cc    who was idle for too long
//   fleet_rest.cc      who rests meanwhile, and is woken by a use
//
// and for file state, whose records and works are in file_keeping.h:
//
//   fleet_images.cc      pull, and create from an image
//   fleet_image_box.cc   unpacking; who an image's user is; an image becomes a record
//   fleet_transfer.cc    import, export, build
//   fleet_snapshots.cc   snapshots: taking, keeping, finding, removing
//   fleet_forks.cc       forks
//   fleet_undo.cc        checkpoints and the way back; long stacks become short
//   fleet_states.cc      diff, patch, merge
//   fleet_volumes.cc     volumes
//   fleet_persistence.cc sandboxes that stop and start again
//   fleet_promote.cc     the same files in a stronger tier
//   fleet_ledger.cc      what a tenant keeps, and how much that may be
//   fleet_garbage.cc     what is there at the start, and what nobody needs any more
//
// A sandbox stands in living_ from the moment its record is durable until something ends it. Each
// call holds a Use of it: while there is one, the sandbox is not idle, and the object stays, though
// the sandbox may be gone. Ending is one step, retire(): out of the map, the stream closed, so
// every waiting call is answered in the same turn.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "control/blocklist.h"
#include "control/events.h"
#include "control/file_keeping.h"
#include "control/fleet_audited.h"
#include "control/fleet_parts.h"
#include "control/fleet_sandbox.h"
#include "control/host_proxy.h"
#include "control/open_fleet.h"
#include "control/records.h"
#include "control/row_budget.h"
#include "control/told_calls.h"
#include "control/vault.h"
#include "egress/credentials/authority.h"
#include "egress/gate/gate.h"
#include "egress/gate/resolver.h"
#include "engine/channel/guest_channel.h"

namespace caisson::control {

class FileSpool;
class PatchBox;
struct TreeChanges;

class FleetImpl final : public RunningFleet {
 public:
  FleetImpl(boost::asio::any_io_executor executor, FleetOptions options, Blocklist blocklist,
            store::Store& store);
  ~FleetImpl() override;
  FleetImpl(const FleetImpl&) = delete;
  FleetImpl& operator=(const FleetImpl&) = delete;

  awaitable<Result<void>> begin(LauncherOpener opener);

  Result<void> reload(FleetOptions options) override;
  awaitable<void> stop(std::string reason) override;
  void leave() override;
  std::size_t busy_calls() const override;
  Result<std::uint16_t> serve_host_port(const std::string& host, std::uint16_t port) override;

  awaitable<Result<SandboxView>> create(const Caller& caller, CreateWish wish) override;
  Result<SandboxView> get(const Caller& caller, std::string_view id) override;
  std::vector<SandboxView> list(const Caller& caller) override;
  awaitable<Result<void>> destroy(const Caller& caller, std::string id) override;
  awaitable<Result<boost::json::object>> execute_tool(const Caller& caller, std::string id,
                                                      std::string tool,
                                                      boost::json::object arguments,
                                                      engine::AdmitOutput admit) override;
  boost::json::array tools() const override;
  awaitable<Result<ExecOutcome>> exec(const Caller& caller, std::string id, ExecWish wish) override;
  awaitable<Result<ProcessView>> start(const Caller& caller, std::string id,
                                       ProcessWish wish) override;
  awaitable<Result<std::vector<ProcessView>>> processes(const Caller& caller,
                                                        std::string id) override;
  awaitable<Result<ProcessView>> process(const Caller& caller, std::string id,
                                         std::uint32_t process) override;
  awaitable<Result<std::unique_ptr<OutputStream>>> attach(const Caller& caller, std::string id,
                                                          std::uint32_t process,
                                                          std::uint64_t out_offset,
                                                          std::uint64_t err_offset) override;
  awaitable<Result<void>> write_input(const Caller& caller, std::string id, std::uint32_t process,
                                      std::string bytes, bool then_close) override;
  awaitable<Result<void>> signal(const Caller& caller, std::string id, std::uint32_t process,
                                 int number, bool whole_tree) override;
  awaitable<Result<void>> resize(const Caller& caller, std::string id, std::uint32_t process,
                                 std::uint16_t rows, std::uint16_t columns) override;
  awaitable<Result<ProcessView>> wait(const Caller& caller, std::string id, std::uint32_t process,
                                      milliseconds timeout) override;
  awaitable<Result<void>> forget(const Caller& caller, std::string id,
                                 std::uint32_t process) override;
  awaitable<Result<FileView>> stat(const Caller& caller, std::string id, std::string path,
                                   bool follow) override;
  awaitable<Result<std::vector<FileView>>> list_files(const Caller& caller, std::string id,
                                                      std::string path, bool recursive) override;
  awaitable<Result<Download>> read_file(const Caller& caller, std::string id, std::string path,
                                        std::optional<Range> range) override;
  awaitable<Result<std::string>> resolve_path(const Caller& caller, std::string id,
                                              std::string path) override;
  awaitable<Result<std::unique_ptr<ByteReader>>> read_resolved(const Caller& caller, std::string id,
                                                               std::string path) override;
  awaitable<Result<std::unique_ptr<ByteWriter>>> write_file(const Caller& caller, std::string id,
                                                            std::string path,
                                                            WriteWish wish) override;
  awaitable<Result<void>> make_folder(const Caller& caller, std::string id, std::string path,
                                      bool parents) override;
  awaitable<Result<void>> move(const Caller& caller, std::string id, std::string from,
                               std::string to, bool replace) override;
  awaitable<Result<std::uint64_t>> remove(const Caller& caller, std::string id, std::string path,
                                          bool recursive) override;
  awaitable<Result<std::unique_ptr<WatchStream>>> watch(const Caller& caller, std::string id,
                                                        std::string path, bool recursive) override;
  awaitable<Result<std::unique_ptr<ByteReader>>> tar_out(const Caller& caller, std::string id,
                                                         std::string path) override;
  awaitable<Result<std::unique_ptr<ByteWriter>>> tar_in(const Caller& caller, std::string id,
                                                        std::string path) override;
  Result<std::shared_ptr<Spool>> spool(const Caller& caller) override;
  awaitable<Result<ArchiveView>> put_archive(const Caller& caller, std::string id,
                                             ArchiveWish wish) override;
  awaitable<Result<std::string>> patch_since(const Caller& caller, std::string id,
                                             std::shared_ptr<const Baseline> baseline) override;
  awaitable<Result<std::vector<FileView>>> find_files(const Caller& caller, std::string id,
                                                      FindWish wish) override;
  awaitable<Result<GrepView>> grep_files(const Caller& caller, std::string id,
                                         GrepWish wish) override;
  awaitable<Result<std::unique_ptr<SessionTurn>>> session_turn(const Caller& caller, std::string id,
                                                               milliseconds wait) override;
  awaitable<Result<SandboxView>> set_labels(const Caller& caller, std::string id,
                                            std::map<std::string, std::string> labels) override;
  awaitable<Result<SandboxView>> pause(const Caller& caller, std::string id) override;
  awaitable<Result<SandboxView>> resume(const Caller& caller, std::string id) override;
  awaitable<Result<SandboxView>> set_limits(const Caller& caller, std::string id,
                                            LimitWish wish) override;
  awaitable<Result<SandboxView>> set_network(const Caller& caller, std::string id,
                                             NetworkWish wish) override;
  awaitable<Result<UsageView>> usage(const Caller& caller, std::string id) override;
  awaitable<Result<void>> put_secret(const Caller& caller, std::string name,
                                     std::string value) override;
  awaitable<Result<UsageView>> record_usage(const Caller& caller, std::string id,
                                            UsageWish wish) override;
  Result<std::vector<std::string>> secret_names(const Caller& caller) override;
  awaitable<Result<void>> remove_secret(const Caller& caller, std::string name) override;
  awaitable<Result<PortSocket>> connect_port(const Caller& caller, std::string id,
                                             std::uint16_t port) override;
  awaitable<Result<PortSocket>> connect_again(const Caller& caller, std::string id,
                                              std::uint16_t port) override;
  awaitable<Result<PortsView>> ports(const Caller& caller, std::string id) override;
  awaitable<Result<void>> wait_for_port(const Caller& caller, std::string id, std::uint16_t port,
                                        milliseconds timeout) override;
  Result<SandboxView> look_up(std::string_view id) override;
  std::size_t living_of(std::string_view tenant) const override;
  Result<std::unique_ptr<EventStream>> events(const Caller& caller,
                                              std::optional<std::string> sandbox,
                                              std::uint64_t after) override;
  FleetCounters counters() const override;
  Result<void> ready() const override;

  // --- file state (file_state.h)
  awaitable<Result<std::unique_ptr<PullStream>>> pull_image(const Caller& caller,
                                                            PullWish wish) override;
  awaitable<Result<std::unique_ptr<ImageUpload>>> import_image(const Caller& caller,
                                                               ImportWish wish) override;
  awaitable<Result<ImageView>> build_image(const Caller& caller, BuildWish wish) override;
  std::vector<ImageView> images(const Caller& caller) override;
  Result<ImageView> image(const Caller& caller, std::string_view reference) override;
  awaitable<Result<void>> remove_image(const Caller& caller, std::string reference) override;
  awaitable<Result<std::unique_ptr<ByteReader>>> export_image(const Caller& caller,
                                                              std::string reference) override;
  awaitable<Result<GarbageView>> collect_garbage(const Caller& caller) override;
  awaitable<Result<SnapshotView>> snapshot(const Caller& caller, std::string id,
                                           SnapshotWish wish) override;
  std::vector<SnapshotView> snapshots(const Caller& caller,
                                      std::optional<std::string> sandbox) override;
  Result<SnapshotView> get_snapshot(const Caller& caller, std::string_view snapshot) override;
  awaitable<Result<void>> remove_snapshot(const Caller& caller, std::string snapshot) override;
  awaitable<Result<SandboxView>> fork(const Caller& caller, std::string id, ForkWish wish) override;
  awaitable<Result<UndoView>> undo(const Caller& caller, std::string id, UndoWish wish) override;
  awaitable<Result<DiffView>> diff(const Caller& caller, DiffWish wish) override;
  awaitable<Result<std::unique_ptr<ByteReader>>> patch(const Caller& caller,
                                                       DiffWish wish) override;
  awaitable<Result<MergeView>> merge(const Caller& caller, std::string id, MergeWish wish) override;
  awaitable<Result<VolumeView>> set_volume(const Caller& caller, std::string name,
                                           std::uint64_t bytes_max) override;
  awaitable<Result<std::vector<VolumeView>>> volumes(const Caller& caller) override;
  awaitable<Result<void>> remove_volume(const Caller& caller, std::string name) override;
  awaitable<Result<SandboxView>> stop_sandbox(const Caller& caller, std::string id) override;
  awaitable<Result<SandboxView>> start_sandbox(const Caller& caller, std::string id) override;
  awaitable<Result<engine::PoolFacts>> storage(const Caller& caller) override;
  awaitable<Result<SandboxView>> promote(const Caller& caller, std::string id,
                                         PromoteWish wish) override;
  policy::SandboxTier minimum_tier(std::string_view tenant) const override;

  // --- for the parts of this folder.
  [[nodiscard]] std::weak_ptr<FleetImpl*> alive() const { return alive_; }
  void post(store::Store::Batch batch);  // durable soon; nobody waits for it
  // Durable before it returns.
  awaitable<Result<void>> record(store::Store::Batch batch);
  // Writes the row of a call that came to `result`, then gives the result back; what could not be
  // recorded did not succeed, and was not refused either.
  template <class T>
  awaitable<Result<T>> settle(Audited& audit, Result<T> result) {
    audit.judge(result ? nullptr : &result.error());
    store::Store::Batch batch;
    batch.audit.push_back(audit.row);
    auto written = co_await record(std::move(batch));
    audit.written();
    if (!written) co_return std::unexpected(written.error());
    co_return result;
  }
  [[nodiscard]] Error explain(const Sandbox& sandbox, const Error& error) const;

 private:
  friend class Reservation;
  friend class Audited;

  // fleet_audit.cc
  [[nodiscard]] store::AuditEvent row(const Caller& caller, std::string action, std::string sandbox,
                                      const std::string& object) const;
  [[nodiscard]] store::AuditEvent own_row(const Sandbox& sandbox, std::string actor,
                                          std::string action, const std::string& object) const;
  // Refuses before anything is done when the last row could not be written and still cannot.
  awaitable<Result<void>> store_works();
  // The same for a call that will have a row: Exhausted when its tenant has written his share.
  awaitable<Result<void>> store_works(Audited& audit);
  [[nodiscard]] Result<void> within_budget(Audited& audit);
  // Some row could not be written, and the audit does not say so yet.
  [[nodiscard]] bool rows_missing() const;
  [[nodiscard]] store::SandboxRecord stored(const Sandbox& sandbox) const;

  // fleet_life.cc
  [[nodiscard]] Result<SandboxPtr> find(const Caller& caller, std::string_view id) const;
  // Busy while it is paused: its init cannot answer.
  [[nodiscard]] static Result<void> awake(const Sandbox& sandbox);
  // Found, and woken(), for a call that leaves no row.
  awaitable<Result<SandboxPtr>> running(const Caller& caller, const std::string& id);
  [[nodiscard]] SandboxView view(const Sandbox& sandbox) const;
  void retire(const SandboxPtr& sandbox, std::string reason);
  // Ends it for a reason of our own or the launcher's, and records it.
  void end(const SandboxPtr& sandbox, std::string reason, std::string actor);
  awaitable<void> clear_away(std::string id);
  awaitable<Result<void>> destroy_now(Caller caller, SandboxPtr sandbox);
  awaitable<Result<SandboxView>> freeze_or_thaw(Caller caller, SandboxPtr sandbox, bool freeze);
  awaitable<Result<void>> rejoin(SandboxPtr sandbox);
  awaitable<void> recall_commands(SandboxPtr sandbox);
  // fleet_ports.cc
  awaitable<Result<UniqueFd>> connect_inside(std::string id, int family, std::uint16_t port);
  awaitable<Result<PortSocket>> connect_to(SandboxPtr sandbox, std::uint16_t port);

  // fleet_create.cc
  [[nodiscard]] Result<std::unique_ptr<Reservation>> reserve(const Caller& caller,
                                                             const std::string& name);
  awaitable<Result<SandboxView>> create_now(Caller caller, CreateWish wish);
  // `again`: the stopped one that it is; what that one trusts is in its files already.
  awaitable<Result<SandboxPtr>> launch(const Caller& caller, SandboxPlan plan,
                                       std::unique_ptr<Reservation> place,
                                       SandboxPtr again = nullptr);
  // The durable record, and then it is seen; or back to nothing.
  awaitable<Result<SandboxView>> enroll(SandboxPtr sandbox, Audited& audit, std::string event);
  awaitable<Result<SandboxBase>> find_base(const Caller& caller, const CreateWish& wish);
  awaitable<Result<void>> make_image_workdir(const Sandbox& sandbox);
  awaitable<Result<void>> write_files(const Sandbox& sandbox,
                                      std::vector<std::pair<std::string, std::string>> files);
  [[nodiscard]] Result<void> raise_tier(const std::string& tenant, SandboxPlan& plan,
                                        Audited& audit) const;
  void publish(const SandboxPtr& sandbox);
  void follow_guest(const SandboxPtr& sandbox);

  // fleet_open.cc
  awaitable<Result<void>> adopt();
  awaitable<void> adopt_or_bury(store::SandboxRecord old, const engine::Living* there,
                                store::Store::Batch& batch);
  awaitable<Result<SandboxPtr>> adopt_one(const store::SandboxRecord& record,
                                          const engine::Living& living);
  void launcher_lost();
  awaitable<void> clear_orphans();
  awaitable<void> look_at_death(SandboxPtr sandbox, Error error);

  // fleet_commands.cc
  [[nodiscard]] store::AuditEvent about(const Caller& caller, const Sandbox& sandbox,
                                        std::string action, std::uint32_t process) const;
  [[nodiscard]] Result<engine::ExecRequest> exec_request(Sandbox& sandbox, ExecWish wish,
                                                         std::string_view prefix);
  [[nodiscard]] Result<milliseconds> exec_timeout(const ExecWish& wish,
                                                  std::string_view prefix) const;
  [[nodiscard]] Result<void> may_run(const Sandbox& sandbox, std::string_view text) const;
  awaitable<Result<ExecOutcome>> run(const Caller& caller, SandboxPtr sandbox, ExecWish wish,
                                     std::string action, std::string prefix);
  awaitable<Result<ExecOutcome>> run_aloud(std::shared_ptr<engine::GuestChannel> guest,
                                           engine::ExecRequest request, OutputSink sink);
  awaitable<Result<std::vector<ProcessView>>> views(SandboxPtr sandbox);
  awaitable<Result<ProcessView>> view_of(SandboxPtr sandbox, std::uint32_t process);

  // fleet_files.cc
  awaitable<Result<boost::json::object>> read_tool(SandboxPtr sandbox, std::string path);
  awaitable<Result<boost::json::object>> write_tool(SandboxPtr sandbox, std::string path,
                                                    std::string content);

  // fleet_work_tree.cc
  awaitable<Result<LayerOutcome>> sanitise(const ArchiveWish& wish, const FileSpool& plain);
  awaitable<Result<ArchiveView>> put_sanitised(SandboxPtr sandbox, ArchiveWish wish);
  awaitable<Result<void>> clear_folder(SandboxPtr sandbox, std::string path);
  awaitable<Result<std::string>> make_patch_since(SandboxPtr sandbox,
                                                  std::shared_ptr<const Baseline> baseline);
  awaitable<Result<void>> drop_ignored(PatchBox& box, SandboxPtr sandbox, std::string path,
                                       TreeChanges& changes);

  // fleet_tools.cc
  awaitable<Result<boost::json::object>> file_tool(const Caller& caller, SandboxPtr sandbox,
                                                   std::string tool, boost::json::object arguments);
  awaitable<Result<boost::json::object>> run_file_tool(SandboxPtr sandbox, std::string tool,
                                                       boost::json::object arguments,
                                                       Audited& audit);

  // fleet_network.cc
  using Passed = std::weak_ptr<Sandbox>;
  [[nodiscard]] std::shared_ptr<egress::Resolver> resolver();
  [[nodiscard]] Result<void> open_gate(const SandboxPtr& sandbox, engine::GateSockets sockets);
  awaitable<Result<void>> reopen_gate(SandboxPtr sandbox);
  static void close_gate(Sandbox& sandbox) noexcept;
  [[nodiscard]] egress::Witness witness(const SandboxPtr& sandbox);
  static awaitable<Result<void>> passage_decided(std::weak_ptr<FleetImpl*> fleet, Passed sandbox,
                                                 egress::Passage passage);
  [[nodiscard]] bool passage_noted(const Sandbox& sandbox, const egress::Passage& passage);
  void passage_ended(const Sandbox& sandbox, const egress::Farewell& farewell);
  awaitable<Result<void>> change_network(SandboxPtr sandbox, EgressRules rules, Audited& audit);
  awaitable<Result<boost::json::object>> http_tool(SandboxPtr sandbox,
                                                   boost::json::object arguments, Audited& audit);
  // fleet_access_wish.cc
  awaitable<Result<boost::json::object>> access_tool(SandboxPtr sandbox,
                                                     boost::json::object arguments, Audited& audit);

  // fleet_secrets.cc
  [[nodiscard]] Result<Vault*> vault() const;
  // For a plan that wants one or whose rules look into TLS; none for others. What of it is kept is
  // in `kept`.
  [[nodiscard]] Result<std::shared_ptr<egress::Authority>> make_authority(
      const SandboxPlan& plan, std::optional<KeptAuthority>& kept) const;
  [[nodiscard]] Result<void> restore_authority(Sandbox& sandbox) const;

  // fleet_models.cc
  [[nodiscard]] std::shared_ptr<egress::Budget> tenant_budget(const std::string& tenant);
  [[nodiscard]] static std::string account_of(const std::string& tenant);
  [[nodiscard]] egress::BudgetState spent_before(const std::string& tenant) const;
  [[nodiscard]] store::SandboxRecord account(const std::string& tenant);
  void open_budget(Sandbox& sandbox);
  static void keep_spent(Sandbox& sandbox);
  void keep_payers(const Sandbox& sandbox, store::Store::Batch& batch);
  [[nodiscard]] std::shared_ptr<egress::Gateway> gateway_of(const SandboxPtr& sandbox);
  void model_called(Sandbox& sandbox, const egress::LlmCall& call);
  void budget_exceeded(const SandboxPtr& sandbox);

  // fleet_proxy.cc
  [[nodiscard]] Result<std::vector<std::string>> way_out_variables(Sandbox& sandbox);
  [[nodiscard]] Result<std::string> proxy_token(Sandbox& sandbox);
  [[nodiscard]] Result<std::string> fresh_token(Sandbox& sandbox);
  // For a sandbox whose token has words of its own: the first one, before it has a record.
  [[nodiscard]] Result<void> give_token(Sandbox& sandbox);
  void keep_token_home(Sandbox& sandbox, const std::string& digest);
  [[nodiscard]] egress::Identify identify_for(const SandboxPtr& sandbox) const;
  [[nodiscard]] std::shared_ptr<egress::Gate> gate_of_token(std::string_view field) const;

  // fleet_images.cc
  [[nodiscard]] Result<void> images_here() const;
  awaitable<Result<ImageView>> pull_now(Caller caller, PullWish wish,
                                        std::function<void(ImageProgress)> tell);
  awaitable<Result<SandboxBase>> base_of_image(const Caller& caller, std::string image);

  // fleet_image_box.cc
  awaitable<Result<void>> unpack(image::Layer layer, UniqueFd file,
                                 std::function<void(ImageProgress)> tell);
  awaitable<Result<ImageRecord>> shelve(const Caller& caller, image::PulledImage image,
                                        std::string source,
                                        std::function<void(ImageProgress)> tell);
  awaitable<Result<image::ResolvedUser>> image_user(std::vector<std::string> layers,
                                                    image::UserSpec spec);
  awaitable<Result<std::string>> account_file(std::shared_ptr<engine::GuestChannel> guest,
                                              std::string path);

  // fleet_transfer.cc
  friend class Upload;
  awaitable<Result<ImageView>> import_now(Caller caller, ImportWish wish, UniqueFd archive);
  awaitable<Result<ImageView>> build_now(Caller caller, BuildWish wish);
  awaitable<Result<ImageRecord>> build_layers(const Caller& caller, const BuildWish& wish,
                                              SnapshotRecord snapshot);
  awaitable<Result<UniqueFd>> pack(std::string layer);

  // fleet_snapshots.cc
  // The caller has the sandbox's turn. `audit` is written with it when there is one.
  awaitable<Result<SnapshotRecord>> seal(SandboxPtr sandbox, SealWish wish, Audited* audit);
  [[nodiscard]] Result<void> may_seal(const Sandbox& sandbox) const;
  // What a seal of it into `layer` will be.
  [[nodiscard]] SnapshotRecord draft(const Sandbox& sandbox, std::string id,
                                     const std::string& layer);
  awaitable<Result<void>> intend(const Sandbox& sandbox, const SnapshotRecord& making);
  void give_up(const Sandbox& sandbox, const SnapshotRecord& made, const Error& error);
  awaitable<Result<SnapshotRecord>> keep_sealed(SandboxPtr sandbox, SnapshotRecord made,
                                                SealRow row, Audited* audit);
  awaitable<Result<engine::Sealed>> seal_or_copy(SandboxPtr sandbox, std::string layer, bool copy);
  awaitable<Result<engine::Sealed>> copy_files(SandboxPtr sandbox, std::string layer);
  awaitable<Result<SnapshotView>> snapshot_now(Caller caller, SandboxPtr sandbox,
                                               SnapshotWish wish);
  awaitable<Result<void>> remove_snapshot_now(Caller caller, std::string id);
  [[nodiscard]] Result<SnapshotRecord> usable_snapshot(const Caller& caller,
                                                       std::string_view what) const;
  void forget_snapshots(const std::vector<std::string>& ids, store::Store::Batch& batch);
  [[nodiscard]] store::FileRecord sealed_row(const SnapshotRecord& record) const;
  void sync_soon();
  awaitable<void> sync_all();

  // fleet_forks.cc
  awaitable<Result<SandboxView>> fork_now(Caller caller, SandboxPtr parent, ForkWish wish);
  awaitable<Result<SnapshotRecord>> fork_point(SandboxPtr parent);
  awaitable<Result<SandboxPlan>> fork_plan(SandboxPtr parent, SnapshotRecord point, ForkWish wish);
  [[nodiscard]] SandboxPlan plan_again(const Sandbox& sandbox) const;

  // fleet_undo.cc
  // For every call that may change files: awake, in turn, and with a checkpoint where one is due.
  awaitable<Result<void>> before_change(SandboxPtr sandbox);
  awaitable<Result<void>> checkpoint(SandboxPtr sandbox);  // shielded: it has its own turn
  awaitable<Result<UndoView>> undo_now(Caller caller, SandboxPtr sandbox, UndoWish wish);
  awaitable<Result<UndoView>> go_back(SandboxPtr sandbox, UndoWish wish, Audited& audit);
  void flatten_soon(const SandboxPtr& sandbox);
  awaitable<void> flatten(SandboxPtr sandbox);
  awaitable<Result<void>> swap_run(SandboxPtr sandbox, std::vector<std::string> run,
                                   std::string layer);
  awaitable<Result<void>> shorten(SandboxPtr sandbox, SnapshotRecord made,
                                  engine::SnapshotKind kind, std::vector<std::string> run,
                                  std::string layer);

  // fleet_states.cc
  awaitable<Result<StatePoint>> state_point(const Caller& caller, std::string state,
                                            std::string field);
  awaitable<Result<LayerResult>> compare(const StatePoint& from, const StatePoint& to,
                                         std::string path, std::string stage);
  awaitable<Result<DiffView>> diff_now(Caller caller, DiffWish wish);
  awaitable<Result<std::unique_ptr<ByteReader>>> patch_now(Caller caller, DiffWish wish);
  awaitable<Result<std::unique_ptr<ByteReader>>> make_patch(std::string stage,
                                                            std::shared_ptr<LayerWorks::Hold> hold);
  awaitable<Result<MergeView>> merge_now(Caller caller, SandboxPtr sandbox, MergeWish wish);
  awaitable<Result<MergeView>> merge_into(Caller caller, SandboxPtr sandbox, MergeWish wish,
                                          Audited& audit);
  [[nodiscard]] static LayerJob merge_job(const StatePoint& ours, const StatePoint& theirs,
                                          const StatePoint& base, std::string layer);
  awaitable<Result<MergeView>> apply_merge(SandboxPtr sandbox, LayerResult merged,
                                           engine::LayerStack stack, MergeView out, Audited& audit);
  awaitable<Result<void>> end_guest_processes(SandboxPtr sandbox);
  awaitable<Result<SnapshotRecord>> seal_for_merge(SandboxPtr sandbox);
  [[nodiscard]] Result<StatePoint> merge_base(const StatePoint& ours,
                                              const StatePoint& theirs) const;

  // fleet_volumes.cc
  awaitable<Result<VolumeView>> set_volume_now(Caller caller, std::string name,
                                               std::uint64_t bytes_max);
  awaitable<Result<void>> remove_volume_now(Caller caller, std::string name);
  [[nodiscard]] std::vector<std::string> users_of(std::string_view tenant,
                                                  std::string_view volume) const;
  [[nodiscard]] Result<void> mount_volumes(const std::string& tenant, SandboxPlan& plan) const;
  // In a row about file state: what of the sandbox is not part of it.
  static void tell_volumes(const Sandbox& sandbox, Audited& audit);
  // From the plan on until the sandbox is seen, nobody removes what it will have.
  [[nodiscard]] LayerWorks::Hold hold_volumes(const std::string& tenant,
                                              const SandboxPlan& plan) const;

  // fleet_persistence.cc
  // What end() is for a sandbox whose files stay.
  void halt(const SandboxPtr& sandbox, std::string reason);
  void lay_down(const SandboxPtr& sandbox, std::string reason, std::string actor);
  awaitable<void> stop_away(std::string id);
  awaitable<Result<void>> stop_there(SandboxPtr sandbox);
  awaitable<Result<SandboxView>> stop_now(Caller caller, SandboxPtr sandbox);
  awaitable<Result<SandboxView>> start_now(Caller caller, SandboxPtr sandbox);
  awaitable<Result<void>> adopt_stopped(store::SandboxRecord old, bool there,
                                        store::Store::Batch& batch);

  // fleet_promote.cc
  awaitable<Result<SandboxView>> promote_now(Caller caller, SandboxPtr sandbox, PromoteWish wish);
  awaitable<Result<SandboxPtr>> move_up(const Caller& caller, SandboxPtr sandbox, SandboxPlan plan,
                                        bool end_processes);
  [[nodiscard]] Result<SandboxPlan> plan_higher(const Sandbox& sandbox, const std::string& tier);
  [[nodiscard]] Result<void> above_minimum(const std::string& tenant, const SandboxPlan& plan,
                                           std::string_view remedy) const;
  [[nodiscard]] static engine::Limits launcher_limits(const Sandbox& sandbox,
                                                      engine::Limits limits);
  awaitable<Result<void>> quiet_enough(SandboxPtr sandbox, bool end_processes);
  void take_place(const SandboxPtr& fresh, const SandboxPtr& old);
  awaitable<Result<SandboxPtr>> left_behind(SandboxPtr sandbox, SandboxPtr fresh,
                                            std::optional<Error> failed);

  // fleet_garbage.cc
  [[nodiscard]] Result<void> open_files();
  [[nodiscard]] Result<void> load_files();
  awaitable<Result<void>> check_files();
  // The launcher's store is known from here on.
  awaitable<Result<void>> look();
  awaitable<Result<void>> clear_store();
  // Seals of which nobody knows what came of them.
  [[nodiscard]] bool unsettled(const SnapshotRecord& record) const;
  [[nodiscard]] bool settles() const;
  awaitable<Result<void>> ask_stacks();
  void settle_making(const std::set<std::string>& there, store::Store::Batch& batch);
  void drop_undurable(store::Store::Batch& batch);
  void tell_broken(store::Store::Batch& batch);
  [[nodiscard]] std::set<std::string> referenced_layers() const;
  // fleet_ledger.cc
  [[nodiscard]] std::uint64_t tenant_bytes(const std::string& tenant) const;
  // Exhausted where `more` would be too much; `instead` of what is there already.
  [[nodiscard]] Result<void> has_room(const std::string& tenant, std::uint64_t more,
                                      std::uint64_t instead = 0) const;
  awaitable<std::uint64_t> drop_layers(bool images);
  void tidy_soon();
  awaitable<void> tidy();
  awaitable<Result<GarbageView>> collect_now(Caller caller);

  // fleet_rest.cc
  [[nodiscard]] bool may_rest(const Sandbox& sandbox) const;
  void begin_look(const SandboxPtr& sandbox);
  awaitable<void> look_whether_idle(SandboxPtr sandbox);
  awaitable<void> settle_down(SandboxPtr sandbox, std::uint64_t held);
  awaitable<Result<void>> wake(SandboxPtr sandbox);   // it does not rest any more
  awaitable<Result<void>> woken(SandboxPtr sandbox);  // and it is awake(): its init answers
  awaitable<Result<void>> wake_now(SandboxPtr sandbox);
  awaitable<Result<void>> end_rest(SandboxPtr sandbox);

  // fleet_expiry.cc
  void schedule(Sandbox& sandbox);
  void unschedule(Sandbox& sandbox);
  void arm_expiry();
  void check_expiry();

  boost::asio::any_io_executor executor_;
  FleetOptions options_;
  engine::HostFeatures host_;
  Blocklist blocklist_;
  store::Store& store_;
  EventRing events_;
  std::shared_ptr<FleetImpl*> alive_;  // parts that outlive us see that we are gone
  std::map<std::string, SandboxPtr, std::less<>> living_;
  std::size_t places_ = 0;
  std::map<std::string, std::size_t> tenant_places_;
  std::map<std::string, std::size_t> token_places_;
  std::set<std::pair<std::string, std::string>> names_;  // tenant, name
  std::set<std::pair<TimePoint, std::string>> deadlines_;
  boost::asio::steady_timer expiry_;
  Turns settling_{executor_, kSettlingMax};
  FleetCounters counters_;
  RowBudget budget_;
  std::map<std::string, std::shared_ptr<egress::Budget>> tenant_budgets_;
  std::shared_ptr<HostProxy> host_proxy_;
  // Whose each token is that has words of its own, by its digest.
  std::map<std::string, std::weak_ptr<Sandbox>, std::less<>> token_homes_;
  std::size_t token_homes_sweep_ = kTokenHomesSweepMin;
  std::shared_ptr<egress::Resolver> resolver_;  // of all gates, and of pulls
  bool store_failed_ = false;
  std::uint64_t unwritten_told_ = 0;  // of the store's rows that could not be written
  std::set<std::string> orphans_;     // recorded as ended when the launcher went out of reach
  bool stopping_ = false;
  bool serving_ = false;    // calls come: what the launcher has may be in the making
  bool disk_lost_ = false;  // a sandbox on disk was lost before this start
  FileKeeping files_{executor_};
  boost::asio::thread_pool readers_{1};  // what asks the store something waits for the disk there
  std::unique_ptr<engine::LauncherChannel> launcher_;  // goes first: it calls us
};

// A call about the guest, by the sandbox's own words when it ended under it.
template <class T>
Result<T> explained(const FleetImpl& fleet, const Sandbox& sandbox, Result<T> result) {
  if (result || result.error().code != Errc::Gone) return result;
  return std::unexpected(fleet.explain(sandbox, result.error()));
}

}  // namespace caisson::control
