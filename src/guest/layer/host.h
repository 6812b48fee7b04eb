// guest/layer/host.h — the job as it comes from the host, and the answers as they go back.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "guest/layer/layer.h"

namespace caisson::layer {

inline constexpr std::size_t kJobDescriptorsMax = 4;

struct ReceivedJob {
  wire::Job job{};
  std::string prefix;
  std::vector<UniqueFd> descriptors;
};

[[nodiscard]] Result<ReceivedJob> receive_job(int socket);

class HostTeller final : public Teller {
 public:
  explicit HostTeller(int socket) : socket_(socket) {}

  Result<void> progress(const wire::LayerProgress& progress) override;
  Result<void> entry(const Finding& found, const std::string& path) override;
  Result<void> done(const wire::LayerDone& done);
  Result<void> failed(const Error& error);

 private:
  static constexpr std::size_t kGatherBytes = 64UL * 1024;

  Result<void> put(wire::AnswerKind kind, const void* body, std::size_t size,
                   const std::string& text);
  Result<void> flush();

  int socket_;
  std::string waiting_;  // entries gather here: a call for each would cost more than finding it
};

}  // namespace caisson::layer
