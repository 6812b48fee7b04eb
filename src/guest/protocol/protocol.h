// guest/protocol — the words that the host and caisson-init say to each other. Start here: this
// header is all of it; codec.h reads and writes it. Freestanding: fixed structs and stdint only,
// compiled into both sides. Never here: memory allocation, libstdc++, descriptors.
//
// Two sockets reach init, both made before it runs:
//
//   kFdControl  SOCK_SEQPACKET to the launcher, for life. First message: InitConfig. Later: Attach
//   (with the end of a
//               new SOCK_STREAM as SCM_RIGHTS), Rules, EndProcesses and Shutdown. When it closes,
//               the launcher is gone and init ends the sandbox. init writes ControlFailed, once,
//               and Held.
//   kFdStream   SOCK_STREAM to whoever drives the sandbox. Frames in both directions, described
//   below. A new Attach
//               replaces it; what was half read or half written is forgotten and init starts with
//               Hello again.
//
// A frame is a FrameHeader and `size` bytes. `id` names a process or an operation; the host picks
// it (not 0) and may use it again after Forget, or after Done/Failed of an operation. Numbers are
// little-endian, structs have no padding.
//
// Flow control. Nobody sends Data beyond the credit the other side gave for that (id, stream): the
// host gives it with Start/Op (`window_bytes`) and Credit frames, init gives kInputWindow per input
// at the start and Credit as it consumes. So one slow reader never holds up another, and both
// sides' buffers are bounded.
//
// A large Write need not go through init. With kOpSocket its bytes come by a stream socket of their
// own, whose reading end travels as SCM_RIGHTS beside the Op frame: sent in one message with
// exactly that frame, so init knows whose it is. Any other descriptor is closed unseen. The
// socket's end alone means nothing, since it also closes when a host dies half-way: the file takes
// its place only after Commit, with the count that the host has sent.
//
// A process's output has offsets, from 0 at its start. Data of init begins with DataHeader: the
// offset of the first byte. Bytes that the ring had to drop show as a gap between the end of one
// Data and the offset of the next.
//
//   Mode::Stream   credit moves the bytes; a full ring stops the process (back-pressure) while
//   somebody is attached,
//                  overwrites the oldest bytes while nobody is.
//   Mode::Collect  nothing is sent until the process ends; init keeps the first and the last
//   `ring_bytes / 2` bytes of
//                  each stream, drains the rest, then sends what it kept and Exited. Credit is not
//                  needed.
//
// The end of a process. Exited is sent once to each connection that is attached (Mode::Collect
// attaches its starter): when the process is reaped *and* all that was in its pipes at that moment
// is in the ring. `end_offset` says how many bytes each stream had by then: a caller who does not
// want to wait for background children that hold the pipe is complete when it has read that far.
// Eof follows per stream when the last holder has closed it (not in Mode::Collect: there Exited is
// the last frame).
//
// Carried. Where another kernel lies between, no descriptor can follow a sandbox that runs: init
// has one stream for life (as 0 and 1) and no control socket. caisson-carrier stands at the other
// end, plays init towards everybody, and says as frames of its own what else init has to hear:
//
//   Configure       a control message, Config or Rules, as it is. The first frame. Done
//   Reset           a new server: init forgets the old one and answers Resumed, then Hello. Nothing
//                   that the carrier reads before Resumed has its token is the new server's
//   Dropped         the other way: what the server said was no frame. init takes nothing more of a
//                   server before the next Reset
//   Hold, Release   as the words of the control socket. Hold is answered by Done, and nothing
//   follows
//                   it: a copy of the guest that is made then lies between two frames on both
//                   sides, and goes on with Configure (Config: a new nonce, other rules) or Release
//   EndProcesses    as the word of the control socket
//   Identity        a new host name, and entropy that no copy shares. Done
//   Open…Datagram   connections of tenants to the way out, and of the host to a port inside. Their
//   ids
//                   have kCarriedId; the server never sees them
//
// A carried connection is opened by Open, by either side: init for a tenant, the carrier for the
// host. Opened says that it stands and how much may be sent; Bytes, Window and End (no more Bytes)
// follow in both directions. Close is the last word of a side about an id, sent once; an id is free
// when both have said it.
//
// init does not repair a peer: bytes that are no frame, a frame of the wrong size, or Data beyond
// the credit close the stream, and init waits for the next Attach. A well-formed request that
// cannot be done is answered by Failed.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace caisson::wire {

