#include "guest/layer/layer.h"

#include <cerrno>

#include "guest/layer/diff.h"
#include "guest/layer/flatten.h"
#include "guest/layer/merge.h"
#include "guest/layer/pack.h"
#include "guest/layer/sanitise.h"
#include "guest/layer/unpack.h"

namespace caisson::layer {
namespace {

constexpr std::uint64_t kTellBytes = std::uint64_t{8} * 1024 * 1024;
constexpr std::uint64_t kTellEntries = 4096;

}  // namespace

Result<void> Meter::add_entry() {
  if (++now_.entries > job_.entries_max) {
    return failure(Errc::TooLarge,
                   "there are more than " + std::to_string(job_.entries_max) + " entries");
  }
  return tell_sometimes();
}

Result<void> Meter::add_out(std::uint64_t bytes) {
  // By subtraction: a size that an archive only claims may be any number.
  if (bytes > job_.bytes_max || now_.bytes_out > job_.bytes_max - bytes) {
    return failure(Errc::TooLarge,
                   "there are more than " + std::to_string(job_.bytes_max) + " bytes to write");
  }
  now_.bytes_out += bytes;
  return tell_sometimes();
}

Result<void> Meter::tell_sometimes() {
  const bool due = now_.bytes_out - told_.bytes_out >= kTellBytes ||
                   now_.entries - told_.entries >= kTellEntries;
  if (!due) return {};
  told_ = now_;
  return teller_.progress(now_);
}

wire::LayerDone Meter::done() const noexcept {
  wire::LayerDone done{};
  done.bytes_in = now_.bytes_in;
  done.bytes_out = now_.bytes_out;
  done.entries = now_.entries;
  return done;
}

Result<wire::LayerDone> run(const Work& work, Teller& teller) {
  const wire::Job& job = work.job;
  if (job.layers > kLayersMax || job.a_layers > kLayersMax || job.b_layers > kLayersMax) {
    return failure(Errc::InvalidArgument,
                   "the job has more than " + std::to_string(kLayersMax) + " layers");
  }
  Meter meter(job, teller);
  switch (job.kind) {
    case wire::JobKind::Unpack:
      return unpack_job(work, meter);
    case wire::JobKind::Pack:
      return pack_job(work, meter);
    case wire::JobKind::Flatten:
      return flatten_job(work, meter);
    case wire::JobKind::Diff:
      return diff_job(work, meter);
    case wire::JobKind::Merge:
      return merge_job(work, meter);
    case wire::JobKind::Sanitise:
      return sanitise_job(work, meter);
  }
  return failure(Errc::InvalidArgument, "the job is of an unknown kind");
}

wire::LayerFailed to_wire(const Error& error) noexcept {
  wire::LayerFailed failed{wire::LayerError::Io, error.sys_errno};
  if (error.sys_errno == ENOSPC || error.sys_errno == EDQUOT) {
    failed.error = wire::LayerError::NoSpace;
  } else if (error.sys_errno == EFBIG || error.code == Errc::TooLarge) {
    failed.error = wire::LayerError::TooLarge;
  } else if (error.sys_errno == 0 && error.code == Errc::InvalidArgument) {
    failed.error = wire::LayerError::BadInput;
  }
  return failed;
}

}  // namespace caisson::layer
