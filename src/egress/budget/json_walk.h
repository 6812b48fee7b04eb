// egress/budget/json_walk.h — walks through one JSON document as its bytes arrive, and keeps
// nothing of it but the path to where it is. So an answer may be of any size and still be read:
// there is no buffer that it could outgrow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace caisson::egress {

inline constexpr std::size_t kJsonDepthMax = 64;
// A longer key matches nothing: all that we look for are shorter.
inline constexpr std::size_t kJsonKeyBytesMax = 64;

// The keys from the outermost object to the value; an item of an array stands below "[]".
class JsonPath {
 public:
  [[nodiscard]] std::size_t depth() const noexcept { return depth_; }
  [[nodiscard]] std::string_view key(std::size_t i) const noexcept { return keys_[i]; }
  [[nodiscard]] std::string_view last() const noexcept {
    return depth_ == 0 ? std::string_view() : keys_[depth_ - 1];
  }
  [[nodiscard]] bool is(std::initializer_list<std::string_view> keys) const noexcept;
  [[nodiscard]] bool passes(std::string_view key) const noexcept;

 private:
  friend class JsonHandler;
  std::vector<std::string> keys_;  // those beyond depth_ only wait to be used again
  std::size_t depth_ = 0;
};

// Who is told. A text comes in pieces; `last` ends it.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual void on_key(const JsonPath& path) = 0;
  virtual void on_container(const JsonPath& path) = 0;
  virtual void on_whole(const JsonPath& path, std::int64_t value) = 0;
  // A number that is not whole, or beyond 64 bits.
  virtual void on_fraction(const JsonPath& path, double value) = 0;
  virtual void on_truth(const JsonPath& path, bool value) = 0;
  virtual void on_null(const JsonPath& path) = 0;
  virtual void on_text(const JsonPath& path, std::string_view piece, bool last) = 0;
};

class JsonWalk {
 public:
  explicit JsonWalk(JsonEvents& events);  // outlives the walk
  JsonWalk(const JsonWalk&) = delete;
  JsonWalk& operator=(const JsonWalk&) = delete;
  ~JsonWalk();

  void reset();
  // False from the first byte on that is not JSON, or nests too deep.
  bool feed(std::string_view piece);
  // Was it one whole document?
  [[nodiscard]] bool finish();

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
  bool failed_ = false;
};

}  // namespace caisson::egress
