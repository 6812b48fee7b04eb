// doors/rest/handlers.h — one function per operation of the contract, by the file that holds it.
#pragma once

#include "doors/rest/call.h"

namespace caisson::rest {

// sandboxes.cc
awaitable<Result<void>> create_sandbox(Call& call);
awaitable<Result<void>> list_sandboxes(Call& call);
awaitable<Result<void>> get_sandbox(Call& call);
awaitable<Result<void>> destroy_sandbox(Call& call);
awaitable<Result<void>> set_limits(Call& call);
awaitable<Result<void>> set_network(Call& call);
awaitable<Result<void>> get_usage(Call& call);
awaitable<Result<void>> list_usage(Call& call);
awaitable<Result<void>> record_usage(Call& call);
awaitable<Result<void>> pause_sandbox(Call& call);
awaitable<Result<void>> resume_sandbox(Call& call);
awaitable<Result<void>> hibernate_sandbox(Call& call);
awaitable<Result<void>> stop_sandbox(Call& call);
awaitable<Result<void>> start_sandbox(Call& call);
// snapshots.cc
awaitable<Result<void>> create_snapshot(Call& call);
awaitable<Result<void>> list_sandbox_snapshots(Call& call);
awaitable<Result<void>> list_snapshots(Call& call);
awaitable<Result<void>> get_snapshot(Call& call);
awaitable<Result<void>> remove_snapshot(Call& call);
awaitable<Result<void>> fork_sandbox(Call& call);
awaitable<Result<void>> undo(Call& call);
awaitable<Result<void>> promote_sandbox(Call& call);
awaitable<Result<void>> diff(Call& call);
awaitable<Result<void>> merge(Call& call);
// images.cc
awaitable<Result<void>> pull_image(Call& call);
awaitable<Result<void>> list_images(Call& call);
awaitable<Result<void>> get_image(Call& call);
awaitable<Result<void>> remove_image(Call& call);
awaitable<Result<void>> import_image(Call& call);
awaitable<Result<void>> export_image(Call& call);
awaitable<Result<void>> build_image(Call& call);
awaitable<Result<void>> collect_garbage(Call& call);
// volumes.cc
awaitable<Result<void>> list_volumes(Call& call);
awaitable<Result<void>> put_volume(Call& call);
awaitable<Result<void>> remove_volume(Call& call);
awaitable<Result<void>> get_storage(Call& call);
// tools.cc
awaitable<Result<void>> list_tools(Call& call);
awaitable<Result<void>> execute_tool(Call& call);
// exec.cc, exec_socket.cc
awaitable<Result<void>> exec(Call& call);
awaitable<Result<void>> run_once(Call& call);
awaitable<Result<void>> exec_socket(Call& call);
// code.cc
awaitable<Result<void>> run_code(Call& call);
awaitable<Result<void>> create_context(Call& call);
awaitable<Result<void>> list_contexts(Call& call);
awaitable<Result<void>> interrupt_context(Call& call);
awaitable<Result<void>> remove_context(Call& call);
// processes.cc, process_output.cc, terminal.cc
awaitable<Result<void>> start_process(Call& call);
awaitable<Result<void>> list_processes(Call& call);
awaitable<Result<void>> get_process(Call& call);
awaitable<Result<void>> remove_process(Call& call);
awaitable<Result<void>> write_input(Call& call);
awaitable<Result<void>> signal_process(Call& call);
awaitable<Result<void>> resize_process(Call& call);
awaitable<Result<void>> wait_process(Call& call);
awaitable<Result<void>> stream_output(Call& call);
awaitable<Result<void>> open_terminal(Call& call);
// download.cc
awaitable<Result<void>> download_file(Call& call);
awaitable<Result<void>> head_file(Call& call);
// files.cc
awaitable<Result<void>> upload_file(Call& call);
awaitable<Result<void>> remove_file(Call& call);
awaitable<Result<void>> stat_file(Call& call);
awaitable<Result<void>> list_files(Call& call);
awaitable<Result<void>> make_folder(Call& call);
awaitable<Result<void>> move_file(Call& call);
// archive.cc
awaitable<Result<void>> download_archive(Call& call);
awaitable<Result<void>> upload_archive(Call& call);
// events.cc
awaitable<Result<void>> watch_files(Call& call);
awaitable<Result<void>> stream_events(Call& call);
// ports.cc
awaitable<Result<void>> proxy_port(Call& call);
// audit.cc
awaitable<Result<void>> sandbox_logs(Call& call);
awaitable<Result<void>> query_audit(Call& call);
awaitable<Result<void>> verify_audit(Call& call);
// tokens.cc
awaitable<Result<void>> create_token(Call& call);
awaitable<Result<void>> list_tokens(Call& call);
awaitable<Result<void>> revoke_token(Call& call);
// secrets.cc
awaitable<Result<void>> put_secret(Call& call);
awaitable<Result<void>> list_secrets(Call& call);
awaitable<Result<void>> remove_secret(Call& call);
// users.cc
awaitable<Result<void>> list_users(Call& call);
awaitable<Result<void>> put_user(Call& call);
awaitable<Result<void>> remove_user(Call& call);
awaitable<Result<void>> import_listings(Call& call);
// sharing.cc
awaitable<Result<void>> set_visibility(Call& call);
awaitable<Result<void>> set_labels(Call& call);
awaitable<Result<void>> list_ports(Call& call);
awaitable<Result<void>> create_preview(Call& call);
// server.cc
awaitable<Result<void>> get_server(Call& call);
awaitable<Result<void>> get_health(Call& call);
awaitable<Result<void>> get_readiness(Call& call);
awaitable<Result<void>> get_metrics(Call& call);
awaitable<Result<void>> get_openapi(Call& call);
awaitable<Result<void>> get_docs(Call& call);

}  // namespace caisson::rest
