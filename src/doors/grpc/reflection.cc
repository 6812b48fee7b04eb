// Server reflection, in both versions that tools ask: they differ in the package's name only.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpc/health/v1/health.pb.h>
#include <grpc/reflection/v1/reflection.pb.h>
#include <grpc/reflection/v1alpha/reflection.pb.h>

#include <array>
#include <set>

#include "doors/grpc/methods.h"

namespace caisson::grpc {
namespace {

namespace pb = ::google::protobuf;

constexpr std::array<const char*, 4> kServices = {
    "sandbox.v1.SandboxService", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection"};
constexpr int kNotFound = 5;
constexpr int kUnimplemented = 12;
// No name of ours is half as long. The pool looks up every part of a name that it does not know: a
// long one with many dots would keep the thread for hours.
constexpr std::size_t kNameBytesMax = 256;
constexpr std::size_t kShownBytesMax = 80;

// A file and all that it needs, each once.
void gather(const pb::FileDescriptor* file, std::set<const pb::FileDescriptor*>& seen,
            std::vector<std::string>& out) {
  if (!seen.insert(file).second) return;
  pb::FileDescriptorProto proto;
  file->CopyTo(&proto);
  out.push_back(proto.SerializeAsString());
  for (int i = 0; i < file->dependency_count(); ++i) gather(file->dependency(i), seen, out);
}

// Only files of ours: protobuf's own descriptors are in the same pool, and nobody's business.
const pb::FileDescriptor* ours(const pb::FileDescriptor* file) {
  if (file == nullptr) return nullptr;
  return file->name().starts_with("sandbox/") || file->name().starts_with("grpc/") ? file : nullptr;
}

using Finder = const pb::FileDescriptor* (pb::DescriptorPool::*)(const std::string&) const;
const pb::FileDescriptor* find(const std::string& name, Finder finder) {
  if (name.size() > kNameBytesMax) return nullptr;
  return (pb::DescriptorPool::generated_pool()->*finder)(name);
}

template <class Response>
void answer_file(const pb::FileDescriptor* file, const std::string& what, Response& out) {
  if (ours(file) == nullptr) {
    out.mutable_error_response()->set_error_code(kNotFound);
    out.mutable_error_response()->set_error_message(
        "not found: " + std::string(doors::cut_utf8(what, kShownBytesMax)));
    return;
  }
  std::set<const pb::FileDescriptor*> seen;
  std::vector<std::string> files;
  gather(file, seen, files);
  for (std::string& one : files)
    out.mutable_file_descriptor_response()->add_file_descriptor_proto(std::move(one));
}

template <class Request, class Response>
void answer_one(const Request& request, Response& out) {
  // Referenced, so that the linker keeps what registers them.
  (void)api::SessionInfo::descriptor();
  out.set_valid_host(request.host());
  *out.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case Request::kFileByFilename:
      answer_file(find(request.file_by_filename(), &pb::DescriptorPool::FindFileByName),
                  request.file_by_filename(), out);
      return;
    case Request::kFileContainingSymbol:
      answer_file(
          find(request.file_containing_symbol(), &pb::DescriptorPool::FindFileContainingSymbol),
          request.file_containing_symbol(), out);
      return;
    case Request::kListServices:
      for (const char* name : kServices)
        out.mutable_list_services_response()->add_service()->set_name(name);
      return;
    case Request::kFileContainingExtension:
    case Request::kAllExtensionNumbersOfType:
      out.mutable_error_response()->set_error_code(kNotFound);
      out.mutable_error_response()->set_error_message("there are no extensions");
      return;
    case Request::MESSAGE_REQUEST_NOT_SET:
      break;
  }
  out.mutable_error_response()->set_error_code(kUnimplemented);
  out.mutable_error_response()->set_error_message("nothing is asked");
}

template <class Request, class Response>
awaitable<Status> converse(Call& call) {
  for (;;) {
    auto next = co_await call.read();
    if (!next) co_return std::move(next.error());
    if (!*next) co_return Status{};
    call.message = **std::move(next);
    Request request;
    if (Status wrong = call.parse(request); !wrong.ok()) co_return wrong;
    Response reply;
    answer_one(request, reply);
    if (!co_await call.write(reply)) co_return Status{Code::Cancelled, "the caller has left"};
  }
}

}  // namespace

awaitable<Status> reflect(Call& call) {
  namespace v1 = ::grpc::reflection::v1;
  return converse<v1::ServerReflectionRequest, v1::ServerReflectionResponse>(call);
}

awaitable<Status> reflect_older(Call& call) {
  namespace v1 = ::grpc::reflection::v1alpha;
  return converse<v1::ServerReflectionRequest, v1::ServerReflectionResponse>(call);
}

}  // namespace caisson::grpc