constexpr uint32_t kVersion = 6;

constexpr int kFdControl = 3;
constexpr int kFdStream = 4;
constexpr int kFdCgroup = 5;  // directory of the sandbox's v2 group; absent where the tier has none
constexpr int kFdOom =
    6;  // memory.events (v2) or memory.oom_control (v1), readable; absent without a memory limit
// What lies behind the root, where there is something (kConfigBase): the rule of the scopes' domain
// hangs there, because the root may become another one. init closes it before the first tenant.
constexpr int kFdBase = 7;
// Of caisson-carrier, which makes no groups: its end of the stream that init has for life.
constexpr int kFdCarried = 5;

constexpr uint32_t kPayloadMax = 256 * 1024;  // of one frame
constexpr uint32_t kDataMax = 32 * 1024;      // bytes of data in one Data frame that init sends
constexpr uint32_t kInputWindow = 64 * 1024;  // first credit for stdin and uploads
constexpr uint32_t kControlMax = 64 * 1024;   // of one control message
constexpr uint32_t kArgsMax = 4096;           // strings in argv and in env, each
constexpr uint32_t kGroupsMax = 32;
constexpr uint32_t kPathMax = 4096;
constexpr uint32_t kProcessesMax = 256;  // known at once, ended ones that nobody forgot included
constexpr uint32_t kOperationsMax = 64;  // at once
constexpr uint32_t kRingBytesMin = 4 * 1024;
constexpr uint32_t kRingBytesMax = 8 * 1024 * 1024;  // of one stream
constexpr uint32_t kRingSumMax = 64 * 1024 * 1024;   // of all streams of a sandbox
constexpr uint32_t kNonceBytes = 16;
constexpr uint32_t kFailureTextMax = 256;
constexpr uint32_t kCarriedId = 1U << 31;       // in the ids of carried connections
constexpr uint32_t kCarriedHostId = 1U << 30;   // also in those that the carrier opens
constexpr uint32_t kCarriedMax = 512;           // connections of tenants at once
constexpr uint32_t kCarriedHostMax = 64;        // of the host to ports inside
constexpr uint32_t kCarriedWindow = 64 * 1024;  // bytes under way in one direction of one of them
constexpr uint32_t kQuestionsMax = 64;          // datagrams to the resolver that wait for an answer
constexpr uint32_t kDatagramMax = 4096;
constexpr uint32_t kHostnameMax = 64;
constexpr uint32_t kSeedBytes = 64;
constexpr uint32_t kCarriedPortsMax = 32;

// ------------------------------------------------------------------------------------ frames

struct FrameHeader {
  uint32_t size;    // payload bytes that follow, at most kPayloadMax
  uint16_t kind;    // Kind
  uint16_t stream;  // Stream of Data, Eof, Credit; Kind of the request that Done or Failed answers;
                    // else 0
  uint32_t id;
};
static_assert(sizeof(FrameHeader) == 12);

enum class Stream : uint16_t {
  Input = 0,   // stdin; bytes of Write and TarIn, strings of Pack, Find and Grep
  Output = 1,  // stdout or the terminal; bytes of Read, TarOut and Pack
  Error = 2,   // stderr
};

enum class Kind : uint16_t {
  // both directions
  Data = 1,    // host: bytes. init: DataHeader, bytes
  Eof = 2,     // no payload: no more Data on this stream
  Credit = 3,  // CreditBody

  // host to init
  Start = 16,  // StartBody, cwd, argv…, env…, groups…
  Signal,      // SignalBody
  Resize,      // ResizeBody
  Attach,  // AttachBody: from now on send this process's output to this connection. Done's `bytes`
           // is the window
           // for its input
  Detach,  // no payload: stop sending; the ring goes on
  Forget,  // no payload: drop an ended process's record and ring (Failed EBUSY while it runs)
  List,    // no payload; answered by ListEntry… and Done with the request's id
  Op,      // OpBody, path, path2
  Cancel,  // no payload: end operation `id`; answered by Failed ECANCELED unless it was done
           // already
  Ping,    // any payload up to 64 bytes; answered by Pong with the same
  Shutdown,  // no payload: kill everything, then exit
  Reset,     // ResetBody. Of a carrier alone
  Commit,    // CommitBody: all bytes of a Write with kOpSocket are on their way

