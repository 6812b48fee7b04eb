#include "control/state_seal.h"

#include <fmt/format.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "base/id.h"
#include "egress/credentials/secret_file.h"
#include "store/digest.h"
#include "sys/file.h"

namespace caisson::control {
namespace {

namespace json = boost::json;

constexpr std::size_t kKeyBytes = 32;

// Of two texts of one length, without telling by its time where they differ.
bool same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

Result<std::string> random_key() {
  std::string key;
  for (int i = 0; i < 2; ++i) key += TRY(SandboxId::random()).str();  // 256 bits
  return key;
}

// Not in locked memory: it authenticates records and opens nothing, and a host that locks none
// keeps records, too.
Result<std::string> read_key(const std::string& path) {
  const UniqueFd file = TRY(egress::open_private(path));
  std::string text = TRY_IN(path, sys::read_again(file.get()));
  while (text.ends_with('\n')) text.pop_back();
  if (text.size() < kKeyBytes)
    return failure(Errc::InvalidArgument, path + ": want a key of at least 32 bytes");
  return text;
}

}  // namespace

Result<StateSeal> StateSeal::open(const std::string& path, NewKey missing) {
  if (path.empty()) return StateSeal(TRY(random_key()));
  auto key = read_key(path);
  if (key) return StateSeal(*std::move(key));
  if (key.error().code != Errc::NotFound) return std::unexpected(key.error());
  if (missing == NewKey::Refuse)
    return failure(Errc::NotFound,
                   path +
                       ": the key is missing, and there are records that only it can vouch for; "
                       "put it back from a backup");
  const std::string fresh = TRY(random_key());
  const auto written = egress::write_private(path, fresh + "\n", egress::Replace::No);
  // Somebody else's is as good.
  if (!written && written.error().code != Errc::AlreadyExists)
    return std::unexpected(written.error());
  return StateSeal(TRY(read_key(path)));
}

std::string StateSeal::mac(const store::FileKey& key, std::string_view body) const {
  const std::string text = fmt::format("{}:{}:{}:{}:{}:{}", static_cast<int>(key.kind),
                                       key.tenant.size(), key.tenant, key.id.size(), key.id, body);
  return store::to_hex(store::hmac_sha256(key_, text));
}

store::FileRecord StateSeal::seal(store::FileKey key, store::WallTime created,
                                  const json::object& body) const {
  const std::string code = mac(key, json::serialize(body));
  store::FileRecord record;
  record.key = std::move(key);
  record.created = created;
  record.spec = json::serialize(json::object{{"mac", code}, {"body", body}});
  return record;
}

Result<json::object> StateSeal::unseal(const store::FileRecord& record) const {
  const auto foreign = [&record] {
    return failure(Errc::Denied, "the record of '" + record.key.id +
                                     "' was not written by this server, or was changed since");
  };
  boost::system::error_code wrong;
  json::value value = json::parse(record.spec, wrong);
  if (wrong || !value.is_object()) return foreign();
  const json::value* code = value.get_object().if_contains("mac");
  json::value* body = value.get_object().if_contains("body");
  if (code == nullptr || !code->is_string() || body == nullptr || !body->is_object())
    return foreign();
  if (!same(code->get_string(), mac(record.key, json::serialize(*body)))) return foreign();
  return std::move(body->get_object());
}

}  // namespace caisson::control
