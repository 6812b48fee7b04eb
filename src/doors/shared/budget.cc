#include "doors/shared/budget.h"

#include <malloc.h>

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

namespace caisson::doors {

namespace asio = boost::asio;

namespace {

constexpr seconds kTrimPause{1};  // a look through the whole heap takes its time

std::size_t countable(std::size_t bytes) noexcept {
  return bytes <= kUncountedBytesMax ? 0 : bytes;
}

}  // namespace

// A place in the queue of those who wait for room.
struct Budget::Waiter {
  Waiter(Books& the_books, std::string the_tenant, std::size_t bytes,
         asio::any_io_executor executor)
      : books(the_books),
        tenant(std::move(the_tenant)),
        wanted(bytes),
        timer(std::move(executor)),
        place(books.waiting.insert(books.waiting.end(), this)) {}
  ~Waiter() {
    books.waiting.erase(place);
    if (woken) wake_one(books);  // he took it, or has left: whatever is there is the next one's
  }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  [[nodiscard]] bool can_go_on() const { return wanted <= room_of(books, tenant, 1); }

  Books& books;
  std::string tenant;
  std::size_t wanted;  // beyond what he has
  asio::steady_timer timer;
  bool woken = false;
  std::list<Waiter*>::iterator place;
};

void Budget::wake_one(Books& books) {
  const auto next = std::ranges::find_if(
      books.waiting, [](const Waiter* one) { return !one->woken && one->can_go_on(); });
  if (next == books.waiting.end()) return;
  (*next)->woken = true;
  (*next)->timer.cancel();
}

Budget::Budget(std::size_t max, std::size_t per_tenant_max, milliseconds patience)
    : books_(std::make_shared<Books>()) {
  books_->max = max;
  books_->per_tenant_max = per_tenant_max;
  books_->patience = patience;
}

std::unexpected<Error> Budget::exhausted() {
  return failure(Errc::Exhausted,
                 "too much of what was asked for is still being sent or read: read your answers, "
                 "or ask for less at once");
}

std::size_t Budget::room_of(const Books& books, const std::string& tenant, std::size_t times) {
  const auto own = books.per_tenant.find(tenant);
  const std::size_t mine = own == books.per_tenant.end() ? 0 : own->second;
  const std::size_t all_max = books.max * times;
  const std::size_t mine_max = books.per_tenant_max * times;
  return std::min(all_max - std::min(all_max, books.held), mine_max - std::min(mine_max, mine));
}

std::size_t Budget::Hold::room(std::size_t times) const { return room_of(*books_, tenant_, times); }

bool Budget::Hold::fits(std::size_t bytes, std::size_t times) const {
  const std::size_t wanted = countable(bytes);
  return wanted <= counted_ || wanted - counted_ <= room(times);
}

bool Budget::Hold::try_resize(std::size_t bytes) {
  if (!fits(bytes, 1)) return false;
  force(bytes);
  return true;
}

bool Budget::Hold::overdraw(std::size_t bytes) {
  if (!fits(bytes, 2)) return false;
  force(bytes);
  return true;
}

awaitable<Result<void>> Budget::Hold::resize(std::size_t bytes) {
  const auto books = books_;
  if (fits(bytes, 1)) {
    force(bytes);
    co_return Result<void>{};
  }
  const auto mine = [this](const Waiter* one) { return one->tenant == tenant_; };
  if (std::ranges::count_if(books->waiting, mine) >=
      static_cast<std::ptrdiff_t>(kWaitersPerTenantMax)) {
    co_return exhausted();
  }
  Waiter waiter(*books, tenant_, countable(bytes) - counted_, co_await asio::this_coro::executor);
  const TimePoint latest = Clock::now() + books->patience;
  while (!fits(bytes, 1)) {
    if (Clock::now() >= latest) co_return exhausted();
    // Somebody was faster: there may be room for one who wants less.
    if (std::exchange(waiter.woken, false)) wake_one(*books);
    waiter.timer.expires_at(latest);
    boost::system::error_code ec;
    co_await waiter.timer.async_wait(asio::redirect_error(asio::use_awaitable, ec));
    const auto cancelled = (co_await asio::this_coro::cancellation_state).cancelled();
    if (cancelled != asio::cancellation_type::none) {
      co_return failure(Errc::Gone, "the caller hung up");
    }
  }
  force(bytes);
  co_return Result<void>{};
}

void Budget::Hold::force(std::size_t bytes) {
  const std::size_t before = counted_;
  bytes_ = bytes;
  counted_ = countable(bytes);
  if (counted_ == before) return;
  books_->held = books_->held - before + counted_;
  std::size_t& own = books_->per_tenant[tenant_];
  own = own - before + counted_;
  if (own == 0) books_->per_tenant.erase(tenant_);
  if (counted_ > before) return;
  wake_one(*books_);
  books_->freed += before - counted_;
  if (books_->freed < kTrimBytesMin) return;
  // The last one always: after him nobody may come for a long time.
  if (books_->held > 0 && Clock::now() - books_->trimmed < kTrimPause) return;
  books_->freed = 0;
  books_->trimmed = Clock::now();
  (void)::malloc_trim(0);
}

}  // namespace caisson::doors
