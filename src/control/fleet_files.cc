// Files, archives and watches, as the sandbox's own user. Reading routes leave no audit row,
// changing ones do: a streamed one when it is finished or given up.
#include <fmt/format.h>

#include "control/fleet_impl.h"
#include "control/guest_path.h"
#include "control/tools.h"

namespace caisson::control {
namespace {

FileView file_view(engine::FileEntry entry, std::string path) {
  FileView view;
  if (entry.type == wire::EntryType::File)
    view.etag = fmt::format("\"{:x}-{:x}-{:x}\"", entry.inode, entry.size,
                            static_cast<std::uint64_t>(entry.mtime_ns));
  view.entry = std::move(entry);
  view.path = std::move(path);
  return view;
}

std::string below(const std::string& folder, const std::string& name) {
  return (folder == "/" ? "" : folder) + "/" + name;
}

class Reader final : public ByteReader {
 public:
  Reader(FleetImpl& fleet, SandboxPtr sandbox, std::unique_ptr<engine::GuestReader> guest)
      : fleet_(fleet), use_(std::move(sandbox)), guest_(std::move(guest)) {}

  awaitable<Result<std::span<const std::byte>>> next() override {
    if (!guest_) co_return std::span<const std::byte>();  // of an empty range
    co_return explained(fleet_, *use_, co_await guest_->next());
  }

 private:
  FleetImpl& fleet_;
  Use use_;
  std::unique_ptr<engine::GuestReader> guest_;
};

class Writer final : public ByteWriter {
 public:
  Writer(FleetImpl& fleet, SandboxPtr sandbox, std::unique_ptr<engine::GuestWriter> guest,
         store::AuditEvent row)
      : fleet_(fleet),
        use_(std::move(sandbox)),
        audit_(fleet, std::move(row)),
        guest_(std::move(guest)) {}

  awaitable<Result<void>> write(std::span<const std::byte> bytes) override {
    auto written = explained(fleet_, *use_, co_await guest_->write(bytes));
    if (written) count_ += bytes.size();
    co_return written;
  }

  awaitable<Result<Written>> finish() override {
    auto done = explained(fleet_, *use_, co_await guest_->finish());
    audit_.detail["bytes"] = count_;
    Result<Written> result;
    if (done) {
      result = Written{done->bytes, done->entries};
    } else {
      result = std::unexpected(done.error());
    }
    co_return co_await fleet_.settle(audit_, std::move(result));
  }

 private:
  FleetImpl& fleet_;
  Use use_;
  Audited audit_;
  std::unique_ptr<engine::GuestWriter> guest_;
  std::uint64_t count_ = 0;
};

class Watch final : public WatchStream {
 public:
  Watch(FleetImpl& fleet, SandboxPtr sandbox, std::unique_ptr<engine::GuestWatch> guest)
      : fleet_(fleet), use_(std::move(sandbox)), guest_(std::move(guest)) {}

  awaitable<Result<engine::WatchEvent>> next() override {
    co_return explained(fleet_, *use_, co_await guest_->next());
  }

