// doors/rest/collected_test.h — for tests: a command's output as the engine would collect it.
#pragma once

#include <cstddef>
#include <string>

#include "control/fleet.h"

namespace caisson::rest {

// As much of its output as is admitted, piece by piece.
inline control::ExecOutcome collected(const control::ExecOutcome& all,
                                      const engine::AdmitOutput& admit) {
  constexpr std::size_t kPiece = 4096;
  control::ExecOutcome kept = all;
  kept.out.clear();
  for (std::size_t at = 0; at < all.out.size(); at += kPiece) {
    const std::string piece = all.out.substr(at, kPiece);
    if (kept.out_lost == all.out_lost && admit(piece.size())) {
      kept.out += piece;
    } else {
      kept.out_lost += piece.size();
    }
  }
  return kept;
}

}  // namespace caisson::rest
