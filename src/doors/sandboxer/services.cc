#include "doors/sandboxer/services.h"

namespace caisson::sandboxer {

namespace {
constexpr milliseconds kHeldPatience{10'000};
}  // namespace

Services::Services(boost::asio::any_io_executor on, control::Fleet& all, control::Access& tokens,
                   control::Logins& known, control::People& persons, control::History& past,
                   SandboxerOptions wanted)
    : executor(std::move(on)),
      fleet(all),
      access(tokens),
      logins(known),
      people(persons),
      history(past),
      options(std::move(wanted)),
      hub(executor),
      ledger(std::make_shared<Ledger>(executor, past)),
      budget(options.held_bytes_max, options.held_per_tenant_max, kHeldPatience),
      streams(options.streams_max, options.streams_per_tenant_max),
      questions(executor),
      closing(executor) {}

bool Services::is_public(const Row& row) const {
  if (!row.living()) return row.is_public;
  const auto view = fleet.look_up(row.name);
  return view && control::is_public(*view);
}

control::Caller own_caller(const std::string& tenant) {
  control::Caller caller;
  caller.tenant = tenant;
  caller.actor = "server";
  caller.scopes = static_cast<std::uint8_t>(store::Scope::Read) |
                  static_cast<std::uint8_t>(store::Scope::Use) |
                  static_cast<std::uint8_t>(store::Scope::Create);
  return caller;
}

Streams::Ticket::Ticket(std::shared_ptr<Counts> counts, std::string tenant)
    : counts_(std::move(counts)), tenant_(std::move(tenant)) {
  ++counts_->open;
  ++counts_->per_tenant[tenant_];
}

Streams::Ticket::~Ticket() {
  if (!counts_) return;
  --counts_->open;
  const auto own = counts_->per_tenant.find(tenant_);
  if (--own->second == 0) counts_->per_tenant.erase(own);
}

Result<Streams::Ticket> Streams::enter(const std::string& tenant) {
  const auto own = counts_->per_tenant.find(tenant);
  if (own != counts_->per_tenant.end() && own->second >= per_tenant_max_)
    return failure(Errc::Exhausted, "too many streams are open: close one first");
  if (counts_->open >= max_)
    return failure(Errc::Exhausted, "the server has no room for another stream: try again later");
  return Ticket(counts_, tenant);
}

}  // namespace caisson::sandboxer
