// image/json.h — JSON from a stranger: bounded in bytes, depth and values, and without a key that
// stands twice in one object. Two readers of one text must not see two images in it.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace caisson::image {

inline constexpr std::size_t kJsonDepthMax = 16;
inline constexpr std::size_t kJsonValuesMax = 100'000;

// `what` begins each message: "the manifest". Bad text is Protocol.
[[nodiscard]] Result<boost::json::object> parse_json_object(std::string_view text,
                                                            std::size_t bytes_max,
                                                            std::string_view what);

// Members of an object, by type. Missing and null are the same: empty. Another type is an error
// that names the place.
class JsonReader {
 public:
  JsonReader(const boost::json::object& object, std::string place)
      : object_(object), place_(std::move(place)) {}

  [[nodiscard]] bool has(std::string_view key) const;
  [[nodiscard]] Result<std::string> text(std::string_view key, std::size_t bytes_max) const;
  [[nodiscard]] Result<std::uint64_t> number(std::string_view key, std::uint64_t max) const;
  [[nodiscard]] Result<const boost::json::object*> object(std::string_view key) const;  // or null
  [[nodiscard]] Result<const boost::json::array*> array(std::string_view key,
                                                        std::size_t entries_max) const;
  [[nodiscard]] Result<std::vector<std::string>> texts(std::string_view key,
                                                       std::size_t entries_max,
                                                       std::size_t bytes_max) const;
  [[nodiscard]] std::string place(std::string_view key) const;

 private:
  const boost::json::object& object_;
  std::string place_;
};

// A failure of a hostile document: "the manifest: layers[3].size is missing".
[[nodiscard]] std::unexpected<Error> bad_document(std::string_view place, std::string_view why);

}  // namespace caisson::image
