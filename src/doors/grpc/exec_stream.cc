// ExecStream: a command's output as it comes.
#include "doors/grpc/exec_run.h"

namespace caisson::grpc {
namespace {

constexpr std::size_t kChunkBytesMax = 4096;  // of one message, before what is no text is replaced

// One stream's bytes as text, a character never cut in two.
class Chunks {
 public:
  explicit Chunks(const char* type) { message_.set_type(type); }

  void add(std::string_view bytes, std::string& frames) {
    while (!bytes.empty()) {
      decoder_.feed(bytes.substr(0, kChunkBytesMax), text_);
      bytes.remove_prefix(std::min(bytes.size(), kChunkBytesMax));
      put(frames);
    }
  }
  void finish(std::string& frames) {
    decoder_.finish(text_);
    put(frames);
  }

 private:
  void put(std::string& frames) {
    if (text_.empty()) return;
    message_.set_data(text_);
    const std::size_t begun = begin_frame(frames);
    message_.AppendToString(&frames);
    end_frame(frames, begun);
    text_.clear();
  }

  doors::LossyUtf8 decoder_;
  std::string text_;
  api::ExecStreamResponse message_;
};

awaitable<Status> say_error(Call& call, std::string words) {
  api::ExecStreamResponse message;
  message.set_type("error");
  message.set_data(std::move(words));
  (void)co_await call.write(message);
  co_return Status{};
}

}  // namespace

awaitable<Status> exec_stream(Call& call) {
  api::ExecStreamRequest request;
  if (Status wrong = call.parse(request); !wrong.ok()) co_return wrong;
  const InUse session(call, request.session_id());
  if (!session) co_return co_await say_error(call, std::string(kNoSession));
  if (request.command().empty()) co_return Status{};
  std::string fault = command_fault(request.command());
  if (fault.empty() && request.workdir().find('\0') != std::string::npos)
    fault = "embedded null byte";
  if (!fault.empty()) co_return co_await say_error(call, std::move(fault));
  auto wish = co_await shell_wish(call, *session, request.command(), request.workdir());
  Result<control::ExecOutcome> done;
  Chunks out("stdout");
  Chunks err("stderr");
  std::string frames;
  if (wish) {
    wish->sink = [&](bool error, std::string_view bytes) -> awaitable<Result<void>> {
      (error ? err : out).add(bytes, frames);
      auto written = frames.empty() ? Result<void>{} : co_await call.write_frames(frames);
      frames.clear();
      co_return written;
    };
    done = co_await call.fleet().exec(call.caller, session->sandbox, *std::move(wish));
  } else {
    done = std::unexpected(wish.error());
  }
  if (!done) {
    std::string words = co_await failure_words(call, *session, done.error(), request.workdir());
    co_return co_await say_error(call, std::move(words));
  }
  out.finish(frames);
  err.finish(frames);
  if (!frames.empty()) (void)co_await call.write_frames(frames);
  api::ExecStreamResponse last;
  last.set_type("exit");
  last.set_exit_code(done->signal != 0 ? -done->signal : done->exit_code);
  (void)co_await call.write(last);
  co_return Status{};
}

}  // namespace caisson::grpc
