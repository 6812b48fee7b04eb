// egress/credentials/authority.h — the certificate authority of one sandbox. The guest trusts it
// for the names that its rules intercept and for nothing else; its key is made in memory, stays
// there, and goes with the sandbox. So whoever takes a certificate out of a guest has gained
// nothing, and one sandbox's authority means nothing to another. Where a policy wants the TLS of
// every name looked into, it is for every name, still for no address, and still for this sandbox
// alone.
#pragma once

#include <openssl/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "egress/credentials/secret.h"
#include "egress/wire/host_name.h"

namespace caisson::egress {

// A guest chooses names below a wildcard, or any at all, as it likes: the one not used for longest
// makes room.
inline constexpr std::size_t kLeavesMax = 128;
inline constexpr std::size_t kAuthorityNamesMax = 256;
// A sandbox that lives longer needs a new authority.
inline constexpr std::chrono::days kAuthorityLife{30};
inline constexpr std::chrono::hours kLeafLife{24};
// Clocks differ.
inline constexpr std::chrono::hours kClockSlack{1};

class Authority {
 public:
  using Time = std::chrono::system_clock::time_point;

  // `domains` are those of the rules that intercept, exact or with "*."; the certificate itself
  // says that it is good for these, and for no address. "*" is every name, and then the only one of
  // domains(). Empty is refused: whoever means everything says so.
  [[nodiscard]] static Result<Authority> make(const std::string& sandbox,
                                              std::vector<std::string> domains, Time now);

  // What key() gave and certificate_pem() said, back as the same authority: for a server that finds
  // a sandbox which an older one made. Denied when the two do not belong together.
  [[nodiscard]] static Result<Authority> restore(const std::string& certificate_pem,
                                                 const Secret& key,
                                                 std::vector<std::string> domains);

  Authority(Authority&&) noexcept;
  Authority& operator=(Authority&&) noexcept;
  ~Authority();

  // For the guest's trust store.
  [[nodiscard]] const std::string& certificate_pem() const noexcept { return pem_; }
  // To be sealed and kept, and for nothing else.
  [[nodiscard]] Result<Secret> key() const;
  // Is every name of this rule's domain, exact, with "*.", or "*", one that it is for?
  [[nodiscard]] bool covers(std::string_view domain) const;
  [[nodiscard]] const std::vector<std::string>& domains() const noexcept { return domains_; }
  [[nodiscard]] Time expires() const noexcept { return expires_; }

  // A server's side of TLS, at least 1.2, that shows a certificate for `host` and speaks HTTP/1.1.
  // Denied for a name that is not one of its domains.
  [[nodiscard]] Result<std::shared_ptr<SSL_CTX>> context_for(const HostName& host, Time now);
  [[nodiscard]] std::size_t leaves() const noexcept { return leaves_.size(); }

 private:
  struct Keys;
  struct Leaf {
    std::shared_ptr<SSL_CTX> context;
    Time renew;
    std::uint64_t used = 0;
  };

  Authority();
  [[nodiscard]] Result<std::shared_ptr<SSL_CTX>> make_leaf(const HostName& host, Time now,
                                                           Time until) const;

  std::unique_ptr<Keys> keys_;
  std::vector<std::string> domains_;
  std::string pem_;
  Time expires_{};
  std::map<std::string, Leaf> leaves_;
  std::uint64_t uses_ = 0;
};

}  // namespace caisson::egress