  // carrier to init
  Configure = 40,  // a control message
  Identity,        // IdentityBody, host name
  Hold,            // no payload
  Release,         // no payload
  EndProcesses,    // no payload

  // both directions of a carried stream
  Open = 48,  // OpenBody
  Opened,     // CreditBody
  Bytes,      // at most kDataMax
  Window,     // CreditBody
  End,        // no payload
  Close,      // CloseBody
  Datagram,   // DatagramBody, at most kDatagramMax. The answer has the id of its question

  // init to host
  Hello = 64,  // HelloBody
  Started,     // StartedBody
  Exited,      // ExitedBody
  Done,        // DoneBody: an operation, List, Signal, Resize, Attach, Detach or Forget worked
  Failed,      // FailedBody, text: it did not
  ListEntry,   // ListEntryBody, argv[0]
  Entry,       // EntryBody, name, link target: Stat and List of files
  Event,       // EventBody, name: Watch
  Pong,
  Match,  // MatchBody, name, text: Grep
  // init to carrier
  Resumed = 96,  // ResetBody: the token of the Reset that it answers
  Dropped,       // no payload
};

struct DataHeader {
  uint64_t offset;
};

struct CreditBody {
  uint32_t bytes;
  uint32_t reserved;
};

struct CommitBody {
  uint64_t bytes;
};

struct HelloBody {
  uint32_t version;
  uint32_t reserved;
  uint8_t nonce[kNonceBytes];  // as InitConfig gave it: proves which sandbox answers
};

// --------------------------------------------------------------------------------- processes

enum class Mode : uint32_t { Stream = 0, Collect = 1 };

enum StartFlags : uint32_t {
  kStartPty = 1U << 0,  // stdin, stdout and stderr are a new terminal; all output is Stream::Output
  kStartStdin = 1U << 1,       // stdin is a pipe fed by Data; without it stdin is /dev/null
  kStartMergeError = 1U << 2,  // stderr is the same pipe as stdout: true order
  kStartKillTree =
      1U << 3,  // when the process ends, what is left of its tree is killed before Exited is sent
  kStartAutoForget =
      1U << 4,             // Forget itself once Exited and each Eof were sent to an attached reader
  kStartAttach = 1U << 5,  // the starter is attached from the first byte
  kStartQuiet = 1U << 6,   // no Started frame: one round trip less to wait for
  // The only process of its sandbox: it gets no group of its own. Whoever sees kExitTreeKilled ends
  // the sandbox, whose group leaves nobody out.
  kStartSole = 1U << 7,
  // Exited is sent when nobody holds stdout or stderr any more, not only when the process has
  // ended; its deadline holds until then. Not with kStartKillTree or kStartPty.
  kStartHold = 1U << 8,
};

struct StartBody {
  uint32_t flags;
  uint32_t mode;  // Mode
  uint32_t uid;
  uint32_t gid;
  uint32_t timeout_ms;  // 0: none. At the deadline SIGTERM, after grace_ms the whole tree is killed
  uint32_t grace_ms;    // 0: killed at once
  uint32_t ring_bytes;  // per stream; clamped to kRingBytesMin…kRingBytesMax
  uint32_t window_bytes;  // first credit of each output stream
  uint16_t rows;
  uint16_t columns;
  uint32_t cwd_size;
  uint32_t argc;         // at least 1; each string is u32 size and bytes, no NUL
  uint32_t envc;         // the same; "NAME=value"
  uint32_t group_count;  // u32 each
  uint32_t reserved;
};

struct StartedBody {
  int32_t pid;  // in the guest's pid namespace
  uint32_t reserved;
};

enum ExitFlags : uint32_t {
  kExitTimedOut = 1U << 0,
  kExitOomKilled = 1U << 1,   // the sandbox's memory limit killed a process while this one ran
  kExitTreeKilled = 1U << 2,  // something of its tree was still alive and was killed
  kExitCoreDumped = 1U << 3,
};

