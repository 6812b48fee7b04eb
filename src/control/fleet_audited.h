// control/fleet_audited.h — the audit row of one call. Only fleet_impl.h includes it.
#pragma once

#include <boost/json/object.hpp>
#include <memory>

#include "base/result.h"
#include "store/store.h"

namespace caisson::control {

class FleetImpl;

// Whoever leaves before it was settled, leaves it written as failed.
class Audited {
 public:
  Audited(FleetImpl& fleet, store::AuditEvent event);
  Audited(const Audited&) = delete;
  Audited& operator=(const Audited&) = delete;
  ~Audited();

  store::AuditEvent row;
  boost::json::object detail;

  // How the call came out: none is good.
  void judge(const Error* error);
  // The row went its way; the destructor has nothing left to do.
  void written() noexcept { written_ = true; }
  [[nodiscard]] bool settled() const noexcept { return written_; }

 private:
  std::weak_ptr<FleetImpl*> fleet_;
  bool written_ = false;
};

}  // namespace caisson::control
