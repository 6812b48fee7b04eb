#include "egress/gate/deadline.h"

#include <boost/asio/steady_timer.hpp>
#include <utility>

namespace caisson::egress {

struct Deadline::Core {
  Core(const boost::asio::any_io_executor& executor, std::function<void()> the_on_passed)
      : timer(executor), on_passed(std::move(the_on_passed)) {}
  boost::asio::steady_timer timer;
  std::function<void()> on_passed;  // empty: nobody is there any more
  TimePoint at = TimePoint::max();
  TimePoint armed = TimePoint::max();  // when the timer fires; max: it does not run
  bool passed = false;
};

Deadline::Deadline(const boost::asio::any_io_executor& executor, std::function<void()> on_passed)
    : core_(std::make_shared<Core>(executor, std::move(on_passed))) {}

Deadline::~Deadline() {
  core_->on_passed = nullptr;
  core_->timer.cancel();
}

void Deadline::arm(const std::shared_ptr<Core>& core) {
  core->armed = core->at;
  core->timer.expires_at(core->at);
  core->timer.async_wait([core](const boost::system::error_code& ec) {
    if (ec || !core->on_passed) return;  // set to an earlier time, or gone
    core->armed = TimePoint::max();
    if (core->at == TimePoint::max() || core->passed) return;
    if (Clock::now() < core->at) {
      arm(core);
      return;
    }
    core->passed = true;
    core->on_passed();
  });
}

void Deadline::set(nanoseconds from_now) {
  core_->at = Clock::now() + from_now;
  core_->passed = false;
  if (core_->at < core_->armed) arm(core_);
}

void Deadline::clear() noexcept {
  core_->at = TimePoint::max();
  core_->passed = false;
}

bool Deadline::passed() const noexcept { return core_->passed; }

}  // namespace caisson::egress
