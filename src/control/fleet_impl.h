// control/fleet_impl.h — the inside of fleet.h. Only the fleet_*.cc files include it.
// Its parts are listed in fleet_parts.h.
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
#include "control/vault.h"
#include "egress/credentials/authority.h"
#include "egress/gate/gate.h"
#include "egress/gate/resolver.h"
#include "engine/channel/guest_channel.h"

namespace caisson::control {

class FileSpool;
class PatchBox;
struct TreeChanges;

// A parameter without a name is what its type says.
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

  awaitable<Result<SandboxView>> create(const Caller&, CreateWish) override;
  Result<SandboxView> get(const Caller&, std::string_view id) override;
  std::vector<SandboxView> list(const Caller&) override;
  awaitable<Result<void>> destroy(const Caller&, std::string id) override;
  awaitable<Result<boost::json::object>> execute_tool(const Caller&, std::string id,
                                                      std::string tool,
                                                      boost::json::object arguments,
                                                      engine::AdmitOutput admit) override;
  boost::json::array tools() const override;
  awaitable<Result<ExecOutcome>> exec(const Caller&, std::string id, ExecWish) override;
  awaitable<Result<OnceView>> run_once(const Caller&, CreateWish, ExecWish) override;
  awaitable<Result<ProcessView>> start(const Caller&, std::string id, ProcessWish) override;
  awaitable<Result<std::vector<ProcessView>>> processes(const Caller&, std::string id) override;
  awaitable<Result<ProcessView>> process(const Caller&, std::string id,
                                         std::uint32_t process) override;
  awaitable<Result<std::unique_ptr<OutputStream>>> attach(const Caller&, std::string id,
                                                          std::uint32_t process,
                                                          std::uint64_t out_offset,
                                                          std::uint64_t err_offset) override;
  awaitable<Result<void>> write_input(const Caller&, std::string id, std::uint32_t process,
                                      std::string bytes, bool then_close) override;
  awaitable<Result<void>> signal(const Caller&, std::string id, std::uint32_t process, int number,
                                 bool whole_tree) override;
  awaitable<Result<void>> resize(const Caller&, std::string id, std::uint32_t process,
                                 std::uint16_t rows, std::uint16_t columns) override;
  awaitable<Result<ProcessView>> wait(const Caller&, std::string id, std::uint32_t process,
                                      milliseconds timeout) override;
  awaitable<Result<void>> forget(const Caller&, std::string id, std::uint32_t process) override;
  awaitable<Result<CodeOutcome>> run_code(const Caller&, std::string id, CodeWish) override;
  awaitable<Result<ContextView>> create_context(const Caller&, std::string id,
                                                ContextWish) override;
  awaitable<Result<Contexts>> contexts(const Caller&, std::string id) override;
  awaitable<Result<void>> interrupt_context(const Caller&, std::string id,
                                            std::string context) override;
  awaitable<Result<void>> remove_context(const Caller&, std::string id,
                                         std::string context) override;
  awaitable<Result<FileView>> stat(const Caller&, std::string id, std::string path,
                                   bool follow) override;
  awaitable<Result<std::vector<FileView>>> list_files(const Caller&, std::string id,
                                                      std::string path, bool recursive) override;
  awaitable<Result<Download>> read_file(const Caller&, std::string id, std::string path,
                                        std::optional<Range> range) override;
  awaitable<Result<std::string>> resolve_path(const Caller&, std::string id,
                                              std::string path) override;
  awaitable<Result<std::unique_ptr<ByteReader>>> read_resolved(const Caller&, std::string id,
                                                               std::string path) override;
  awaitable<Result<std::unique_ptr<ByteWriter>>> write_file(const Caller&, std::string id,
                                                            std::string path, WriteWish) override;
  awaitable<Result<void>> make_folder(const Caller&, std::string id, std::string path,
                                      bool parents) override;
  awaitable<Result<void>> move(const Caller&, std::string id, std::string from, std::string to,
                               bool replace) override;
  awaitable<Result<std::uint64_t>> remove(const Caller&, std::string id, std::string path,
                                          bool recursive) override;
  awaitable<Result<std::unique_ptr<WatchStream>>> watch(const Caller&, std::string id,
                                                        std::string path, bool recursive) override;
  awaitable<Result<std::unique_ptr<ByteReader>>> tar_out(const Caller&, std::string id,
                                                         std::string path) override;
  awaitable<Result<std::unique_ptr<ByteWriter>>> tar_in(const Caller&, std::string id,
                                                        std::string path) override;
  Result<std::shared_ptr<Spool>> spool(const Caller&) override;
  awaitable<Result<ArchiveView>> put_archive(const Caller&, std::string id, ArchiveWish) override;
  awaitable<Result<std::string>> patch_since(const Caller&, std::string id,
                                             std::shared_ptr<const Baseline> baseline) override;
  awaitable<Result<std::vector<FileView>>> find_files(const Caller&, std::string id,
                                                      FindWish) override;
  awaitable<Result<GrepView>> grep_files(const Caller&, std::string id, GrepWish) override;
  awaitable<Result<std::unique_ptr<SessionTurn>>> session_turn(const Caller&, std::string id,
                                                               milliseconds wait) override;
  awaitable<Result<SandboxView>> set_labels(const Caller&, std::string id,
                                            std::map<std::string, std::string> labels) override;
  awaitable<Result<SandboxView>> pause(const Caller&, std::string id) override;
  awaitable<Result<SandboxView>> resume(const Caller&, std::string id) override;
  awaitable<Result<SandboxView>> hibernate(const Caller&, std::string id) override;
  awaitable<Result<SandboxView>> set_limits(const Caller&, std::string id, LimitWish) override;
  awaitable<Result<SandboxView>> set_network(const Caller&, std::string id, NetworkWish) override;
  awaitable<Result<UsageView>> usage(const Caller&, std::string id) override;
  awaitable<Result<void>> put_secret(const Caller&, std::string name, std::string value) override;
  awaitable<Result<UsageView>> record_usage(const Caller&, std::string id, UsageWish) override;
  Result<std::vector<std::string>> secret_names(const Caller&) override;
  awaitable<Result<void>> remove_secret(const Caller&, std::string name) override;
  awaitable<Result<PortSocket>> connect_port(const Caller&, std::string id,
                                             std::uint16_t port) override;
  awaitable<Result<PortSocket>> connect_again(const Caller&, std::string id,
                                              std::uint16_t port) override;
  awaitable<Result<PortsView>> ports(const Caller&, std::string id) override;
  awaitable<Result<void>> wait_for_port(const Caller&, std::string id, std::uint16_t port,
                                        milliseconds timeout) override;
  Result<SandboxView> look_up(std::string_view id) override;
  std::size_t living_of(std::string_view tenant) const override;
  Result<std::unique_ptr<EventStream>> events(const Caller&, std::optional<std::string> sandbox,
                                              std::uint64_t after) override;
  FleetCounters counters() const override;
  Result<void> ready() const override;

