// Rows and history of another installation, whose sandboxes are gone.
#include <fmt/format.h>

#include "doors/sandboxer/life.h"
#include "doors/sandboxer/log.h"
#include "doors/sandboxer/words.h"
#include "doors/shared/text.h"

namespace caisson::sandboxer {

namespace {

constexpr std::size_t kNameBytesMax = 63;
constexpr std::size_t kTextBytesMax = 1024;
constexpr std::size_t kRunIdBytesMax = 128;
constexpr std::size_t kCommandBytesMax = 64UL * 1024;
constexpr std::size_t kContentBytesMax = 512UL * 1024;
constexpr std::size_t kAncestorsMax = 10'000;

std::string cut(std::string_view text, std::size_t most) {
  const std::string good = doors::lossy_utf8(text);
  return std::string(doors::cut_utf8(good, most));
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kNameBytesMax &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string_view::npos;
}

Result<Row> row_from(const ImportWish& wish, const ImportWish::Sandbox& old, store::WallTime now) {
  if (!is_id(old.id))
    return bad_field("sandboxes.id", fmt::format("sandboxes.id is '{}': want 64 small hex digits",
                                                 cut(old.id, 80)));
  if (!is_name(old.name))
    return bad_field("sandboxes.name",
                     fmt::format("sandboxes.name is '{}': want 1 to 63 characters of a-z, 0-9 and "
                                 "'-'",
                                 cut(old.name, 80)));
  Row row;
  row.id = old.id;
  row.name = old.name;
  row.tenant = wish.tenant;
  row.label = cut(old.label.empty() ? old.name : old.label, kLabelBytesMax);
  row.image = cut(old.image, kTextBytesMax);
  if (old.parent_id && is_id(*old.parent_id) && *old.parent_id != old.id)
    row.parent = *old.parent_id;
  row.is_public = old.is_public;
  row.last_active = wall_of(old.last_active_at);
  row.created = ulid_time(old.name).value_or(row.last_active);
  row.deleted_at = old.deleted_at ? wall_of(*old.deleted_at) : now;
  row.delete_reason = old.deleted_at && !old.delete_reason.empty()
                          ? cut(old.delete_reason, kTextBytesMax)
                          : std::string(kImported);
  return row;
}

// A ring of parents would be walked for ever.
bool makes_ring(const Rows& rows, const Row& row) {
  std::string_view up = row.parent;
  for (std::size_t i = 0; !up.empty(); ++i) {
    if (up == row.id || i > kAncestorsMax) return true;
    const RowPtr parent = rows.by_id(up);
    if (!parent) return false;
    up = parent->parent;
  }
  return false;
}

awaitable<Result<bool>> import_sandbox(ServicesPtr services, const ImportWish& wish,
                                       const ImportWish::Sandbox& old) {
  auto read = row_from(wish, old, services->now());
  if (!read) co_return std::unexpected(read.error());
  const auto row = std::make_shared<Row>(*std::move(read));
  if (services->rows.by_id(row->id) || services->rows.by_name(row->name)) co_return false;
  const auto place = co_await make_room(services, row->tenant);
  if (!place) co_return std::unexpected(place.error());
  if (makes_ring(services->rows, *row)) row->parent.clear();
  auto kept = co_await keep_row(services, row);
  if (!kept) co_return std::unexpected(kept.error());
  services->rows.add(row);
  co_return true;
}

awaitable<Result<bool>> import_run(ServicesPtr services, const ImportWish& wish,
                                   const ImportWish::Execution& old) {
  const RowPtr row = services->rows.by_id(old.sandbox_id);
  if (!row || row->tenant != wish.tenant) co_return false;
  if (old.id.empty() || old.id.size() > kRunIdBytesMax || old.id.starts_with(kMainRun))
    co_return bad_field("executions.id",
                        fmt::format("executions.id is '{}': want 1 to {} characters",
                                    cut(old.id, 80), kRunIdBytesMax));
  const auto known = co_await services->history.run(old.id);
  if (!known) co_return std::unexpected(known.error());
  if (*known) co_return false;
  store::RunRecord run;
  run.id = cut(old.id, kRunIdBytesMax);
  run.sandbox = row->id;
  run.command = cut(old.command, kCommandBytesMax);
  run.exit_code = old.exit_code;
  run.started = wall_of(old.executed_at);
  std::vector<store::RunPiece> pieces;
  for (const ImportWish::Log& log : old.logs) {
    store::RunPiece piece;
    piece.run = run.id;
    piece.stream = log.fd == 2 ? 2 : 1;
    piece.content = cut(log.content, kContentBytesMax);
    piece.time = wall_of(log.created_at);
    pieces.push_back(std::move(piece));
  }
  auto put = co_await services->history.put_pieces(std::move(run), std::move(pieces), std::nullopt);
  if (!put) co_return std::unexpected(put.error());
  co_return true;
}

}  // namespace

awaitable<Result<ImportCount>> import_rows(ServicesPtr services, control::Caller caller,
                                           ImportWish wish) {
  if (!caller.may(store::Scope::Admin)) {
    services->access.denied(caller, "sandboxer import");
    co_return failure(Errc::Denied, "this needs a token with the scope \"admin\"");
  }
  if (wish.tenant.empty() || wish.tenant.size() > control::kTenantBytesMax)
    co_return bad_field("tenant", "tenant: want the name of a tenant");
  ImportCount count;
  for (const ImportWish::Sandbox& old : wish.sandboxes) {
    const auto made = co_await import_sandbox(services, wish, old);
    if (!made) co_return std::unexpected(made.error());
    ++(*made ? count.sandboxes : count.skipped);
  }
  for (const ImportWish::Execution& old : wish.executions) {
    const auto made = co_await import_run(services, wish, old);
    if (!made) co_return std::unexpected(made.error());
    ++(*made ? count.executions : count.skipped);
  }
  co_return count;
}

}  // namespace caisson::sandboxer
