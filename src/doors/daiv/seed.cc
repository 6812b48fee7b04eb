// The first files of a session: one archive or two, as a form.
#include <fmt/format.h>

#include <array>

#include "doors/daiv/python_text.h"
#include "doors/daiv/run_answer.h"
#include "doors/daiv/schema.h"
#include "doors/daiv/sessions.h"
#include "http/multipart.h"

namespace caisson::daiv {

namespace json = boost::json;

namespace {

constexpr std::size_t kPieceBytes = 32UL * 1024;
constexpr std::string_view kNeither =
    "At least one of repo_archive or skills_archive must be provided";

struct Part {
  std::string_view field;
  std::string_view path;
  std::shared_ptr<control::Spool> spool{};
  bool is_text = false;  // a part without a file's name
  std::string text{};    // of such a one, cut
};

// In the order in which they are applied, however they were sent.
using Parts = std::array<Part, 2>;

class FormReader {
 public:
  FormReader(Call& call, std::string boundary) : call_(call), parser_(std::move(boundary)) {}

  awaitable<Result<Parts>> read() {
    std::string buffer(kPieceBytes, '\0');
    for (;;) {
      auto event = parser_.next();
      if (!event) co_return malformed();
      if (event->kind == Kind::End) co_return std::move(parts_);
      if (event->kind != Kind::NeedMore) {
        if (auto taken = co_await take(*event); !taken) co_return std::unexpected(taken.error());
        continue;
      }
      auto got = co_await call_.exchange.read_some(std::as_writable_bytes(std::span(buffer)));
      if (!got) co_return std::unexpected(got.error());
      if (*got == 0) co_return malformed();
      parser_.feed(std::string_view(buffer).substr(0, *got));
    }
  }

 private:
  using Kind = http::Multipart::Event::Kind;

  std::unexpected<Error> malformed() {
    return refuse(call_, 400, "There was an error parsing the body");
  }

  awaitable<Result<void>> take(const http::Multipart::Event& event) {
    if (event.kind == Kind::PartBegin) co_return begin(event);
    if (event.kind != Kind::Data || current_ == nullptr) co_return Result<void>{};
    if (current_->spool)
      co_return co_await current_->spool->write(std::as_bytes(std::span(event.bytes)));
    if (current_->text.size() < kTextKept)
      current_->text += event.bytes.substr(0, kTextKept - current_->text.size());
    co_return Result<void>{};
  }

  // The last of a name counts.
  Result<void> begin(const http::Multipart::Event& event) {
    current_ = nullptr;
    for (Part& part : parts_) {
      if (part.field == event.name) current_ = &part;
    }
    if (current_ == nullptr) return {};
    current_->spool.reset();
    current_->text.clear();
    current_->is_text = !event.filename;
    if (event.filename) current_->spool = TRY(call_.fleet().spool(call_.caller));
    return {};
  }

  static constexpr std::size_t kTextKept = 1024;
  Call& call_;
  http::Multipart parser_;
  Parts parts_{Part{"repo_archive", kRepo}, Part{"skills_archive", kSkills}};
  Part* current_ = nullptr;
};

awaitable<Result<Parts>> read_form(Call& call) {
  auto boundary = http::multipart_boundary(call.request().field("Content-Type"));
  if (!boundary || !call.request().has_body) co_return refuse(call, 422, kNeither);
  FormReader reader(call, *std::move(boundary));
  auto parts = co_await reader.read();
  if (!parts) co_return std::unexpected(parts.error());
  Problems problems;
  for (const Part& part : *parts) {
    if (part.is_text)
      problems.value_error(json::array{"body", part.field},
                           "Expected UploadFile, received: <class 'str'>",
                           json::value(lossy_utf8(part.text)));
  }
  if (!problems.empty()) co_return refuse(call, problems);
  if (!(*parts)[0].spool && !(*parts)[1].spool) co_return refuse(call, 422, kNeither);
  co_return parts;
}

awaitable<Result<void>> put(Call& call, const Part& part) {
  if (!part.spool) co_return Result<void>{};
  if (part.spool->size() == 0)
    co_return refuse(call, 422, fmt::format("{} is invalid: empty file", part.field));
  control::ArchiveWish wish;
  wish.path = part.path;
  wish.archive = part.spool;
  auto done = co_await call.fleet().put_archive(call.caller, call.id(), std::move(wish));
  if (!done) co_return archive_refusal(call, part.field, done.error());
  co_return Result<void>{};
}

}  // namespace

// That it was done is a label, which nothing inside can make or remove.
awaitable<Result<void>> seed_session(Call& call) {
  // Nothing is taken to disk for a session that is not there.
  const auto there = find_session(call.fleet(), call.caller, call.id());
  if (!there && there.error().code == Errc::NotFound) co_return refuse(call, 404, kNoSession);
  auto parts = co_await read_form(call);
  if (!parts) co_return std::unexpected(parts.error());
  auto session = co_await enter(call, Wake::Yes);
  if (!session) co_return std::unexpected(session.error());
  if (session->has(kSeededLabel)) co_return refuse(call, 409, "Session already seeded");
  for (const Part& part : *parts) {
    if (auto done = co_await put(call, part); !done) co_return done;
  }
  if (auto told = co_await set_label(call, *session, kSeededLabel, "1"); !told) {
    if (told.error().code == Errc::NotFound) co_return refuse(call, 404, kNoSession);
    co_return failure(Errc::Internal, "the session could not be marked: " + told.error().message);
  }
  co_return co_await answer_nothing(call);
}

}  // namespace caisson::daiv