  // --- file state (file_state.h)
  awaitable<Result<std::unique_ptr<PullStream>>> pull_image(const Caller&, PullWish) override;
  awaitable<Result<std::unique_ptr<ImageUpload>>> import_image(const Caller&, ImportWish) override;
  awaitable<Result<ImageView>> build_image(const Caller&, BuildWish) override;
  std::vector<ImageView> images(const Caller&) override;
  Result<ImageView> image(const Caller&, std::string_view reference) override;
  awaitable<Result<void>> remove_image(const Caller&, std::string reference) override;
  awaitable<Result<std::unique_ptr<ByteReader>>> export_image(const Caller&,
                                                              std::string reference) override;
  awaitable<Result<GarbageView>> collect_garbage(const Caller&) override;
  awaitable<Result<SnapshotView>> snapshot(const Caller&, std::string id, SnapshotWish) override;
  std::vector<SnapshotView> snapshots(const Caller&, std::optional<std::string> sandbox) override;
  Result<SnapshotView> get_snapshot(const Caller&, std::string_view snapshot) override;
  awaitable<Result<void>> remove_snapshot(const Caller&, std::string snapshot) override;
  awaitable<Result<SandboxView>> fork(const Caller&, std::string id, ForkWish) override;
  awaitable<Result<UndoView>> undo(const Caller&, std::string id, UndoWish) override;
  awaitable<Result<DiffView>> diff(const Caller&, DiffWish) override;
  awaitable<Result<std::unique_ptr<ByteReader>>> patch(const Caller&, DiffWish) override;
  awaitable<Result<MergeView>> merge(const Caller&, std::string id, MergeWish) override;
  awaitable<Result<VolumeView>> set_volume(const Caller&, std::string name,
                                           std::uint64_t bytes_max) override;
  awaitable<Result<std::vector<VolumeView>>> volumes(const Caller&) override;
  awaitable<Result<void>> remove_volume(const Caller&, std::string name) override;
  awaitable<Result<SandboxView>> stop_sandbox(const Caller&, std::string id) override;
  awaitable<Result<SandboxView>> start_sandbox(const Caller&, std::string id) override;
  awaitable<Result<engine::PoolFacts>> storage(const Caller&) override;
  awaitable<Result<SandboxView>> promote(const Caller&, std::string id, PromoteWish) override;
  policy::SandboxTier minimum_tier(std::string_view tenant) const override;

