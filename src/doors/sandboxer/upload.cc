// Files into a sandbox, as a form sends them: each goes in as it comes, and is seen when it is
// whole. Folders that are missing are made; nothing else is touched.
#include <fmt/format.h>

#include "doors/sandboxer/file_words.h"
#include "doors/sandboxer/words.h"
#include "http/multipart.h"

namespace caisson::sandboxer {

namespace json = boost::json;

namespace {

constexpr std::size_t kPieceBytes = 128UL * 1024;
constexpr std::string_view kField = "files";
constexpr std::size_t kFilesMax = 1000;  // of one form
using Event = http::Multipart::Event;

class Upload {
 public:
  Upload(Call& call, RowPtr row, std::string folder)
      : call_(call), row_(std::move(row)), folder_(std::move(folder)) {}

  awaitable<Result<void>> begin(const Event& event) {
    writer_.reset();
    // Other fields of the form, and a file input that nobody filled.
    if (event.name != kField || !event.filename) co_return Result<void>{};
    ++files_;
    if (event.filename->empty()) co_return Result<void>{};
    const auto below = absolute_path(*event.filename);
    if (!below) co_return refuse(call_, 400, "Path traversal not allowed");
    if (*below == "/" || folder_.size() + below->size() > kFilePathBytesMax)
      co_return refuse(call_, 400, "Error: the name of a file is empty or too long");
    control::Fleet::WriteWish wish;
    wish.parents = true;
    wish.bulk = true;
    const std::string path = (folder_ == "/" ? "" : folder_) + *below;
    auto writer =
        co_await call_.fleet().write_file(call_.caller, row_->name, path, std::move(wish));
    if (!writer) co_return file_refusal(call_, writer.error());
    writer_ = *std::move(writer);
    co_return Result<void>{};
  }

  awaitable<Result<void>> data(std::string_view bytes) {
    if (!writer_) co_return Result<void>{};
    auto written = co_await writer_->write(std::as_bytes(std::span(bytes)));
    if (!written) co_return file_refusal(call_, written.error());
    co_return Result<void>{};
  }

  awaitable<Result<void>> end() {
    if (!writer_) co_return Result<void>{};
    auto finished = co_await writer_->finish();
    writer_.reset();
    if (!finished) co_return file_refusal(call_, finished.error());
    co_return Result<void>{};
  }

  [[nodiscard]] std::size_t files() const noexcept { return files_; }

 private:
  Call& call_;
  RowPtr row_;
  std::string folder_;
  std::unique_ptr<control::ByteWriter> writer_;
  std::size_t files_ = 0;
};

std::unexpected<Error> wrong_form(Call& call, const Error& error) {
  call.exchange.close_after();
  return refuse(call, error.code == Errc::TooLarge ? 413 : 400,
                "There was an error parsing the body: " + error.message);
}

// One turn of the parser; true at the closing boundary.
awaitable<Result<bool>> step(Call& call, http::Multipart& form, Upload& upload, bool& hungry) {
  auto event = form.next();
  if (!event) co_return wrong_form(call, event.error());
  Result<void> done;
  switch (event->kind) {
    case Event::Kind::NeedMore:
      hungry = true;
      co_return false;
    case Event::Kind::PartBegin:
      done = co_await upload.begin(*event);
      break;
    case Event::Kind::Data:
      done = co_await upload.data(event->bytes);
      break;
    case Event::Kind::PartEnd:
      done = co_await upload.end();
      break;
    case Event::Kind::End:
      co_return true;
  }
  if (!done) co_return std::unexpected(done.error());
  co_return false;
}

awaitable<Result<void>> pour(Call& call, http::Multipart form, Upload& upload) {
  if (auto room = co_await call.hold().resize(2 * kPieceBytes); !room) co_return room;
  std::vector<std::byte> piece(kPieceBytes);
  std::uint64_t read = 0;
  for (bool ended = false;;) {
    const auto got = co_await call.exchange.read_some(piece);
    if (!got) co_return std::unexpected(got.error());
    if (*got == 0) break;
    read += *got;
    if (read > call.options().upload_bytes_max) {
      call.exchange.close_after();
      co_return refuse(call, 413, "The upload is too large");
    }
    if (ended) continue;  // what follows the closing boundary
    form.feed({reinterpret_cast<const char*>(piece.data()), *got});
    for (bool hungry = false; !hungry && !ended;) {
      const auto last = co_await step(call, form, upload, hungry);
      if (!last) co_return std::unexpected(last.error());
      ended = *last;
    }
  }
  if (auto whole = form.finish(); !whole) co_return wrong_form(call, whole.error());
  co_return Result<void>{};
}

std::unexpected<Error> no_files(Call& call) {
  doors::Problems problems;
  problems.missing(json::array{"body", kField}, nullptr);
  return refuse(call, problems);
}

}  // namespace

awaitable<Result<void>> upload_files(Call& call) {
  auto place = file_place(call);
  if (!place) co_return std::unexpected(place.error());
  const auto row = living_row(call);
  if (!row) co_return std::unexpected(row.error());
  auto boundary = http::multipart_boundary(call.request().field("Content-Type"));
  if (!boundary) co_return no_files(call);
  (*row)->last_active = call.services().now();
  const auto there = co_await call.fleet().stat(call.caller, (*row)->name, place->absolute, true);
  if (!there) {
    if (!call.fleet().get(call.caller, (*row)->name)) co_return refuse(call, 404, kNoSandbox);
    co_return file_refusal(call, there.error());
  }
  if (there->entry.type != wire::EntryType::Folder)
    co_return refuse(call, 400, "Target path must be a directory");
  Upload upload(call, *row, place->absolute);
  http::Multipart form(*std::move(boundary), kFilesMax);
  if (auto poured = co_await pour(call, std::move(form), upload); !poured) co_return poured;
  if (upload.files() == 0) co_return no_files(call);
  const json::object body{{"message", "Files uploaded successfully"}};
  co_return co_await answer(call, body);
}

}  // namespace caisson::sandboxer
