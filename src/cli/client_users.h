// cli/client_users.h — what `caisson user` asks of a server, for the command and its tests.
#pragma once

#include <boost/json/value.hpp>
#include <optional>
#include <string>

#include "cli/client_session.h"

namespace caisson::cli {

struct UserWords {
  std::string tenant;
  // None: as it is.
  std::optional<std::string> name{};
  std::optional<std::string> email{};
  std::optional<std::string> login{};
  std::optional<std::string> avatar_url{};
  bool new_token = false;
};

struct AddedUser {
  boost::json::value user;
  boost::json::value token;  // null when none was wanted
};

[[nodiscard]] Result<std::string> list_users(const Session& session, bool as_json);
[[nodiscard]] Result<std::string> show_user(const Session& session, const std::string& tenant,
                                            bool as_json);
[[nodiscard]] Result<AddedUser> add_user(const Session& session, const UserWords& words);
[[nodiscard]] Result<boost::json::value> rename_user(const Session& session,
                                                     const UserWords& words);

}  // namespace caisson::cli