  // --- for the parts of this folder.
  [[nodiscard]] std::weak_ptr<FleetImpl*> alive() const { return alive_; }
  void post(store::Store::Batch);  // durable soon; nobody waits for it
  // Durable before it returns.
  awaitable<Result<void>> record(store::Store::Batch);
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
  [[nodiscard]] Error explain(const Sandbox&, const Error&) const;

 private:
  friend class Reservation;
  friend class Audited;
  friend class FleetCode;  // fleet_code.h

  // fleet_audit.cc
  [[nodiscard]] store::AuditEvent row(const Caller&, std::string action, std::string sandbox,
                                      const std::string& object) const;
  [[nodiscard]] store::AuditEvent own_row(const Sandbox&, std::string actor, std::string action,
                                          const std::string& object) const;
  // Refuses before anything is done when the last row could not be written and still cannot.
  awaitable<Result<void>> store_works();
  // The same for a call that will have a row: Exhausted when its tenant has written his share.
  awaitable<Result<void>> store_works(Audited&);
  [[nodiscard]] Result<void> within_budget(Audited&);
  // Some row could not be written, and the audit does not say so yet.
  [[nodiscard]] bool rows_missing() const;
  [[nodiscard]] store::SandboxRecord stored(const Sandbox&) const;
  // Busy when nothing may make it outlive its only command.
  [[nodiscard]] static Result<void> lasting(const Sandbox&);

  // fleet_life.cc
  [[nodiscard]] Result<SandboxPtr> find(const Caller&, std::string_view id) const;
  // Busy while it is paused: its init cannot answer.
  [[nodiscard]] static Result<void> awake(const Sandbox&);
  // For whoever has waited for a turn: Busy when another object is the sandbox by now.
  [[nodiscard]] Result<void> still(const Sandbox&) const;
  // For whoever changes what it is, and not what is in it. Of one that is stopped that is what its
  // next start goes by, which does not happen as long as the turn is held.
  awaitable<Result<Turns::Turn>> unmoved(SandboxPtr);
  // Found, and woken(), for a call that leaves no row.
  awaitable<Result<SandboxPtr>> running(const Caller&, const std::string& id);
  [[nodiscard]] SandboxView view(const Sandbox&) const;
  void retire(const SandboxPtr&, std::string reason);
  // Ends it for a reason of our own or the launcher's, and records it.
  void end(const SandboxPtr&, const std::string& reason, std::string actor);
  awaitable<void> clear_away(std::string id);
  awaitable<Result<void>> destroy_now(Caller, SandboxPtr);
  awaitable<Result<SandboxView>> freeze_or_thaw(Caller, SandboxPtr, bool freeze);
  awaitable<Result<void>> rejoin(SandboxPtr);
  awaitable<void> recall_commands(SandboxPtr);
  // fleet_ports.cc
  awaitable<Result<UniqueFd>> connect_inside(std::string id, int family, std::uint16_t port);
  awaitable<Result<PortSocket>> connect_to(SandboxPtr, std::uint16_t port);

