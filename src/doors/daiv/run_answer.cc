#include "doors/daiv/run_answer.h"

#include <fmt/format.h>

#include "base/base64.h"
#include "doors/daiv/json_text.h"
#include "doors/daiv/python_text.h"

namespace caisson::daiv {
namespace {

constexpr std::size_t kPieceBytes = 64UL * 1024;
constexpr std::size_t kWholeBytesMax = 512UL * 1024;  // up to here an answer is sent with a length
constexpr std::size_t kPatchPieceBytes = 48UL * 1024;
static_assert(kPatchPieceBytes % 3 == 0);  // so that pieces of base64 can be put together

class Writer {
 public:
  Writer(Call& call, bool whole) : call_(call), whole_(whole) {}
  std::string text;

  awaitable<Result<void>> flush() {
    if (whole_ || text.size() < kPieceBytes) co_return Result<void>{};
    co_return co_await send();
  }
  awaitable<Result<void>> finish() {
    if (whole_) {
      co_await call_.exchange.respond(200, kJson, std::move(text));
      co_return Result<void>{};
    }
    if (auto sent = co_await send(); !sent) co_return sent;
    co_return co_await call_.exchange.end();
  }

 private:
  awaitable<Result<void>> send() {
    if (!begun_) {
      auto begun = co_await call_.exchange.begin(200, kJson, std::nullopt);
      if (!begun) co_return begun;
      begun_ = true;
    }
    auto sent = co_await call_.exchange.write(std::as_bytes(std::span(text)));
    text.clear();
    co_return sent;
  }
  Call& call_;
  bool whole_;
  bool begun_ = false;
};

awaitable<Result<void>> write_output(Writer& writer, OutputStore& store,
                                     const RunResults::One& one) {
  LossyUtf8 decoder;
  std::string decoded;
  for (std::uint64_t at = one.begin; at < one.end;) {
    auto piece = co_await store.read(at, one.end);
    if (!piece) co_return std::unexpected(piece.error());
    at += piece->size();
    decoded.clear();
    decoder.feed(*piece, decoded);
    append_escaped(writer.text, decoded);
    if (auto sent = co_await writer.flush(); !sent) co_return sent;
  }
  decoded.clear();
  decoder.finish(decoded);
  append_escaped(writer.text, decoded);
  append_escaped(writer.text, lossy_utf8(one.note));
  co_return Result<void>{};
}

awaitable<Result<void>> write_patch(Writer& writer, const RunResults& results) {
  const std::string_view patch = results.patch;
  if (patch.empty()) {
    writer.text += "null";
    co_return Result<void>{};
  }
  writer.text += '"';
  for (std::size_t at = 0; at < patch.size(); at += kPatchPieceBytes) {
    writer.text += to_base64(patch.substr(at, kPatchPieceBytes));
    if (auto sent = co_await writer.flush(); !sent) co_return sent;
  }
  writer.text += '"';
  co_return Result<void>{};
}

}  // namespace

awaitable<Result<void>> answer_results(Call& call, RunResults& results) {
  const bool whole = !results.store.large() && results.patch.size() < kWholeBytesMax;
  Writer writer(call, whole);
  writer.text = R"({"results":[)";
  for (std::size_t i = 0; i < results.all.size(); ++i) {
    const RunResults::One& one = results.all[i];
    writer.text += i == 0 ? R"({"command":)" : R"(,{"command":)";
    append_string(writer.text, results.commands[one.index]);
    writer.text += R"(,"output":")";
    if (auto done = co_await write_output(writer, results.store, one); !done) co_return done;
    writer.text += fmt::format(R"(","exit_code":{}}})", one.exit_code);
    if (auto sent = co_await writer.flush(); !sent) co_return sent;
  }
  writer.text += R"(],"patch":)";
  if (auto done = co_await write_patch(writer, results); !done) co_return done;
  if (!results.patch_error.empty()) {
    // Beyond the original, which loses everything then; its clients ignore what they do not know.
    writer.text += R"(,"patch_error":)";
    append_string(writer.text, lossy_utf8(results.patch_error));
  }
  writer.text += '}';
  co_return co_await writer.finish();
}

}  // namespace caisson::daiv
