// doors/rest/replies.h — what calls with an Idempotency-Key were answered.
//
// A caller who lost an answer does not know whether anything was done. With the same key he may ask
// again: he gets the answer that he missed, and nothing is done twice. A call that was refused did
// nothing, so its key is free again. One that was broken off has done some of it: its key says so
// and begins nothing any more. Keys belong to a token; another's key of the same name is
// another key. They live in memory, for kReplyLife: a server that starts anew knows none.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace caisson::rest {

inline constexpr std::string_view kKeyField = "Idempotency-Key";
inline constexpr std::size_t kKeyBytesMax = 128;
inline constexpr std::size_t kReplyBytesMax = 16UL * 1024;  // a longer answer is not kept
inline constexpr std::size_t kRepliesPerTenantMax = 1024;   // the oldest goes
inline constexpr std::size_t kRepliesMax = 4 * kRepliesPerTenantMax;
inline constexpr seconds kReplyLife{600};

// Does this operation of the contract take a key? Those that do something, and whose answer holds
// no secret.
[[nodiscard]] bool takes_key(std::string_view operation) noexcept;

struct Reply {
  unsigned status = 0;  // 0: there is none
  std::string body;
  bool broken_off = false;  // why there is none; else it was too large to keep
  std::size_t asked = 0;    // digest of the body that it answers
};

class Replies {
  struct Entry;
  struct State;

 public:
  struct Question {
    std::string tenant;
    std::string actor;
    std::string key;
    std::string target;  // method, path and query
  };

  // The right to do it, for one caller. Dropped without a word, the key is free again.
  class Turn {
   public:
    Turn(std::shared_ptr<State> state, std::shared_ptr<Entry> entry);
    Turn(Turn&&) noexcept = default;
    Turn& operator=(Turn&&) = delete;
    ~Turn();
    void keep(unsigned status, std::string_view body);
    void done(std::size_t asked);
    // It was begun and did not come to its end, because its caller left.
    void broken_off(std::size_t asked);

   private:
    std::shared_ptr<State> state_;
    std::shared_ptr<Entry> entry_;
    bool done_ = false;
  };
  struct Asked {
    std::optional<Turn> turn;  // none: it was done before, and this is what was said
    Reply reply;
  };

  Replies();
  // InvalidArgument: the key is malformed, or was used for something else. Busy: under way.
  [[nodiscard]] Result<Asked> ask(Question question, TimePoint now);

 private:
  std::shared_ptr<State> state_;
};

}  // namespace caisson::rest