  // fleet_create.cc
  [[nodiscard]] Result<std::unique_ptr<Reservation>> reserve(const Caller&,
                                                             const std::string& name);
  awaitable<Result<SandboxView>> create_now(Caller, CreateWish);
  // Launched, and nobody knows it yet.
  awaitable<Result<Made>> make(const Caller&, const CreateWish&, Audited&);
  void describe(const Sandbox&, Audited&) const;
  // `again`: the stopped one that it is; what that one trusts is in its files already.
  awaitable<Result<SandboxPtr>> launch(const Caller&, SandboxPlan,
                                       std::unique_ptr<Reservation> place,
                                       SandboxPtr again = nullptr);
  // The durable record, and then it is seen; or back to nothing.
  awaitable<Result<SandboxView>> enroll(SandboxPtr, Audited&, std::string event);
  awaitable<Result<SandboxBase>> find_base(const Caller&, const CreateWish&);
  awaitable<Result<void>> make_image_workdir(const Sandbox&);
  awaitable<Result<void>> write_files(const Sandbox&,
                                      std::vector<std::pair<std::string, std::string>> files);
  [[nodiscard]] Result<void> raise_tier(const std::string& tenant, SandboxPlan&, Audited&) const;
  void publish(const SandboxPtr&);
  void follow_guest(const SandboxPtr&);

  // fleet_once.cc
  class Once;
  awaitable<Result<std::shared_ptr<Once>>> make_once(Caller, CreateWish);

  // fleet_open.cc
  awaitable<Result<void>> adopt();
  awaitable<void> adopt_or_bury(store::SandboxRecord old, const engine::Living* there,
                                store::Store::Batch&);
  awaitable<Result<SandboxPtr>> adopt_one(const store::SandboxRecord& record,
                                          const engine::Living& living);
  awaitable<Result<void>> go_on_once_saved(std::string id);
  void launcher_lost();
  awaitable<void> clear_orphans();
  awaitable<void> look_at_death(SandboxPtr, Error error);

  // fleet_commands.cc
  [[nodiscard]] store::AuditEvent about(const Caller&, const Sandbox&, std::string action,
                                        std::uint32_t process) const;
  [[nodiscard]] Result<engine::ExecRequest> exec_request(Sandbox&, ExecWish,
                                                         std::string_view prefix);
  [[nodiscard]] Result<milliseconds> exec_timeout(const ExecWish&, std::string_view prefix) const;
  [[nodiscard]] Result<void> may_run(const Sandbox&, std::string_view text) const;
  awaitable<Result<ExecOutcome>> run(const Caller&, SandboxPtr, ExecWish, std::string action,
                                     std::string prefix);
  awaitable<Result<ExecOutcome>> run_aloud(std::shared_ptr<engine::GuestChannel> guest,
                                           engine::ExecRequest request, OutputSink sink);
  awaitable<Result<std::vector<ProcessView>>> views(SandboxPtr);
  awaitable<Result<ProcessView>> view_of(SandboxPtr, std::uint32_t process);

  // fleet_files.cc
  awaitable<Result<boost::json::object>> read_tool(SandboxPtr, std::string path);
  awaitable<Result<boost::json::object>> write_tool(SandboxPtr, std::string path,
                                                    std::string content);

