// A new sandbox from an image, and its main process.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <charconv>

#include "control/open_fleet.h"
#include "control/tools.h"
#include "doors/sandboxer/life.h"
#include "doors/sandboxer/views.h"
#include "doors/sandboxer/words.h"

namespace caisson::sandboxer {

namespace json = boost::json;

namespace {

constexpr std::string_view kHostImage = "host";
constexpr std::string_view kTransport = "docker://";
constexpr std::size_t kShownBytesMax = 200;
constexpr std::size_t kHostnameOfIdBytes = 12;
// Of an image that says nothing: a shell, or something that only waits.
constexpr std::string_view kShell = "/bin/sh";
constexpr std::string_view kSleepSeconds = "2147483647";

struct NewWish {
  std::string image;
  std::string label;
  bool interactive = false;
  doors::Pairs environment;
  std::vector<std::string> args;
  std::string hostname;
};

Result<NewWish> read_new(Call& call) {
  TRY(need_body(call));
  doors::Problems problems;
  NewWish wish;
  doors::Fields fields(call.body, json::array{"body"}, problems);
  wish.image = fields.text("image");
  wish.label = fields.text("label");
  wish.interactive = fields.flag("interactive", false);
  wish.environment = fields.pairs_or_null("env");
  wish.args = fields.texts_or("args", {});
  wish.hostname = fields.text_or_null("hostname").value_or("");
  if (!problems.empty()) return refuse(call, problems);
  if (wish.image.starts_with(kTransport)) wish.image.erase(0, kTransport.size());
  if (trimmed(wish.image).empty()) return refuse(call, 400, "Image cannot be empty.");
  if (wish.label.size() > kLabelBytesMax)
    return refuse(call, 400, fmt::format("Label is too long: at most {} bytes.", kLabelBytesMax));
  return wish;
}

std::string shown(std::string_view text) {
  return doors::lossy_utf8(text.substr(0, kShownBytesMax));
}

awaitable<Result<control::ImageView>> pull(Call& call, std::string reference) {
  control::PullWish wish;
  wish.reference = std::move(reference);
  wish.refresh = false;
  auto stream = co_await call.fleet().pull_image(call.caller, std::move(wish));
  if (!stream) co_return std::unexpected(stream.error());
  for (;;) {
    auto item = co_await (*stream)->next();
    if (!item) co_return std::unexpected(item.error());
    if (auto* image = std::get_if<control::ImageView>(&*item)) co_return std::move(*image);
  }
}

// One sentence, whatever the registry said.
std::unexpected<Error> no_image(Call& call, const std::string& reference, const Error& error) {
  const std::string name = shown(reference);
  switch (error.code) {
    case Errc::InvalidArgument:
      return refuse(call, 400, fmt::format("Image \"{}\" is not a valid reference.", name));
    case Errc::NotFound:
    case Errc::Denied:
    case Errc::Unauthenticated:
      return refuse(call, 404, fmt::format("Image \"{}\" was not found, or needs a login.", name));
    case Errc::Exhausted:
    case Errc::StoreFull:
    case Errc::TooLarge:
    case Errc::Busy:
      return std::unexpected(error);
    default:
      call.services().failed(call.request().id, error);
      return refuse(call, 502, fmt::format("Image \"{}\" could not be pulled.", name));
  }
}

// What is here is never refreshed; only what is missing is fetched.
awaitable<Result<control::ImageView>> have_image(Call& call, std::string reference) {
  using namespace boost::asio::experimental::awaitable_operators;
  if (reference == kHostImage) co_return control::ImageView{};
  auto here = call.fleet().image(call.caller, reference);
  if (here) co_return here;
  if (here.error().code != Errc::NotFound) co_return no_image(call, reference, here.error());
  const milliseconds most = call.options().pull_timeout;
  auto first =
      co_await (pull(call, reference) || call.exchange.wait_for_hangup() || pause_for(most));
  if (first.index() == 1) {
    call.exchange.close_after();
    co_return failure(Errc::Gone, "the caller hung up");
  }
  if (first.index() == 2)
    co_return refuse(call, 504,
                     fmt::format("Image \"{}\" took too long to pull.", shown(reference)));
  auto& pulled = std::get<0>(first);
  if (!pulled) co_return no_image(call, reference, pulled.error());
  co_return std::move(pulled);
}

std::vector<std::string> command_of(const NewWish& wish, const control::ImageDefaults& image) {
  std::vector<std::string> out = image.entrypoint;
  const auto& rest = wish.args.empty() ? image.command : wish.args;
  out.insert(out.end(), rest.begin(), rest.end());
  if (!out.empty()) return out;
  if (wish.interactive) return {std::string(kShell)};
  return {"sleep", std::string(kSleepSeconds)};
}

// The lowest of "80/tcp"; 0 without one.
std::uint16_t exposed_port(const control::ImageDefaults& image) {
  std::uint16_t lowest = 0;
  for (const std::string_view one : image.ports) {
    const std::size_t slash = std::min(one.find('/'), one.size());
    if (slash < one.size() && one.substr(slash) != "/tcp") continue;
    std::uint16_t port = 0;
    const auto read = std::from_chars(one.data(), one.data() + slash, port);
    if (read.ec != std::errc{} || read.ptr != one.data() + slash || port == 0) continue;
    if (lowest == 0 || port < lowest) lowest = port;
  }
  return lowest;
}

control::CreateWish create_wish(const NewWish& wish, const Row& row,
                                const control::ImageDefaults& image,
                                const SandboxerOptions& options) {
  control::CreateWish out;
  out.profile = options.profile;
  out.image = wish.image;
  out.root = engine::RootMode::Writable;
  if (options.disk) out.storage = engine::Storage::Disk;
  out.tools = control::all_tools();
  out.environment = wish.environment;
  if (wish.image != kHostImage && image.workdir.empty()) out.workdir = "/";
  out.hostname = row.hostname;
  out.limits.cpu = options.cpu;
  out.limits.memory_bytes = options.memory_bytes;
  out.limits.disk_bytes = options.disk_bytes;
  out.limits.processes = options.processes;
  // There is no time to live here: it ends with its main process, or when somebody ends it.
  out.limits.timeout_seconds =
      options.life_seconds > 0 ? options.life_seconds : control::kLifeSecondsMax;
  out.limits.idle_seconds = control::kLifeSecondsMax;
  out.labels["sandboxer.id"] = row.id;
  return out;
}

// A mistake of the caller's, in one sentence.
std::unexpected<Error> not_made(Call& call, const NewWish& wish, const Error& error) {
  if (error.field == "hostname")
    return refuse(call, 400,
                  fmt::format("Hostname \"{}\" is not valid: use letters, digits, '-' and '.', at "
                              "most {} of them.",
                              shown(wish.hostname), kHostnameMax));
  return std::unexpected(error);
}

std::unexpected<Error> not_started(Call& call, const Row& row, const Error& error) {
  if (error.code == Errc::NotFound)
    return refuse(
        call, 400,
        fmt::format("The program \"{}\" was not found in the image.", shown(row.command.front())));
  return std::unexpected(error);
}

}  // namespace

awaitable<Result<void>> create_sandbox(Call& call) {
  auto wish = read_new(call);
  if (!wish) co_return std::unexpected(wish.error());
  const auto place = co_await make_room(call.shared, call.caller.tenant);
  if (!place) co_return std::unexpected(place.error());
  const auto image = co_await have_image(call, wish->image);
  if (!image) co_return std::unexpected(image.error());
  const auto row = std::make_shared<Row>();
  auto id = fresh_id();
  if (!id) co_return std::unexpected(id.error());
  row->id = *std::move(id);
  row->tenant = call.caller.tenant;
  row->image = wish->image;
  row->hostname =
      wish->hostname.empty() ? row->id.substr(0, kHostnameOfIdBytes) : lower_case(wish->hostname);
  row->interactive = wish->interactive;
  row->command = command_of(*wish, image->defaults);
  row->port = exposed_port(image->defaults);
  control::CreateWish wanted = create_wish(*wish, *row, image->defaults, call.options());
  auto made = co_await call.fleet().create(call.caller, std::move(wanted));
  if (!made) co_return not_made(call, *wish, made.error());
  row->name = made->id;
  row->label = wish->label.empty() ? row->name : wish->label;
  row->created = row->last_active = made->created;
  auto begun = co_await begin_life(call.shared, call.caller, row);
  if (!begun) co_return not_started(call, *row, begun.error());
  co_await wait_until_ready(call.shared, call.caller, row);
  co_return co_await answer(call, new_view(call, *row));
}

}  // namespace caisson::sandboxer