struct ExitedBody {
  int32_t code;    // exit status, or -1 when a signal ended it
  int32_t signal;  // 0 when it exited
  uint32_t flags;  // ExitFlags
  uint32_t reserved;
  uint64_t wall_us;
  uint64_t user_us;  // of the process and what it waited for
  uint64_t system_us;
  uint64_t tree_cpu_us;  // of everything in its group so far, daemons too; 0 where the tier has no
                         // groups
  uint64_t peak_rss_kib;
  uint64_t end_offset[2];  // Stream::Output, Stream::Error
  uint64_t lost[2];        // bytes that were dropped before anybody read them
};

struct SignalBody {
  uint32_t number;  // 1…64
  uint32_t target;  // SignalTarget
};
enum class SignalTarget : uint32_t {
  Process = 0,  // the one process
  Foreground =
      1,     // the foreground group of its terminal; the process's own group where it has none
  Tree = 2,  // everything it started, daemons included (SIGKILL: by its group, at once)
};

struct ResizeBody {
  uint16_t rows;
  uint16_t columns;
  uint32_t reserved;
};

struct AttachBody {
  uint64_t
      offset[2];  // where to begin on Output and Error; older bytes that are gone show as a gap
  uint32_t window_bytes;
  uint32_t reserved;
};

enum class ProcessState : uint32_t { Running = 0, Ended = 1 };

struct ListEntryBody {
  uint32_t process;  // its id
  int32_t pid;
  uint32_t state;  // ProcessState
  uint32_t flags;  // StartFlags it was started with
  uint64_t age_us;
  uint64_t begin[2];  // oldest offset the ring still holds
  uint64_t end[2];    // one past the newest
  ExitedBody exited;  // zero while it runs
  uint32_t name_size;
  uint32_t reserved;
};

// ------------------------------------------------------------------------------------- files

enum class OpKind : uint32_t {
  Stat = 1,  // Entry (name empty), Done
  List,      // Entry… (names relative to path), Done. kOpRecursive goes down
  Read,      // Data…, Done. offset and length; length 0: to the end. Regular files only
  Write,   // host sends Data… and Eof; then Done. A new file takes the old one's place in one step,
           // or none does
  Mkdir,   // kOpParents: like mkdir -p
  Move,    // path to path2; kOpReplace: over an existing file
  Remove,  // kOpRecursive for folders with content
  Watch,   // Event… until Cancel; the first has mask 0 and no name: from here on nothing is missed.
           // kOpRecursive watches sub-folders, new ones too
  TarOut,  // path, a file or folder, as a POSIX tar stream: Data…, Done
  TarIn,   // host sends a tar stream as Data… and Eof; unpacked below path, then Done. kOpTell: an
           // Entry for each thing it made, as it is once it is made
  Pack,    // host sends names, relative to path, each ended by a NUL, as Data… and Eof; those that
           // are there come as a tar stream: Data…, Done
  Find,    // host sends a pattern and the names to prune, each ended by a NUL, as Data… and Eof;
           // Entry… of what matches, names relative to path, then Done
  Grep,    // host sends a pattern, a pattern for file names (may be empty) and the names to prune,
           // likewise; Match… (at most `length`), then Done, whose count is 1 when there were more
           // and whose bytes is the number of files that could not be read
  Resolve,  // Entry whose name is where path leads: every link and ".." followed, and from the
            // first name on that is not there taken by its words; then Done
  Ports,    // TCP ports where somebody listens, on a local address or on every one: two bytes each,
            // the lower first, at most kPortsMax, as Data; then Done. path is "/"
};

constexpr uint32_t kPortsMax = 1024;

constexpr uint32_t kNamesBytesMax = 8 * 1024 * 1024;  // that a host may send to Pack
constexpr uint32_t kPatternBytesMax = 64 * 1024;      // to Find and Grep, all strings together
constexpr uint32_t kMatchTextMax = 16 * 1024;  // of a line that Grep shows; longer ones are cut