  // fleet_work_tree.cc
  awaitable<Result<LayerOutcome>> sanitise(const ArchiveWish&, const FileSpool& plain);
  awaitable<Result<ArchiveView>> put_sanitised(SandboxPtr, ArchiveWish);
  awaitable<Result<void>> clear_folder(SandboxPtr, std::string path);
  awaitable<Result<std::string>> make_patch_since(SandboxPtr,
                                                  std::shared_ptr<const Baseline> baseline);
  awaitable<Result<void>> drop_ignored(PatchBox& box, SandboxPtr, std::string path,
                                       TreeChanges& changes);

  // fleet_tools.cc
  awaitable<Result<boost::json::object>> file_tool(const Caller&, SandboxPtr, std::string tool,
                                                   boost::json::object arguments);
  awaitable<Result<boost::json::object>> run_file_tool(SandboxPtr, std::string tool,
                                                       boost::json::object arguments, Audited&);

  // fleet_network.cc
  using Passed = std::weak_ptr<Sandbox>;
  [[nodiscard]] std::shared_ptr<egress::Resolver> resolver();
  [[nodiscard]] Result<void> open_gate(const SandboxPtr&, engine::GateSockets sockets);
  awaitable<Result<void>> reopen_gate(SandboxPtr);
  static void close_gate(Sandbox&) noexcept;
  [[nodiscard]] egress::Witness witness(const SandboxPtr&);
  static awaitable<Result<void>> passage_decided(std::weak_ptr<FleetImpl*> fleet, Passed sandbox,
                                                 egress::Passage passage);
  [[nodiscard]] bool passage_noted(const Sandbox&, const egress::Passage& passage);
  void passage_ended(const Sandbox&, const egress::Farewell& farewell);
  awaitable<Result<void>> change_network(SandboxPtr, EgressRules rules, Audited&);
  awaitable<Result<boost::json::object>> http_tool(SandboxPtr, boost::json::object arguments,
                                                   Audited&);
  // fleet_access_wish.cc
  awaitable<Result<boost::json::object>> access_tool(SandboxPtr, boost::json::object arguments,
                                                     Audited&);

  // fleet_secrets.cc
  [[nodiscard]] Result<Vault*> vault() const;
  // For a plan that wants one or whose rules look into TLS; none for others. What of it is kept is
  // in `kept`.
  [[nodiscard]] Result<std::shared_ptr<egress::Authority>> make_authority(
      const SandboxPlan&, std::optional<KeptAuthority>& kept) const;
  [[nodiscard]] Result<void> restore_authority(Sandbox&) const;

  // fleet_models.cc
  [[nodiscard]] std::shared_ptr<egress::Budget> tenant_budget(const std::string& tenant);
  [[nodiscard]] static std::string account_of(const std::string& tenant);
  [[nodiscard]] egress::BudgetState spent_before(const std::string& tenant) const;
  [[nodiscard]] store::SandboxRecord account(const std::string& tenant);
  void open_budget(Sandbox&);
  static void keep_spent(Sandbox&);
  void keep_payers(const Sandbox&, store::Store::Batch&);
  [[nodiscard]] std::shared_ptr<egress::Gateway> gateway_of(const SandboxPtr&);
  void model_called(Sandbox&, const egress::LlmCall& call);
  void budget_exceeded(const SandboxPtr&);

  // fleet_proxy.cc
  [[nodiscard]] Result<std::vector<std::string>> way_out_variables(Sandbox&);
  [[nodiscard]] Result<std::string> proxy_token(Sandbox&);
  [[nodiscard]] Result<std::string> fresh_token(Sandbox&);
  // For a sandbox whose token has words of its own: the first one, before it has a record.
  [[nodiscard]] Result<void> give_token(Sandbox&);
  void keep_token_home(Sandbox&, const std::string& digest);
  [[nodiscard]] egress::Identify identify_for(const SandboxPtr&) const;
  [[nodiscard]] std::shared_ptr<egress::Gate> gate_of_token(std::string_view field) const;

