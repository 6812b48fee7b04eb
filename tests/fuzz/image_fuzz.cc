// Any bytes as a manifest, an image's config, a reference, a user, a challenge, credentials and
// accounts: what is accepted is within its bounds, and what we write of it reads as the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "image/challenge.h"
#include "image/config.h"
#include "image/credentials.h"
#include "image/manifest.h"
#include "image/reference.h"
#include "image/url.h"

namespace {

using namespace caisson::image;

void require(bool holds) {
  if (!holds) std::abort();
}

void check_documents(std::string_view text) {
  const auto document = parse_document(text, "");
  if (document) {
    if (const auto* manifest = std::get_if<Manifest>(&*document)) {
      require(manifest->layers.size() <= kLayersMax);
      for (const Descriptor& layer : manifest->layers) require(layer.size <= kLayerBytesMax);
      const auto again = parse_document(to_json(*manifest), manifest->media_type);
      require(again && std::get<Manifest>(*again).layers == manifest->layers);
    } else {
      const Index& index = std::get<Index>(*document);
      require(index.entries.size() <= kIndexEntriesMax);
      (void)choose(index, host_platform());
    }
  }
  const auto config = parse_config(text);
  if (!config) return;
  require(config->env.size() <= kEnvEntriesMax && config->diff_ids.size() <= kLayersMax);
  require(config->workdir.empty() || config->workdir.starts_with('/'));
  require(config->user.uid.value_or(0) <= kImageIdMax);
  const auto again = parse_config(to_json(*config));
  require(again && to_json(*again) == to_json(*config));
}

void check_words(std::string_view text) {
  if (const auto reference = Reference::parse(text)) {
    const auto again = Reference::parse(reference->str());
    require(again && *again == *reference);
    require(Reference::parse(reference->familiar()) == *reference);
  }
  if (const auto user = parse_user(text)) {
    require(parse_user(user->str()) == *user);
    (void)resolve_user(*user, text, text);
  }
  const UserSpec someone{std::nullopt, "a", std::nullopt, "b"};
  const auto who = resolve_user(someone, text, text);
  require(!who || (who->uid <= kImageIdMax && who->gid <= kImageIdMax));
  if (const auto url = Url::parse(text)) {
    const auto again = Url::parse(url->str());
    require(again && again->str() == url->str());
  }
  (void)parse_challenge({std::string(text)});
  (void)parse_token(text);
  (void)Credentials::parse(text);
  (void)Platform::parse(text);
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer looks for this very name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_documents(text);
  check_words(text);
  return 0;
}