enum OpFlags : uint32_t {
  kOpParents = 1U << 0,  // make missing parent folders (Write, Mkdir, TarIn, Move)
  kOpRecursive = 1U << 1,
  kOpReplace = 1U << 2,
  kOpNoFollow = 1U << 3,   // Stat: of the link itself
  kOpExclusive = 1U << 4,  // Write: EEXIST when there is one
  kOpSocket = 1U << 5,     // Write: the bytes come by the socket beside this frame, then Commit
  kOpTell = 1U << 6,       // TarIn
  // TarIn, List, Pack: a file or folder that its owner, the guest's user, has closed to himself is
  // opened: a folder for good, a file while it is read.
  kOpOpenUp = 1U << 7,
  kOpNoLinks = 1U << 8,  // Read, Write: ELOOP when a link is anywhere on the way
  kOpAppend = 1U << 9,   // Write: to the end of the file that is there; not in one step
};

// Done inside, in a child with the guest user's ids, the guest's Landlock rules and no capability.
struct OpBody {
  uint32_t op;  // OpKind
  uint32_t flags;
  uint32_t uid;
  uint32_t gid;
  uint32_t mode;          // of a new file or folder; 0: 0644 and 0755
  uint32_t window_bytes;  // first credit for Data that init sends
  uint64_t offset;
  uint64_t length;
  uint32_t path_size;  // absolute, at most kPathMax, no NUL
  uint32_t path2_size;
};

enum class EntryType : uint32_t { File = 1, Folder, Link, Fifo, Socket, Device, Other };

struct EntryBody {
  uint32_t type;  // EntryType
  uint32_t mode;  // permission bits, 07777
  uint32_t uid;
  uint32_t gid;
  uint64_t size;
  int64_t mtime_ns;
  int64_t ctime_ns;
  uint64_t inode;
  uint32_t links;
  uint32_t depth;  // of a recursive List, 0 for the folder's own entries
  uint32_t name_size;
  uint32_t target_size;  // of a link
};

enum EventMask : uint32_t {
  kEventCreated = 1U << 0,
  kEventChanged = 1U << 1,  // content was written and closed, or attributes changed
  kEventRemoved = 1U << 2,
  kEventMovedFrom = 1U << 3,
  kEventMovedTo = 1U << 4,
  kEventOverflow = 1U << 5,  // events were lost: look again
  kEventFolder = 1U << 6,    // the name is a folder
};

struct EventBody {
  uint32_t mask;
  uint32_t cookie;     // equal for the two halves of a move
  uint32_t name_size;  // relative to the watched path
  uint32_t reserved;
};

struct MatchBody {
  uint64_t line;       // from 1
  uint32_t name_size;  // relative to path; empty: path itself
  uint32_t text_size;
};

struct DoneBody {
  uint64_t bytes;
  uint64_t count;  // entries, files
};

enum class Step : uint32_t {  // where it failed
  None = 0,
  Request,  // the frame is malformed or names something that is not there
  Limit,    // one of the kMax values above
  Pipe,
  Group,
  Fork,
  Session,
  Stdio,
  Rlimit,
  Ids,
  Cwd,
  Landlock,
  Seccomp,
  Exec,
  Resolve,  // a path
  Io,
  Archive,  // the tar stream
  Pattern,  // of Find or Grep
  Network,  // kConfigCarryNetwork
};

struct FailedBody {
  int32_t sys_errno;
  uint32_t step;  // Step
  uint32_t text_size;
  uint32_t reserved;
};

// ----------------------------------------------------------------------------------- carried

struct ResetBody {
  uint8_t token[kNonceBytes];
};

struct IdentityBody {
  uint8_t seed[kSeedBytes];
  uint32_t hostname_size;  // at most kHostnameMax; 0: it stays
  uint32_t reserved;
};

enum class Family : uint16_t { V4 = 4, V6 = 6 };

struct Endpoint {
  uint8_t address[16];  // V4: the first four, the others 0
  uint16_t port;
  uint16_t family;  // Family
};

struct OpenBody {
  Endpoint to;
  uint32_t window;  // of the bytes that come back
};

struct CloseBody {
  int32_t sys_errno;  // 0: both directions had come to their end
  uint32_t reserved;
};

struct DatagramBody {
  Endpoint to;
  uint32_t reserved;
};

