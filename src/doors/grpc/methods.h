// doors/grpc/methods.h — the methods, and how one with a message each way is run.
#pragma once

#include <sandbox/v1/sandbox.pb.h>

#include "doors/grpc/call.h"

namespace caisson::grpc {

namespace api = ::sandbox::v1;

inline constexpr std::string_view kNoSession = "Session not found";
inline constexpr std::string_view kDeadSandbox = "All connection attempts failed";
inline constexpr std::string_view kWorkspace = "/workspace";
inline constexpr std::string_view kUserData = "/mnt/user-data";
inline constexpr std::string_view kOutputs = "/mnt/user-data/outputs";
inline constexpr std::string_view kUploads = "/mnt/user-data/uploads";

// session_calls.cc
awaitable<Status> create_session(Call& call, const api::CreateSessionRequest& request,
                                 api::CreateSessionResponse& reply);
awaitable<Status> destroy_session(Call& call, const api::DestroySessionRequest& request,
                                  api::DestroySessionResponse& reply);
awaitable<Status> get_session(Call& call, const api::GetSessionRequest& request,
                              api::GetSessionResponse& reply);
awaitable<Status> list_sessions(Call& call, const api::ListSessionsRequest& request,
                                api::ListSessionsResponse& reply);
// Its name is taken until its sandbox has gone; a failure leaves it to the next sweep.
awaitable<Result<void>> end_session(Services& services, control::Caller caller, SessionPtr session);

// exec_calls.cc, exec_stream.cc, pip_calls.cc
awaitable<Status> exec(Call& call, const api::ExecRequest& request, api::ExecResponse& reply);
awaitable<Status> exec_stream(Call& call);
awaitable<Status> pip_install(Call& call, const api::PipInstallRequest& request,
                              api::ExecResponse& reply);

// file_calls.cc
awaitable<Status> write_file(Call& call, const api::WriteFileRequest& request,
                             api::WriteFileResponse& reply);
awaitable<Status> read_file(Call& call, const api::ReadFileRequest& request,
                            api::ReadFileResponse& reply);

// health.cc, reflection.cc
awaitable<Status> check_health(Call& call);
awaitable<Status> watch_health(Call& call);
awaitable<Status> reflect(Call& call);
awaitable<Status> reflect_older(Call& call);

// A session in use. It is not idle while this lives.
class InUse {
 public:
  InUse(Call& call, std::string_view id);
  ~InUse();
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;
  [[nodiscard]] explicit operator bool() const noexcept { return session_ != nullptr; }
  [[nodiscard]] const Session& operator*() const noexcept { return *session_; }
  [[nodiscard]] const Session* operator->() const noexcept { return session_.get(); }

 private:
  const GrpcOptions& options_;
  SessionPtr session_;
};

}  // namespace caisson::grpc
