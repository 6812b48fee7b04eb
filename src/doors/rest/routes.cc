// The one table of routes. api/openapi.yaml says the same, and tests/house/openapi.py compares the
// two, so a line here keeps its form: method, scope, pattern, operation, query, handler.
#include "doors/rest/handlers.h"
#include "doors/rest/router.h"

namespace caisson::rest {
namespace {

using enum http::Method;

// clang-format off
constexpr Route kRoutes[] = {
    {Get,     Need::None, "/healthz", "getHealth", "", get_health},
    {Get,     Need::None, "/readyz", "getReadiness", "", get_readiness},
    {Post,    Need::Use, "/api/v1/sandboxes/{id}/tools/execute", "executeTool", "", execute_tool},
    {Post,    Need::Create, "/api/v1/sandboxes", "createSandbox", "", create_sandbox},
    {Get,     Need::Read, "/api/v1/sandboxes", "listSandboxes", "", list_sandboxes},
    {Get,     Need::Read, "/api/v1/sandboxes/{id}", "getSandbox", "", get_sandbox},
    {Delete,  Need::Create, "/api/v1/sandboxes/{id}", "destroySandbox", "", destroy_sandbox},
    {Post,    Need::Use, "/api/v1/sandboxes/{id}/exec", "exec", "stream", exec},
    {Get,     Need::Use, "/api/v1/sandboxes/{id}/exec", "execSocket", "", exec_socket},
    {Get,     Need::Read, "/api/v1/sandboxes/{id}/files/{path...}", "downloadFile", "", download_file},
    {Head,    Need::Read, "/api/v1/sandboxes/{id}/files/{path...}", "headFile", "", head_file},
    {Put,     Need::Use, "/api/v1/sandboxes/{id}/files/{path...}", "uploadFile", "mode", upload_file},
    {Delete,  Need::Use, "/api/v1/sandboxes/{id}/files/{path...}", "removeFile", "recursive", remove_file},
    {Get,     Need::Read, "/api/v1/sandboxes/{id}/stat/{path...}", "statFile", "follow", stat_file},
    {Get,     Need::Read, "/api/v1/sandboxes/{id}/list/{path...}", "listFiles", "recursive", list_files},
    {Post,    Need::Use, "/api/v1/sandboxes/{id}/mkdir", "makeFolder", "", make_folder},
    {Post,    Need::Use, "/api/v1/sandboxes/{id}/move", "moveFile", "", move_file},
    {Get,     Need::Read, "/api/v1/sandboxes/{id}/watch/{path...}", "watchFiles", "recursive", watch_files},
    {Get,     Need::Read, "/api/v1/sandboxes/{id}/archive/{path...}", "downloadArchive", "", download_archive},
    {Put,     Need::Use, "/api/v1/sandboxes/{id}/archive/{path...}", "uploadArchive", "", upload_archive},
    {Post,    Need::Use, "/api/v1/sandboxes/{id}/processes", "startProcess", "", start_process},
    {Get,     Need::Read, "/api/v1/sandboxes/{id}/processes", "listProcesses", "", list_processes},
    {Get,     Need::Read, "/api/v1/sandboxes/{id}/processes/{pid}", "getProcess", "", get_process},
    {Delete,  Need::Use, "/api/v1/sandboxes/{id}/processes/{pid}", "removeProcess", "", remove_process},
    {Get,     Need::Read, "/api/v1/sandboxes/{id}/processes/{pid}/output", "streamOutput", "stdout_offset stderr_offset", stream_output},
    {Post,    Need::Use, "/api/v1/sandboxes/{id}/processes/{pid}/input", "writeInput", "close", write_input},
    {Post,    Need::Use, "/api/v1/sandboxes/{id}/processes/{pid}/signal", "signalProcess", "", signal_process},
    {Post,    Need::Use, "/api/v1/sandboxes/{id}/processes/{pid}/resize", "resizeProcess", "", resize_process},
    {Get,     Need::Read, "/api/v1/sandboxes/{id}/processes/{pid}/wait", "waitProcess", "timeout_seconds", wait_process},
    {Get,     Need::Use, "/api/v1/sandboxes/{id}/terminal", "openTerminal", "rows cols command term process", open_terminal},
    {Patch,   Need::Create, "/api/v1/sandboxes/{id}/limits", "setLimits", "", set_limits},
    {Put,     Need::Create, "/api/v1/sandboxes/{id}/network", "setNetwork", "", set_network},
    {Get,     Need::Read, "/api/v1/sandboxes/{id}/usage", "getUsage", "", get_usage},
    {Post,    Need::Use, "/api/v1/sandboxes/{id}/usage/record", "recordUsage", "", record_usage},
    {Post,    Need::Use, "/api/v1/sandboxes/{id}/pause", "pauseSandbox", "", pause_sandbox},
    {Post,    Need::Use, "/api/v1/sandboxes/{id}/resume", "resumeSandbox", "", resume_sandbox},
    {Post,    Need::Use, "/api/v1/sandboxes/{id}/stop", "stopSandbox", "", stop_sandbox},
    {Post,    Need::Use, "/api/v1/sandboxes/{id}/start", "startSandbox", "", start_sandbox},
    {Post,    Need::Use, "/api/v1/sandboxes/{id}/snapshots", "createSnapshot", "", create_snapshot},
    {Get,     Need::Read, "/api/v1/sandboxes/{id}/snapshots", "listSandboxSnapshots", "", list_sandbox_snapshots},
    {Get,     Need::Read, "/api/v1/snapshots", "listSnapshots", "", list_snapshots},
    {Get,     Need::Read, "/api/v1/snapshots/{id}", "getSnapshot", "", get_snapshot},
    {Delete,  Need::Use, "/api/v1/snapshots/{id}", "removeSnapshot", "", remove_snapshot},
    {Post,    Need::Create, "/api/v1/sandboxes/{id}/fork", "forkSandbox", "", fork_sandbox},
    {Post,    Need::Use, "/api/v1/sandboxes/{id}/undo", "undo", "", undo},
    {Post,    Need::Use, "/api/v1/sandboxes/{id}/merge", "merge", "", merge},
    {Get,     Need::Read, "/api/v1/diff", "diff", "from to path format", diff},
    {Get,     Need::Read, "/api/v1/images", "listImages", "", list_images},
    {Delete,  Need::Create, "/api/v1/images", "removeImage", "reference", remove_image},
    {Get,     Need::Read, "/api/v1/images/inspect", "getImage", "reference", get_image},
    {Post,    Need::Create, "/api/v1/images/pull", "pullImage", "stream", pull_image},
    {Post,    Need::Create, "/api/v1/images/import", "importImage", "reference pick", import_image},
    {Get,     Need::Read, "/api/v1/images/export", "exportImage", "reference", export_image},
    {Post,    Need::Create, "/api/v1/images/build", "buildImage", "", build_image},
    {Post,    Need::Admin, "/api/v1/images/gc", "collectGarbage", "", collect_garbage},
    {Get,     Need::Read, "/api/v1/volumes", "listVolumes", "", list_volumes},
    {Put,     Need::Create, "/api/v1/volumes/{id}", "putVolume", "", put_volume},
    {Delete,  Need::Create, "/api/v1/volumes/{id}", "removeVolume", "", remove_volume},
    {Get,     Need::Admin, "/api/v1/storage", "getStorage", "", get_storage},
    {Get,     Need::Read, "/api/v1/sandboxes/{id}/logs", "getSandboxLogs", "after limit", sandbox_logs},
    {Get,     Need::Use, "/api/v1/sandboxes/{id}/ports/{port}/{path...}", "proxyGet", "*", proxy_port},
    {Head,    Need::Use, "/api/v1/sandboxes/{id}/ports/{port}/{path...}", "proxyHead", "*", proxy_port},
    {Post,    Need::Use, "/api/v1/sandboxes/{id}/ports/{port}/{path...}", "proxyPost", "*", proxy_port},
    {Put,     Need::Use, "/api/v1/sandboxes/{id}/ports/{port}/{path...}", "proxyPut", "*", proxy_port},
    {Patch,   Need::Use, "/api/v1/sandboxes/{id}/ports/{port}/{path...}", "proxyPatch", "*", proxy_port},
    {Delete,  Need::Use, "/api/v1/sandboxes/{id}/ports/{port}/{path...}", "proxyDelete", "*", proxy_port},
    {Options, Need::Use, "/api/v1/sandboxes/{id}/ports/{port}/{path...}", "proxyOptions", "*", proxy_port},
    {Get,     Need::Read, "/api/v1/tools", "listTools", "", list_tools},
    {Get,     Need::Read, "/api/v1/events", "streamEvents", "sandbox after", stream_events},
    {Get,     Need::Read, "/api/v1/audit", "queryAudit", "after before limit sandbox action outcome tenant", query_audit},
    {Get,     Need::Admin, "/api/v1/audit/verify", "verifyAudit", "", verify_audit},
    {Post,    Need::Admin, "/api/v1/tokens", "createToken", "", create_token},
    {Get,     Need::Admin, "/api/v1/tokens", "listTokens", "", list_tokens},
    {Delete,  Need::Admin, "/api/v1/tokens/{id}", "revokeToken", "", revoke_token},
    {Get,     Need::Admin, "/api/v1/secrets", "listSecrets", "", list_secrets},
    {Put,     Need::Admin, "/api/v1/secrets/{id}", "putSecret", "", put_secret},
    {Delete,  Need::Admin, "/api/v1/secrets/{id}", "removeSecret", "", remove_secret},
    {Get,     Need::Admin, "/metrics", "getMetrics", "", get_metrics},
    {Get,     Need::None, "/openapi.json", "getOpenapi", "", get_openapi},
    {Get,     Need::None, "/docs", "getDocs", "", get_docs},
};
// clang-format on

}  // namespace

std::span<const Route> routes() noexcept { return kRoutes; }

}  // namespace caisson::rest
