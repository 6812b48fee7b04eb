#include "control/image_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "egress/wire/address_class.h"

namespace caisson::control {
namespace {

using egress::AddressClass;

egress::IpAddress address_of(const boost::asio::ip::address& address) {
  return address.is_v4() ? egress::IpAddress::v4(address.to_v4().to_bytes())
                         : egress::IpAddress::v6(address.to_v6().to_bytes());
}

// "https://mirror.example:5000/prefix" and "mirror.example:5000" alike.
std::string host_of(std::string_view text) {
  if (const auto scheme = text.find("://"); scheme != std::string_view::npos)
    text.remove_prefix(scheme + 3);
  return std::string(text.substr(0, text.find('/')));
}

std::set<std::string> listed_hosts(const ImageOptions& options) {
  std::set<std::string> out;
  for (const std::string& one : options.registry.insecure) out.insert(host_of(one));
  for (const auto& [registry, mirrors] : options.registry.mirrors) {
    for (const std::string& url : mirrors.urls) out.insert(host_of(url));
  }
  return out;
}

bool is_private(AddressClass kind) {
  return kind == AddressClass::Private || kind == AddressClass::UniqueLocal ||
         kind == AddressClass::SharedCarrier;
}

class Registries final : public ImageSource {
 public:
  Registries(boost::asio::any_io_executor executor, image::BlobStore& store,
             image::RegistryOptions options)
      : puller_(std::move(executor), store, std::move(options)) {}
  boost::asio::awaitable<Result<image::PulledImage>> pull(image::PullRequest request) override {
    return puller_.pull(std::move(request));
  }

 private:
  image::Puller puller_;
};

// By the server's own resolver, which is that of the sandboxes' gates.
boost::asio::awaitable<Result<std::vector<boost::asio::ip::address>>> look_up(
    std::shared_ptr<egress::Resolver> resolver, std::string host) {
  const auto name = egress::HostName::parse(host);
  if (!name) co_return failure(Errc::InvalidArgument, "image: '" + host + "' is no host name");
  const egress::Resolved found = co_await resolver->resolve(*name);
  std::vector<boost::asio::ip::address> out;
  for (const egress::IpAddress& one : found.addresses)
    out.push_back(boost::asio::ip::make_address(egress::to_string(one)));
  if (out.empty())
    co_return failure(Errc::NotFound, "image: the name '" + host + "' has no address");
  co_return out;
}

}  // namespace

image::AddressJudge judge_of(const ImageOptions& options) {
  return [listed = listed_hosts(options), inward = options.allow_private](
             const boost::asio::ip::address& address, std::string_view host,
             std::uint16_t port) -> Result<void> {
    const egress::IpAddress given = address_of(address);
    const egress::Judged judged = egress::classify(given);
    if (judged.is_public()) return {};
    const bool named =
        listed.contains(fmt::format("{}:{}", host, port)) || listed.contains(std::string(host));
    if (named && (judged.kind == AddressClass::Loopback || is_private(judged.kind))) return {};
    if (inward && is_private(judged.kind)) return {};
    return failure(Errc::Denied,
                   fmt::format("image: '{}' leads to {}, which is not outside; list the registry "
                               "in images.mirrors or images.insecure, or set images.allow_private",
                               host, egress::describe(judged, given)));
  };
}

std::shared_ptr<ImageSource> registries(boost::asio::any_io_executor executor,
                                        image::BlobStore& store, const ImageOptions& options,
                                        std::shared_ptr<egress::Resolver> resolver) {
  image::RegistryOptions registry = options.registry;
  registry.judge = judge_of(options);
  if (!registry.resolve)
    registry.resolve = [resolver](std::string host) { return look_up(resolver, std::move(host)); };
  return std::make_shared<Registries>(std::move(executor), store, std::move(registry));
}

}  // namespace caisson::control