  // fleet_images.cc
  [[nodiscard]] Result<void> images_here() const;
  awaitable<Result<ImageView>> pull_now(Caller, PullWish, std::function<void(ImageProgress)> tell);
  awaitable<Result<SandboxBase>> base_of_image(const Caller&, std::string image);

  // fleet_image_box.cc
  awaitable<Result<void>> unpack(image::Layer layer, UniqueFd file,
                                 std::function<void(ImageProgress)> tell);
  awaitable<Result<ImageRecord>> shelve(const Caller&, image::PulledImage image, std::string source,
                                        std::function<void(ImageProgress)> tell);
  awaitable<Result<image::ResolvedUser>> image_user(std::vector<std::string> layers,
                                                    image::UserSpec spec);
  awaitable<Result<std::string>> account_file(std::shared_ptr<engine::GuestChannel> guest,
                                              std::string path);

  // fleet_transfer.cc
  friend class Upload;
  awaitable<Result<ImageView>> import_now(Caller, ImportWish, UniqueFd archive);
  awaitable<Result<ImageView>> build_now(Caller, BuildWish);
  awaitable<Result<ImageRecord>> build_layers(const Caller&, const BuildWish&,
                                              SnapshotRecord snapshot);
  awaitable<Result<UniqueFd>> pack(std::string layer);

  // fleet_snapshots.cc
  // The caller has the sandbox's turn. `audit` is written with it when there is one.
  awaitable<Result<SnapshotRecord>> seal(SandboxPtr, SealWish, Audited*);
  [[nodiscard]] Result<void> may_seal(const Sandbox&) const;
  // What a seal of it into `layer` will be.
  [[nodiscard]] SnapshotRecord draft(const Sandbox&, std::string id, const std::string& layer);
  awaitable<Result<void>> intend(const Sandbox&, const SnapshotRecord& making);
  void give_up(const Sandbox&, const SnapshotRecord& made, const Error&);
  awaitable<Result<SnapshotRecord>> keep_sealed(SandboxPtr, SnapshotRecord made, SealRow row,
                                                Audited*);
  awaitable<Result<engine::Sealed>> seal_or_copy(SandboxPtr, std::string layer, bool copy);
  awaitable<Result<engine::Sealed>> copy_files(SandboxPtr, std::string layer);
  awaitable<Result<engine::Sealed>> copy_upper(SandboxPtr, std::string layer, Turns::Turn turn);
  awaitable<Result<SnapshotView>> snapshot_now(Caller, SandboxPtr, SnapshotWish);
  awaitable<Result<void>> remove_snapshot_now(Caller, std::string id);
  [[nodiscard]] Result<SnapshotRecord> usable_snapshot(const Caller&, std::string_view what) const;
  void forget_snapshots(const std::vector<std::string>& ids, store::Store::Batch&);
  [[nodiscard]] store::FileRecord sealed_row(const SnapshotRecord& record) const;
  void sync_soon();
  awaitable<void> sync_all();

  // fleet_forks.cc
  awaitable<Result<SandboxView>> fork_now(Caller, SandboxPtr parent, ForkWish);
  awaitable<Result<SnapshotRecord>> fork_point(SandboxPtr parent);
  awaitable<Result<SnapshotRecord>> fork_point_with_memory(SandboxPtr parent);
  awaitable<Result<SandboxPlan>> fork_plan(SandboxPtr parent, SnapshotRecord point, ForkWish);
  [[nodiscard]] SandboxPlan plan_again(const Sandbox&) const;

