// doors/mcp/underway.h — the requests of one session or connection that have no answer yet, by
// their id, so that a client can take one back.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/json/value.hpp>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "doors/shared/json_text.h"
#include "engine/channel/wakeup.h"

namespace caisson::mcp {

inline constexpr std::size_t kUnderwayMax = 64;  // of one session or connection

class Underway {
  struct Entry {
    explicit Entry(const boost::asio::any_io_executor& executor) : taken_back(executor) {}
    engine::Wakeup taken_back;
    bool cancelled = false;
  };
  using Entries = std::map<std::string, std::shared_ptr<Entry>>;

 public:
  // While it lives, the request is known.
  class Ticket {
   public:
    Ticket(std::shared_ptr<Entries> entries, std::string key, std::shared_ptr<Entry> entry)
        : entries_(std::move(entries)), key_(std::move(key)), entry_(std::move(entry)) {}
    Ticket(Ticket&&) noexcept = default;
    Ticket& operator=(Ticket&&) = delete;
    ~Ticket() {
      if (entries_) entries_->erase(key_);
    }
    // Returns when the request was taken back (or when this wait is cancelled).
    boost::asio::awaitable<void> cancelled() const {
      const auto entry = entry_;
      while (!entry->cancelled) {
        if (co_await entry->taken_back.wait() == engine::Wake::Cancelled) co_return;
      }
    }

   private:
    std::shared_ptr<Entries> entries_;
    std::string key_;
    std::shared_ptr<Entry> entry_;
  };

  [[nodiscard]] Result<Ticket> enter(const boost::json::value& id,
                                     const boost::asio::any_io_executor& executor) {
    if (entries_->size() >= kUnderwayMax)
      return failure(Errc::Exhausted, "too many requests wait for their answer: try again later");
    std::string key = doors::json_text(id);  // "1" is not 1
    const auto [at, fresh] = entries_->emplace(key, nullptr);
    if (!fresh)
      return failure(Errc::InvalidArgument, "a request with this id waits for its answer already");
    at->second = std::make_shared<Entry>(executor);
    return Ticket(entries_, std::move(key), at->second);
  }
  void cancel(const boost::json::value& id) {
    const auto at = entries_->find(doors::json_text(id));
    if (at != entries_->end()) cancel(*at->second);
  }
  void cancel_all() {
    for (const auto& [key, entry] : *entries_) cancel(*entry);
  }
  [[nodiscard]] std::size_t size() const noexcept { return entries_->size(); }

 private:
  static void cancel(Entry& entry) {
    entry.cancelled = true;
    entry.taken_back.wake();
  }
  std::shared_ptr<Entries> entries_ = std::make_shared<Entries>();
};

}  // namespace caisson::mcp
