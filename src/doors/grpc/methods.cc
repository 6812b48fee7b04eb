#include "doors/grpc/methods.h"

#include <algorithm>
#include <array>

namespace caisson::grpc {
namespace {

template <class Request, class Reply, awaitable<Status> (*kRun)(Call&, const Request&, Reply&)>
awaitable<Status> unary(Call& call) {
  Request request;
  if (Status wrong = call.parse(request); !wrong.ok()) co_return wrong;
  Reply reply;
  Status status = co_await kRun(call, request, reply);
  if (status.ok()) call.reply(reply);
  co_return status;
}

using store::Scope;

// What each method needs; what is not here may be as large as any message. A command that is too
// long for a shell has an answer of its own, so those have no less.
constexpr std::size_t kHealthBytesMax = 1024;
constexpr std::size_t kReflectionBytesMax = 4096;
constexpr std::size_t kNamesBytesMax = 16UL * 1024;   // of a session, or a file
constexpr std::size_t kListsBytesMax = 512UL * 1024;  // of hosts, or packages
// Who has no token takes nothing from the budget.
static_assert(kHealthBytesMax + 4096 <= doors::kUncountedBytesMax);

constexpr std::array<Method, 13> kMethods = {{
    {"/sandbox.v1.SandboxService/CreateSession", Scope::Create, false, false, false,
     unary<api::CreateSessionRequest, api::CreateSessionResponse, create_session>, kListsBytesMax},
    {"/sandbox.v1.SandboxService/DestroySession", Scope::Create, false, false, false,
     unary<api::DestroySessionRequest, api::DestroySessionResponse, destroy_session>,
     kNamesBytesMax},
    {"/sandbox.v1.SandboxService/GetSession", Scope::Read, false, false, false,
     unary<api::GetSessionRequest, api::GetSessionResponse, get_session>, kNamesBytesMax},
    {"/sandbox.v1.SandboxService/ListSessions", Scope::Read, false, false, false,
     unary<api::ListSessionsRequest, api::ListSessionsResponse, list_sessions>, kNamesBytesMax},
    {"/sandbox.v1.SandboxService/Exec", Scope::Use, true, false, false,
     unary<api::ExecRequest, api::ExecResponse, exec>},
    {"/sandbox.v1.SandboxService/ExecStream", Scope::Use, true, false, false, exec_stream},
    {"/sandbox.v1.SandboxService/WriteFile", Scope::Use, false, false, false,
     unary<api::WriteFileRequest, api::WriteFileResponse, write_file>},
    {"/sandbox.v1.SandboxService/ReadFile", Scope::Use, true, false, false,
     unary<api::ReadFileRequest, api::ReadFileResponse, read_file>, kNamesBytesMax},
    {"/sandbox.v1.SandboxService/PipInstall", Scope::Use, true, false, false,
     unary<api::PipInstallRequest, api::ExecResponse, pip_install>, kListsBytesMax},
    {"/grpc.health.v1.Health/Check", Scope::Read, false, false, true, check_health,
     kHealthBytesMax},
    {"/grpc.health.v1.Health/Watch", Scope::Read, true, false, true, watch_health, kHealthBytesMax},
    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Scope::Read, false, true, false,
     reflect, kReflectionBytesMax},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Scope::Read, false, true,
     false, reflect_older, kReflectionBytesMax},
}};

}  // namespace

const Method* find_method(std::string_view path) {
  const auto at = std::ranges::find(kMethods, path, &Method::path);
  return at == kMethods.end() ? nullptr : &*at;
}

}  // namespace caisson::grpc
