// control/code.h — running code with an interpreter that is there already: what is asked, and what
// it came to. How it works is in interpreters/interpreter.h.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/link/guest_session.h"
#include "store/store.h"

namespace caisson::control {

inline constexpr std::size_t kCodeBytesMax = 1024UL * 1024;
inline constexpr std::size_t kContextsMax = 16;       // of one sandbox
inline constexpr std::size_t kCodeRunsMax = 64;       // at once, of one interpreter
inline constexpr std::size_t kImportsMax = 64;        // of one interpreter or context
inline constexpr std::size_t kImportBytesMax = 256;   // of a module's name
inline constexpr std::size_t kCodeOutputsMax = 1024;  // results that one run shows
// Values, results and the error of one run, as they come from inside.
inline constexpr std::size_t kCodeResultBytesMax = 4UL * 1024 * 1024;

enum class Language : std::uint8_t { Python, JavaScript };
[[nodiscard]] std::string_view to_string(Language language) noexcept;
[[nodiscard]] Result<Language> parse_language(std::string_view text, std::string_view field);

// What an interpreter has imported before the first run needs it. `warm`: it is started with the
// sandbox, and not by the first call.
struct InterpreterWish {
  bool warm = true;
  std::vector<std::string> imports;

  friend bool operator==(const InterpreterWish&, const InterpreterWish&) = default;
};
using InterpreterWishes = std::map<Language, InterpreterWish>;
[[nodiscard]] Result<void> check_imports(Language language, const std::vector<std::string>& imports,
                                         std::string_view field);
[[nodiscard]] Result<void> check_interpreters(const InterpreterWishes& wishes);

using CodeSink =
    std::function<boost::asio::awaitable<Result<void>>(bool error, std::string_view bytes)>;

struct CodeWish {
  Language language = Language::Python;
  std::string code;
  std::optional<std::string> context;  // in this one; else by itself, and nothing of it stays
  std::vector<std::pair<std::string, std::string>> environment;
  std::optional<std::string> workdir;
  std::optional<std::string> input;  // all of standard input
  std::optional<double> timeout_seconds;
  std::uint32_t output_bytes_max = 1024 * 1024;  // kept of each stream: its head and its tail
  engine::AdmitOutput admit{};                   // counts what is collected, as it comes
  CodeSink sink{};                               // instead of collecting the two streams
};

// Something to look at, in several forms of the same: by media type, text or JSON. What is binary
// is base64.
struct CodeOutput {
  bool main = false;  // the value itself
  boost::json::object data;
};

struct CodeError {
  std::string name;  // of the exception's class
  std::string value;
  std::string traceback;
};

struct CodeOutcome {
  int exit_code = 0;                 // as of a program that runs this code; 128 + N by signal N
  std::optional<std::string> value;  // the last expression's, as text
  std::vector<CodeOutput> outputs;
  bool outputs_truncated = false;
  std::optional<CodeError> error;
  std::string out;
  std::string err;
  std::uint64_t out_lost = 0;
  std::uint64_t err_lost = 0;
  bool timed_out = false;
  bool context_ended = false;         // nothing of it is left
  microseconds wall{0};               // of the whole call
  microseconds ran{0};                // of the code, as the interpreter measured it
  std::vector<std::string> warnings;  // what could not be imported ahead
};

struct ContextWish {
  Language language = Language::Python;
  std::vector<std::string> imports;
  std::vector<std::pair<std::string, std::string>> environment;
  std::optional<std::string> workdir;
};

struct ContextView {
  std::string id;
  Language language = Language::Python;
  std::string workdir;
  store::WallTime created = 0;
  bool busy = false;
  std::uint64_t runs = 0;
};
using Contexts = std::vector<ContextView>;

}  // namespace caisson::control