  // fleet_undo.cc
  // For every call that may change files: awake, in turn, and with a checkpoint where one is due.
  awaitable<Result<void>> before_change(SandboxPtr);
  awaitable<Result<void>> checkpoint(SandboxPtr);  // shielded: it has its own turn
  awaitable<Result<UndoView>> undo_now(Caller, SandboxPtr, UndoWish);
  awaitable<Result<UndoView>> go_back(SandboxPtr, UndoWish, Audited&);
  void flatten_soon(const SandboxPtr&);
  awaitable<void> flatten(SandboxPtr);
  awaitable<Result<void>> swap_run(SandboxPtr, std::vector<std::string> run, std::string layer);
  awaitable<Result<void>> shorten(SandboxPtr, SnapshotRecord made, engine::SnapshotKind kind,
                                  std::vector<std::string> run, std::string layer);

  // fleet_states.cc
  awaitable<Result<StatePoint>> state_point(const Caller&, std::string state, std::string field);
  awaitable<Result<LayerResult>> compare(const StatePoint& from, const StatePoint& to,
                                         std::string path, std::string stage);
  awaitable<Result<DiffView>> diff_now(Caller, DiffWish);
  awaitable<Result<std::unique_ptr<ByteReader>>> patch_now(Caller, DiffWish);
  awaitable<Result<std::unique_ptr<ByteReader>>> make_patch(std::string stage,
                                                            std::shared_ptr<LayerWorks::Hold> hold);
  awaitable<Result<MergeView>> merge_now(Caller, SandboxPtr, MergeWish);
  awaitable<Result<MergeView>> merge_into(Caller, SandboxPtr, MergeWish, Audited&);
  [[nodiscard]] static LayerJob merge_job(const StatePoint& ours, const StatePoint& theirs,
                                          const StatePoint& base, std::string layer);
  awaitable<Result<MergeView>> apply_merge(SandboxPtr, LayerResult merged, engine::LayerStack stack,
                                           MergeView out, Audited&);
  awaitable<Result<void>> end_guest_processes(SandboxPtr);
  awaitable<Result<SnapshotRecord>> seal_for_merge(SandboxPtr);
  [[nodiscard]] Result<StatePoint> merge_base(const StatePoint& ours,
                                              const StatePoint& theirs) const;

  // fleet_volumes.cc
  awaitable<Result<VolumeView>> set_volume_now(Caller, std::string name, std::uint64_t bytes_max);
  awaitable<Result<void>> remove_volume_now(Caller, std::string name);
  [[nodiscard]] std::vector<std::string> users_of(std::string_view tenant,
                                                  std::string_view volume) const;
  [[nodiscard]] Result<void> mount_volumes(const std::string& tenant, SandboxPlan&) const;
  // In a row about file state: what of the sandbox is not part of it.
  static void tell_volumes(const Sandbox&, Audited&);
  // From the plan on until the sandbox is seen, nobody removes what it will have.
  [[nodiscard]] LayerWorks::Hold hold_volumes(const std::string& tenant, const SandboxPlan&) const;

  // fleet_persistence.cc
  // What end() is for a sandbox whose files stay.
  void halt(const SandboxPtr&, std::string reason);
  void lay_down(const SandboxPtr&, const std::string& reason, std::string actor);
  awaitable<void> stop_away(std::string id);
  awaitable<Result<void>> stop_there(SandboxPtr);
  awaitable<Result<SandboxView>> stop_now(Caller, SandboxPtr);
  awaitable<Result<SandboxView>> start_now(Caller, SandboxPtr);
  awaitable<Result<void>> adopt_stopped(store::SandboxRecord old, bool there, store::Store::Batch&);