// ----------------------------------------------------------------------------------- control

enum class ControlKind : uint32_t {
  Config = 1,
  Attach = 2,
  Shutdown = 3,
  Rules = 4,         // as Config, of which init takes the rules alone: the root is another one now
  EndProcesses = 5,  // kill whatever was started for anybody
  Hold = 6,          // say Held, and do nothing more until Rules or Release comes
  Release = 7,
  Identity = 8,  // to a carrier: ControlIdentity, host name. Answered by Renewed
  Connect = 9,  // to a carrier: ControlConnect, and a stream socket that becomes a connection to it
  // To a carrier that has said Held, with a stream socket: init goes on at the other end of that
  // one, in another kernel that has its memory.
  Carry = 10,
  Failed = 64,  // of init, as ControlFailed
  Held = 65,    // of init
  Renewed = 66  // of a carrier: ControlRenewed
};

struct ControlHeader {
  uint32_t version;
  uint32_t kind;  // ControlKind
};

enum ConfigFlags : uint32_t {
  kConfigLandlock = 1U << 0,       // required: init fails without it
  kConfigScopeSockets = 1U << 1,   // Landlock's abstract-socket scope too
  kConfigGroups = 1U << 2,         // kFdCgroup is there
  kConfigOom = 1U << 3,            // kFdOom is there
  kConfigSingleId = 1U << 4,       // rootless with one id: no setgroups, no change of ids
  kConfigBase = 1U << 6,           // kFdBase is there
  kConfigRaiseOomScore = 1U << 5,  // tenants get oom_score_adj 500, so that init is never the first
  kConfigRootCapabilities = 1U << 7,  // a tenant with id 0 has power over the other ids inside
  kConfigCarryNetwork = 1U << 8,  // carried: tenants reach the way out through init and the carrier
};

enum class Access : uint32_t {
  Read = 1,
  Write = 2,
  Device = 3
};  // Read includes execute; Device: open and ioctl

struct LandlockRule {  // followed by the path
  uint32_t access;     // Access
  uint32_t path_size;
};

struct InitConfig {  // after ControlHeader; followed by filter_count × 8 bytes of BPF, then
                     // rule_count rules, then port_count × u16: kConfigCarryNetwork, where
                     // tenants' connections to any address of the way out are taken
  uint32_t flags;
  uint32_t filter_count;  // 0: no seccomp (only tests of other walls ask for it)
  uint32_t rule_count;
  uint32_t open_files;  // RLIMIT_NOFILE of tenants
  uint32_t processes;   // RLIMIT_NPROC of tenants; 0: leave as it is
  uint32_t core_bytes;  // RLIMIT_CORE
  uint64_t file_bytes;  // RLIMIT_FSIZE; 0: leave as it is
  uint32_t port_count;  // at most kCarriedPortsMax
  uint16_t proxy_port;  // kConfigCarryNetwork: where the proxy is found beside its own; 0: nowhere
  uint16_t reserved;
  uint8_t nonce[kNonceBytes];
};

struct ControlFailed {  // init could not begin
  ControlHeader header;
  int32_t sys_errno;
  uint32_t step;  // Step
};

struct ControlIdentity {
  ControlHeader header;
  IdentityBody body;
};

// What of an Identity could be done; the bytes of its Done.
enum IdentityDone : uint32_t {
  kIdentityHostname = 1U << 0,
  kIdentityMachineId = 1U << 1,
  kIdentitySeed = 1U << 2,
};

struct ControlRenewed {
  ControlHeader header;
  uint32_t done;  // IdentityDone
  uint32_t reserved;
};

struct ControlConnect {
  ControlHeader header;
  uint16_t port;
  uint16_t family;  // Family: of the loopback address
  uint32_t reserved;
};

static_assert(sizeof(StartBody) == 56);
static_assert(sizeof(ExitedBody) == 88);
static_assert(sizeof(OpBody) == 48);
static_assert(sizeof(EntryBody) == 64);
static_assert(sizeof(MatchBody) == 16);
static_assert(sizeof(InitConfig) == 56);
static_assert(sizeof(OpenBody) == 24);
static_assert(sizeof(DatagramBody) == 24);

}  // namespace caisson::wire
