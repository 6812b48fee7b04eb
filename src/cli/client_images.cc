// image pull|import|ls|inspect|rm|gc|export|build-from: what roots are made of.
#include <fmt/format.h>

#include <boost/json/array.hpp>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/client_image_transfer.h"
#include "cli/client_json.h"
#include "cli/client_pull_board.h"
#include "cli/client_session.h"
#include "cli/client_text.h"

namespace caisson::cli {
namespace {

struct Words {
  PullWords pull;
  std::string source, name, pick, target, snapshot, command, workdir, user;
  std::vector<std::string> references, entrypoint;
};

int list(const Session& session, bool json, bool quiet) {
  const auto body = session.text("GET", "/api/v1/images");
  if (!body) return session.fail(body.error());
  if (json) return print_out(*body + "\n") ? kExitOk : kExitFailed;
  const auto listing = parse_json(*body);
  if (!listing) return session.fail(listing.error());
  Table table({"REFERENCE", "DIGEST", "PLATFORM", "LAYERS", "SIZE", "AGE", "SOURCE"});
  std::string references;
  const double now = wall_seconds();
  for (const auto& one : list_at(*listing, "images")) {
    const auto created = parse_time(text_at(one, "created_at"));
    references += shown(text_at(one, "reference"), 512) + "\n";
    table.add({text_at(one, "reference"), short_digest(text_at(one, "digest")),
               text_at(one, "platform"), fmt::to_string(list_at(one, "layers").size()),
               size_text(count_at(one, "bytes")), created ? age_text(now - *created) : "",
               text_at(one, "source")});
  }
  return print_out(quiet ? references : table.text()) ? kExitOk : kExitFailed;
}

int inspect(const Session& session, const std::string& reference, bool json) {
  const auto body = session.text("GET", "/api/v1/images/inspect" + image_query(reference));
  if (!body) return session.fail(body.error());
  if (json) return print_out(*body + "\n") ? kExitOk : kExitFailed;
  const auto image = parse_json(*body);
  if (!image) return session.fail(image.error());
  return print_out(pretty(*image)) ? kExitOk : kExitFailed;
}

int remove(const Session& session, const std::vector<std::string>& references) {
  int status = kExitOk;
  for (const std::string& reference : references) {
    const auto gone = session.text("DELETE", "/api/v1/images" + image_query(reference));
    if (!gone) status = session.fail(gone.error().within(one_line(reference)));
    if (status == kExitUnreachable) return status;
  }
  return status;
}

int collect(const Session& session, bool json) {
  const auto body = session.text("POST", "/api/v1/images/gc");
  if (!body) return session.fail(body.error());
  if (json) return print_out(*body + "\n") ? kExitOk : kExitFailed;
  const auto gone = parse_json(*body);
  if (!gone) return session.fail(gone.error());
  return print_out(fmt::format("removed {} blobs and {} layers, {}\n", count_at(*gone, "blobs"),
                               count_at(*gone, "layers"), size_text(count_at(*gone, "bytes"))))
             ? kExitOk
             : kExitFailed;
}

boost::json::array array_of(const std::vector<std::string>& words) {
  boost::json::array out;
  for (const std::string& word : words) out.emplace_back(word);
  return out;
}

int build(const Session& session, const Words& words, const std::vector<std::string>& command,
          bool json) {
  boost::json::object body;
  body["reference"] = words.name;
  body["snapshot"] = words.snapshot;
  if (!words.entrypoint.empty()) body["entrypoint"] = array_of(words.entrypoint);
  if (!command.empty()) body["command"] = array_of(command);
  if (!words.workdir.empty()) body["workdir"] = words.workdir;
  if (!words.user.empty()) body["user"] = words.user;
  const auto answer = session.text("POST", "/api/v1/images/build", std::move(body));
  if (!answer) return session.fail(answer.error());
  if (json) return print_out(*answer + "\n") ? kExitOk : kExitFailed;
  const auto image = parse_json(*answer);
  if (!image) return session.fail(image.error());
  return print_out(shown(text_at(*image, "reference"), 512) + "\n") ? kExitOk : kExitFailed;
}

// The commands of this one, in the order of the help.
struct Choices {
  CommandLine& pull;
  CommandLine& import;
  CommandLine& list;
  CommandLine& inspect;
  CommandLine& remove;
  CommandLine& collect;
  CommandLine& send_out;
  CommandLine& build;
};

void declare_transfers(Choices& to, Words& words) {
  to.pull.word("reference", words.pull.reference, Need::Required, "REF",
               "a name with a tag or a digest");
  to.pull.text("--platform", words.pull.platform, "PLATFORM",
               "such as linux/arm64 (default: the server's own)");
  to.pull.text("--username", words.pull.username, "NAME", "of the registry, for this pull only");
  to.pull.flag("--password-stdin", words.pull.password_stdin,
               "read the password from standard input");
  to.pull.flag("--keep", words.pull.keep, "what the server has already will do");
  to.pull.flag("-q,--quiet", words.pull.quiet, "no progress");
  to.import.word("source", words.source, Need::Required, "FILE-OR-FOLDER",
                 "an OCI layout, a docker archive or a root file system");
  to.import.text("--name", words.name, "REF", "what the image is to be called");
  to.import.text("--pick", words.pick, "NAME", "of several images in it, this one");
  to.send_out.word("reference", words.pull.reference, Need::Required, "REF",
                   "as image ls shows it");
  to.send_out.text("-o,--output", words.target, "FILE", "where to; - is standard output");
}

void declare_rest(Choices& to, Words& words, std::vector<std::string>& command) {
  to.list.flag("-q,--quiet", words.pull.quiet, "references only");
  to.inspect.word("reference", words.pull.reference, Need::Required, "REF", "as image ls shows it");
  to.remove.words("reference", words.references, Need::Required, "REF…", "as image ls shows them");
  to.build.word("snapshot", words.snapshot, Need::Required, "SNAPSHOT", "id or name");
  to.build.text("--name", words.name, "REF", "what the image is to be called");
  to.build.texts("--entrypoint", words.entrypoint, "WORD", "program of the image; repeat it");
  to.build.text("--workdir", words.workdir, "PATH", "working folder of the image");
  to.build.text("--user", words.user, "USER", "user of the image");
  to.build.words("command", command, Need::Optional, "COMMAND…", "of the image, behind --");
}

}  // namespace

int image_command(std::span<char*> args) {
  CommandLine line("Images: what roots of sandboxes are made of.");
  ClientOptions options;
  Words words;
  std::vector<std::string> command;
  Choices to{line.command("pull", "get one from a registry"),
             line.command("import", "make one of an archive or a folder"),
             line.command("ls", "list them"),
             line.command("inspect", "show one, as JSON"),
             line.command("rm", "remove some"),
             line.command("gc", "remove layers that nobody needs"),
             line.command("export", "write one as an archive, an OCI layout"),
             line.command("build-from", "make one of a snapshot")};
  for (CommandLine* one : {&to.pull, &to.import, &to.list, &to.inspect, &to.collect, &to.build})
    add_client_options(*one, options, JsonFlag::Offered);
  for (CommandLine* one : {&to.remove, &to.send_out})
    add_client_options(*one, options, JsonFlag::None);
  declare_transfers(to, words);
  declare_rest(to, words, command);
  if (const auto done = line.parse(args)) return *done;
  const bool makes = to.import.chosen() || to.build.chosen();
  if ((makes && words.name.empty()) || (to.send_out.chosen() && words.target.empty())) {
    complain(args[0], makes ? "write --name REF" : "write -o FILE");
    return kExitUsage;
  }
  const auto session = Session::open(args[0], options);
  if (!session) return session.error();
  if (to.pull.chosen()) return pull_image(*session, words.pull, options.json);
  if (to.import.chosen())
    return import_image(*session, words.source, words.name, words.pick, options.json);
  if (to.list.chosen()) return list(*session, options.json, words.pull.quiet);
  if (to.inspect.chosen()) return inspect(*session, words.pull.reference, options.json);
  if (to.remove.chosen()) return remove(*session, words.references);
  if (to.collect.chosen()) return collect(*session, options.json);
  if (to.send_out.chosen()) return export_image(*session, words.pull.reference, words.target);
  return build(*session, words, command, options.json);
}

}  // namespace caisson::cli
