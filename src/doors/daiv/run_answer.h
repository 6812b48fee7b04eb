// doors/daiv/run_answer.h — what came of commands, and how it is told: piece by piece, because an
// output may be larger than what a server wants to hold.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "doors/daiv/call.h"
#include "doors/daiv/output_store.h"

namespace caisson::daiv {

struct RunResults {
  struct One {
    std::size_t index = 0;    // of its command
    std::uint64_t begin = 0;  // of its output in the store
    std::uint64_t end = 0;
    std::string note;  // after the output
    int exit_code = 0;
  };
  RunResults(control::Fleet& fleet, const control::Caller& caller, std::vector<std::string> said)
      : commands(std::move(said)), store(fleet, caller) {}

  std::vector<std::string> commands;
  OutputStore store;
  std::vector<One> all;
  std::string patch;        // empty: there is none
  std::string patch_error;  // why there is none
};

awaitable<Result<void>> answer_results(Call& call, RunResults& results);

// 422, where it is the archive's fault.
[[nodiscard]] std::unexpected<Error> archive_refusal(Call& call, std::string_view field,
                                                     const Error& error);

}  // namespace caisson::daiv