 private:
  FleetImpl& fleet_;
  Use use_;
  std::unique_ptr<engine::GuestWatch> guest_;
};

// What resolve_path() gave: any name that the guest's kernel knows, and no way up.
Result<std::string> check_resolved(const std::string& path) {
  const bool plain = path.starts_with('/') && path.find('\0') == std::string::npos &&
                     (path + "/").find("/../") == std::string::npos;
  if (plain) return path;
  return bad_field("path", "path: is not resolved");
}

struct Piece {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

Result<Piece> piece_of(const std::optional<Range>& range, std::uint64_t size) {
  if (!range) return Piece{0, size};
  const auto wrong = [&] {
    return bad_field("range", fmt::format("range: the file has {} bytes", size));
  };
  if (!range->first) {
    if (!range->last || *range->last == 0 || size == 0) return wrong();
    const std::uint64_t length = std::min(*range->last, size);
    return Piece{size - length, length};
  }
  if (*range->first >= size) return wrong();
  if (range->last && *range->last < *range->first) return wrong();
  const std::uint64_t last = std::min(range->last.value_or(size - 1), size - 1);
  return Piece{*range->first, last - *range->first + 1};
}

}  // namespace

awaitable<Result<FileView>> FleetImpl::stat(const Caller& caller, std::string id, std::string path,
                                            bool follow) {
  auto found = co_await running(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  auto absolute = guest_path(path, kWorkspace, "path");
  if (!absolute) co_return std::unexpected(absolute.error());
  auto entry =
      explained(*this, *sandbox, co_await sandbox->guest->stat(sandbox->user(), *absolute, follow));
  if (!entry) co_return std::unexpected(entry.error());
  co_return file_view(*std::move(entry), *std::move(absolute));
}

awaitable<Result<std::vector<FileView>>> FleetImpl::list_files(const Caller& caller, std::string id,
                                                               std::string path, bool recursive) {
  auto found = co_await running(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  auto absolute = guest_path(path, kWorkspace, "path");
  if (!absolute) co_return std::unexpected(absolute.error());
  auto listing = explained(*this, *sandbox,
                           co_await sandbox->guest->list(sandbox->user(), *absolute, recursive));
  if (!listing) co_return std::unexpected(listing.error());
  if (listing->truncated)
    co_return failure(Errc::TooLarge,
                      "list " + *absolute + ": more than 100,000 entries; list a folder below it");
  std::vector<FileView> out;
  out.reserve(listing->entries.size());
  for (engine::FileEntry& entry : listing->entries) {
    std::string whole = below(*absolute, entry.name);
    out.push_back(file_view(std::move(entry), std::move(whole)));
  }
  co_return out;
}

awaitable<Result<Download>> FleetImpl::read_file(const Caller& caller, std::string id,
                                                 std::string path, std::optional<Range> range) {
  auto found = co_await running(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  auto absolute = guest_path(path, kWorkspace, "path");
  if (!absolute) co_return std::unexpected(absolute.error());
  auto entry =
      explained(*this, *sandbox, co_await sandbox->guest->stat(sandbox->user(), *absolute, true));
  if (!entry) co_return std::unexpected(entry.error());
  if (entry->type != wire::EntryType::File)
    co_return bad_field("path", "path: '" + *absolute + "' is not a regular file");
  const auto piece = piece_of(range, entry->size);
  if (!piece) co_return std::unexpected(piece.error());
  Download out;
  out.offset = piece->offset;
  out.length = piece->length;
  std::unique_ptr<engine::GuestReader> reader;
  if (piece->length != 0) {
    auto opened = explained(
        *this, *sandbox,
        co_await sandbox->guest->read(sandbox->user(), *absolute, piece->offset, piece->length));
    if (!opened) co_return std::unexpected(opened.error());
    reader = *std::move(opened);
  }
  out.bytes = std::make_unique<Reader>(*this, sandbox.ptr(), std::move(reader));
  out.file = file_view(*std::move(entry), *std::move(absolute));
  co_return out;
}

awaitable<Result<std::string>> FleetImpl::resolve_path(const Caller& caller, std::string id,
                                                       std::string path) {
  auto found = co_await running(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  if (path.find('\0') != std::string::npos) co_return bad_field("path", "path: holds a NUL");
  if (!path.starts_with('/')) path = std::string(kWorkspace) + "/" + path;
  auto entry = explained(*this, *sandbox,
                         co_await sandbox->guest->resolve(sandbox->user(), std::move(path)));
  if (!entry) co_return std::unexpected(entry.error());
  co_return std::move(entry->name);
}

awaitable<Result<std::unique_ptr<ByteReader>>> FleetImpl::read_resolved(const Caller& caller,
                                                                        std::string id,
                                                                        std::string path) {
  auto found = co_await running(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  auto absolute = check_resolved(path);
  if (!absolute) co_return std::unexpected(absolute.error());
  auto opened =
      explained(*this, *sandbox,
                co_await sandbox->guest->read(sandbox->user(), *absolute, 0, 0, /*no_links=*/true));
  if (!opened) co_return std::unexpected(opened.error());
  co_return std::make_unique<Reader>(*this, sandbox.ptr(), *std::move(opened));
}

awaitable<Result<std::unique_ptr<ByteWriter>>> FleetImpl::write_file(const Caller& caller,
                                                                     std::string id,
                                                                     std::string path,
                                                                     WriteWish wish) {
  auto found = find(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  Audited audit(*this, row(caller, "file.write", sandbox->id, path));
  const auto refuse = [](const Error& error) -> Result<std::unique_ptr<ByteWriter>> {
    return std::unexpected(error);
  };
  auto works = co_await store_works(audit);
  if (!works) co_return refuse(works.error());
  if (const auto up = co_await before_change(sandbox.ptr()); !up)
    co_return co_await settle(audit, refuse(up.error()));
  auto absolute = wish.resolved ? check_resolved(path) : guest_path(path, kWorkspace, "path");
  if (!absolute) co_return co_await settle(audit, refuse(absolute.error()));
  if (wish.mode > 07777)
    co_return co_await settle(
        audit, refuse(bad_field("mode", "mode: want permission bits, at most 07777").error()));
  if (wish.if_match) {
    const auto entry = co_await sandbox->guest->stat(sandbox->user(), *absolute, true);
    const bool same =
        entry && (*wish.if_match == "*" || file_view(*entry, *absolute).etag == *wish.if_match);
    if (!same)
      co_return co_await settle(
          audit,
          refuse(Error{Errc::Busy, "if_match: the file is another one by now", 0, "if_match"}));
  }
  const engine::WriteOptions options{.mode = wish.mode,
                                     .parents = wish.parents,
                                     .exclusive = wish.exclusive,
                                     .bulk = wish.bulk,
                                     .append = wish.append,
                                     .no_links = wish.resolved};
  auto writer = explained(*this, *sandbox,
                          co_await sandbox->guest->write(sandbox->user(), *absolute, options));
  if (!writer) co_return co_await settle(audit, refuse(writer.error()));
  audit.written();  // from here on it is the writer's
  co_return std::make_unique<Writer>(*this, sandbox.ptr(), *std::move(writer),
                                     row(caller, "file.write", sandbox->id, *absolute));
}

awaitable<Result<void>> FleetImpl::make_folder(const Caller& caller, std::string id,
                                               std::string path, bool parents) {
  auto found = find(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  Audited audit(*this, row(caller, "file.mkdir", sandbox->id, path));
  auto works = co_await store_works(audit);
  if (!works) co_return std::unexpected(works.error());
  auto absolute = guest_path(path, kWorkspace, "path");
  Result<void> done;
  if (const auto up = co_await before_change(sandbox.ptr()); !up) {
    done = std::unexpected(up.error());
  } else if (absolute) {
    done = explained(*this, *sandbox,
                     co_await sandbox->guest->make_folder(sandbox->user(), *absolute, parents, 0));
  } else {
    done = std::unexpected(absolute.error());
  }
  co_return co_await settle(audit, std::move(done));
}

awaitable<Result<void>> FleetImpl::move(const Caller& caller, std::string id, std::string from,
                                        std::string to, bool replace) {
  auto found = find(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  Audited audit(*this, row(caller, "file.move", sandbox->id, from));
  audit.detail["to"] = to;
  auto works = co_await store_works(audit);
  if (!works) co_return std::unexpected(works.error());
  auto source = guest_path(from, kWorkspace, "from");
  auto target = guest_path(to, kWorkspace, "to");
  Result<void> done;
  if (const auto up = co_await before_change(sandbox.ptr()); !up) {
    done = std::unexpected(up.error());
  } else if (source && target) {
    const engine::MoveOptions options{.parents = true, .replace = replace};
    done = explained(*this, *sandbox,
                     co_await sandbox->guest->move(sandbox->user(), *source, *target, options));
  } else {
    done = std::unexpected(source ? target.error() : source.error());
  }
  co_return co_await settle(audit, std::move(done));
}

awaitable<Result<std::uint64_t>> FleetImpl::remove(const Caller& caller, std::string id,
                                                   std::string path, bool recursive) {
  auto found = find(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  Audited audit(*this, row(caller, "file.remove", sandbox->id, path));
  auto works = co_await store_works(audit);
  if (!works) co_return std::unexpected(works.error());
  auto absolute = guest_path(path, kWorkspace, "path");
  Result<std::uint64_t> done;
  if (const auto up = co_await before_change(sandbox.ptr()); !up) {
    done = std::unexpected(up.error());
  } else if (absolute) {
    done = explained(*this, *sandbox,
                     co_await sandbox->guest->remove(sandbox->user(), *absolute, recursive));
  } else {
    done = std::unexpected(absolute.error());
  }
  if (done) audit.detail["entries"] = *done;
  co_return co_await settle(audit, std::move(done));
}

awaitable<Result<std::unique_ptr<WatchStream>>> FleetImpl::watch(const Caller& caller,
                                                                 std::string id, std::string path,
                                                                 bool recursive) {
  auto found = co_await running(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  auto absolute = guest_path(path, kWorkspace, "path");
  if (!absolute) co_return std::unexpected(absolute.error());
  auto watch = explained(*this, *sandbox,
                         co_await sandbox->guest->watch(sandbox->user(), *absolute, recursive));
  if (!watch) co_return std::unexpected(watch.error());
  co_return std::make_unique<Watch>(*this, sandbox.ptr(), *std::move(watch));
}

awaitable<Result<std::unique_ptr<ByteReader>>> FleetImpl::tar_out(const Caller& caller,
                                                                  std::string id,
                                                                  std::string path) {
  auto found = co_await running(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  auto absolute = guest_path(path, kWorkspace, "path");
  if (!absolute) co_return std::unexpected(absolute.error());
  auto reader =
      explained(*this, *sandbox, co_await sandbox->guest->tar_out(sandbox->user(), *absolute));
  if (!reader) co_return std::unexpected(reader.error());
  co_return std::make_unique<Reader>(*this, sandbox.ptr(), *std::move(reader));
}

awaitable<Result<std::unique_ptr<ByteWriter>>> FleetImpl::tar_in(const Caller& caller,
                                                                 std::string id, std::string path) {
  auto found = find(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  Audited audit(*this, row(caller, "file.tar_in", sandbox->id, path));
  const auto refuse = [](const Error& error) -> Result<std::unique_ptr<ByteWriter>> {
    return std::unexpected(error);
  };
  auto works = co_await store_works(audit);
  if (!works) co_return refuse(works.error());
  if (const auto up = co_await before_change(sandbox.ptr()); !up)
    co_return co_await settle(audit, refuse(up.error()));
  auto absolute = guest_path(path, kWorkspace, "path");
  if (!absolute) co_return co_await settle(audit, refuse(absolute.error()));
  const engine::TarOptions options{.parents = true};
  auto writer = explained(*this, *sandbox,
                          co_await sandbox->guest->tar_in(sandbox->user(), *absolute, options));
  if (!writer) co_return co_await settle(audit, refuse(writer.error()));
  audit.written();
  co_return std::make_unique<Writer>(*this, sandbox.ptr(), *std::move(writer),
                                     row(caller, "file.tar_in", sandbox->id, *absolute));
}

awaitable<Result<boost::json::object>> FleetImpl::read_tool(SandboxPtr sandbox, std::string path) {
  auto reader =
      explained(*this, *sandbox, co_await sandbox->guest->read(sandbox->user(), path, 0, 0));
  if (!reader) co_return std::unexpected(reader.error());
  std::string content;
  for (;;) {
    const auto bytes = explained(*this, *sandbox, co_await (*reader)->next());
    if (!bytes) co_return std::unexpected(bytes.error());
    if (bytes->empty()) break;
    if (content.size() + bytes->size() > kToolFileBytesMax)
      co_return std::unexpected(Error{Errc::TooLarge,
                                      "arguments.path: '" + path +
                                          "' is larger than 8 MiB; download it with GET "
                                          "/api/v1/sandboxes/{id}/files/{path}",
                                      0, "arguments.path"});
    content.append(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  }
  co_return file_read_answer(path, content);
}

awaitable<Result<boost::json::object>> FleetImpl::write_tool(SandboxPtr sandbox, std::string path,
                                                             std::string content) {
  const engine::WriteOptions options{.mode = 0, .parents = true, .exclusive = false};
  auto writer =
      explained(*this, *sandbox, co_await sandbox->guest->write(sandbox->user(), path, options));
  if (!writer) co_return std::unexpected(writer.error());
  auto written =
      explained(*this, *sandbox, co_await (*writer)->write(std::as_bytes(std::span(content))));
  if (!written) co_return std::unexpected(written.error());
  auto done = explained(*this, *sandbox, co_await (*writer)->finish());
  if (!done) co_return std::unexpected(done.error());
  co_return boost::json::object{{"path", path}, {"bytes_written", content.size()}};
}

}  // namespace caisson::control
