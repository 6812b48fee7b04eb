// control/people.h — who a tenant is: a name and an address for people to read. A tenant needs no
// entry here to be one; a token names it. Admins change it; everybody may read his own.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/access.h"
#include "control/caller.h"
#include "store/store.h"

namespace caisson::control {

inline constexpr std::size_t kPeopleMax = 10'000;
inline constexpr std::size_t kPersonTextBytesMax = 256;  // of each field
inline constexpr std::size_t kAvatarBytesMax = 2048;

struct Person {
  std::string tenant;
  std::string name;
  std::string email;
  std::string login;
  std::string avatar_url;  // https:// or empty
  store::WallTime created = 0;

  friend bool operator==(const Person&, const Person&) = default;
};

// Lives on the I/O thread, and not longer than the store.
class People {
 public:
  virtual ~People() = default;
  [[nodiscard]] static Result<std::unique_ptr<People>> make(store::Store& store);

  [[nodiscard]] virtual std::optional<Person> find(std::string_view tenant) const = 0;
  // By tenant. Nothing for a caller who is no admin.
  [[nodiscard]] virtual std::vector<Person> list(const Caller& caller) const = 0;
  // Inserted or replaced; `created` of one that is there stays. In the audit as "user.put".
  virtual awaitable<Result<Person>> put(const Caller& caller, Person person) = 0;
  // Its tokens are withdrawn by `access` first; sandboxes and files stay. "user.remove".
  virtual awaitable<Result<void>> remove(const Caller& caller, std::string tenant,
                                         Access& access) = 0;
};

}  // namespace caisson::control
