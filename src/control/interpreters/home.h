// control/interpreters/home.h — the interpreters and contexts of one sandbox.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "control/code.h"
#include "control/interpreters/interpreter.h"

namespace caisson::control::interpreters {

inline constexpr std::size_t kEndedContextsMax = 64;  // of which is known why they ended

struct Context {
  std::string id;
  Language language = Language::Python;
  std::shared_ptr<Interpreter> interpreter;
  std::uint32_t number = 0;  // in there
  std::string workdir;
  store::WallTime created = 0;
  std::uint64_t runs = 0;
  bool taken = false;                    // by a call that may not have asked yet
  std::vector<std::string> environment;  // NAME=value, as it was last told

  // Also after its caller has left: the run goes on until it is heard to have ended.
  [[nodiscard]] bool busy() const { return taken || interpreter->busy(number); }
};

struct Home {
  std::map<Language, std::shared_ptr<Interpreter>> interpreters;
  std::map<std::string, std::shared_ptr<Context>, std::less<>> contexts;
  std::size_t opening = 0;                                // contexts that are being made
  std::deque<std::pair<std::string, std::string>> ended;  // id and why, the newest last

  void forget(std::string id, std::string why) {
    contexts.erase(id);
    if (ended.size() >= kEndedContextsMax) ended.pop_front();
    ended.emplace_back(std::move(id), std::move(why));
  }
  // Contexts that went without anybody asking for it.
  void look() {
    std::vector<std::pair<std::string, std::string>> gone;
    for (const auto& [id, context] : contexts) {
      if (context->interpreter->has(context->number)) continue;
      const auto& death = context->interpreter->death();
      gone.emplace_back(id, death ? death->message : "its process ended");
    }
    for (auto& [id, why] : gone) forget(std::move(id), std::move(why));
  }
};

}  // namespace caisson::control::interpreters