  // fleet_memory.cc
  [[nodiscard]] Result<void> begin_memory(const Sandbox&, const SealWish&,
                                          SnapshotRecord& made) const;
  awaitable<Result<engine::Sealed>> seal_standing(SandboxPtr, SnapshotRecord& made,
                                                  std::string layer, SealMemory memory);
  awaitable<Result<engine::Sealed>> seal_files(SandboxPtr, SnapshotRecord& made, std::string layer);
  awaitable<Result<void>> measure(SnapshotRecord& made);
  awaitable<Result<void>> goes_on(SandboxPtr);
  awaitable<Result<SandboxPlan>> memory_plan(const Caller&, const CreateWish&);
  awaitable<Result<SandboxView>> create_with_memory(const Caller&, CreateWish, Audited&);
  awaitable<void> spend_memory(std::string snapshot);
  awaitable<void> spend_what_nobody_wakes();
  awaitable<void> drop_memories();
  awaitable<void> drop_memory(std::string name);
  awaitable<Result<SandboxView>> hibernate_now(Caller, SandboxPtr);
  awaitable<Result<void>> put_away(SandboxPtr, std::string snapshot, Audited&);
  awaitable<void> stay(SandboxPtr);
  awaitable<Result<void>> end_hibernation(SandboxPtr);  // of who hibernates
  awaitable<Result<void>> end_hibernation_now(SandboxPtr);
  awaitable<Result<void>> bring_back(SandboxPtr);
  [[nodiscard]] Result<SandboxPlan> wake_plan(const Sandbox&) const;
  // Of one that hibernates: it has another time to live from here on.
  static void move_end(Sandbox&, std::uint64_t life_us);
  // fleet_promote.cc
  awaitable<Result<SandboxView>> promote_now(Caller, SandboxPtr, PromoteWish);
  awaitable<Result<SandboxPtr>> move_up(const Caller&, SandboxPtr, SandboxPlan, bool end_processes);
  [[nodiscard]] Result<SandboxPlan> plan_higher(const Sandbox&, const std::string& tier);
  [[nodiscard]] Result<void> above_minimum(const std::string& tenant, const SandboxPlan&,
                                           std::string_view remedy) const;
  [[nodiscard]] static engine::Limits launcher_limits(const Sandbox&, engine::Limits limits);
  awaitable<Result<void>> quiet_enough(SandboxPtr, bool end_processes);
  awaitable<Result<void>> calls_over(SandboxPtr, bool wait);
  void take_place(const SandboxPtr& fresh, const SandboxPtr& old);
  awaitable<Result<SandboxPtr>> left_behind(SandboxPtr, SandboxPtr fresh,
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
  void settle_making(const std::set<std::string>& there, store::Store::Batch&);
  void drop_undurable(store::Store::Batch&);
  void tell_broken(store::Store::Batch&);
  [[nodiscard]] std::set<std::string> referenced_layers() const;
  // fleet_ledger.cc
  [[nodiscard]] std::uint64_t tenant_bytes(const std::string& tenant) const;
  // Exhausted where `more` would be too much; `instead` of what is there already.
  [[nodiscard]] Result<void> has_room(const std::string& tenant, std::uint64_t more,
                                      std::uint64_t instead = 0) const;
  awaitable<std::uint64_t> drop_layers(bool images);
  void tidy_soon();
  awaitable<void> tidy();
  awaitable<Result<GarbageView>> collect_now(Caller);

  // fleet_rest.cc
  [[nodiscard]] bool may_rest(const Sandbox&) const;
  void begin_look(const SandboxPtr&);
  awaitable<void> look_whether_idle(SandboxPtr);
  awaitable<void> settle_down(SandboxPtr, std::uint64_t held);
  awaitable<Result<void>> wake(SandboxPtr);   // it does not rest any more
  awaitable<Result<void>> woken(SandboxPtr);  // and it is awake(): its init answers
  awaitable<Result<void>> wake_now(SandboxPtr);
  awaitable<Result<void>> end_rest(SandboxPtr);

  // fleet_expiry.cc
  void schedule(Sandbox&);
  void unschedule(Sandbox&);
  void arm_expiry();
  void check_expiry();
  awaitable<void> end_asleep(Caller server, SandboxPtr);

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
  bool leftovers_ = false;  // before this start, a sandbox on disk was lost or a save was cut off
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
