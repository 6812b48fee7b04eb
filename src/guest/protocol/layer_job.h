// guest/protocol/layer_job.h — the words that the host and caisson-layer say to each other.
//
// caisson-layer works on layers: it unpacks an archive into a new one, packs one, makes one of
// several, compares two states, merges a third into them. What it reads is hostile, so it runs in a
// sandbox of its own, in init's place: the same descriptors 3 (control, whose first message is the
// InitConfig; it obeys the filter and the rules itself) and 4 (stream). It serves one job and ends.
//
// The host sends one JobHeader, a Job and its strings, in one message, with the job's descriptors
// beside it as SCM_RIGHTS. The answer is a sequence of JobHeaders with `size` bytes behind each:
// Progress and Entry in any number, then Done or Failed, once. Every byte of it is hostile to us.
//
// What it finds is laid out by the launcher, below kLayerRoot:
//   in/N        a layer as it lies on disk: folders that are its *parts*, and in each of these what
//               an overlay keeps in its writable side: files, whiteouts (a character device 0:0)
//               and folders marked opaque by user.overlay.opaque=y. N counts from 0, the topmost.
//   a, b, base  whole states, merged and read-only
//   a.in/N, b.in/N
//               the layers of these states that lie above what both share, as in/N
//   out         the new layer, empty; the only place that can be written
// A part is a folder of the root: kPartRoot is the root itself, kPartSystem + "usr" is /usr. Names
// with a dot, and others, are no parts and are left alone.
// Freestanding, as protocol.h is.
#pragma once

#include <stdint.h>

namespace caisson::wire {

constexpr uint32_t kLayerVersion = 2;
constexpr char kLayerRoot[] = "/layer";
constexpr char kPartRoot[] = "root";
constexpr char kPartSystem[] = "system";  // and the name of a top folder: "systemusr" is /usr
constexpr uint32_t kJobStringsMax = 16 * 1024;
constexpr uint32_t kLayerAnswerMax = 16 * 1024;  // bytes behind one header of an answer
constexpr uint32_t kLayerMessageMax = 1024;      // the text of a failure

enum class JobKind : uint32_t {
  Unpack = 1,  // descriptor 0: the archive, a regular file. A layer of an OCI image, plain, gzip or
               // zstd: whiteouts become an overlay's own
  Pack,        // descriptor 0: where in/0 goes as a plain tar, as an OCI image's layer has it
  Flatten,     // in/N into one layer; `opaque`: nothing lies below, whiteouts need not be kept
  Diff,        // what makes b out of a, as entries; with kJobStage the files of both, in out/a and
               // out/b, for a program that compares them
  Merge,       // what makes b out of base, put into out as a layer for the top of a
  Sanitise,    // descriptor 0: an archive from anybody, tar, plain or compressed. Descriptor 1: a
             // regular file that it is written to anew, as a plain tar of folders, files and links
             // that stay inside. Entry… Added, with `offset`. No folder of the layout is used
};

enum JobFlags : uint32_t {
  kJobOpaque = 1U << 0,   // Flatten: the result is the lowest layer
  kJobStage = 1U << 1,    // Diff
  kJobNoLinks = 1U << 2,  // Sanitise: symbolic links are left out
};

struct Job {
  JobKind kind;
  uint32_t flags;
  uint64_t bytes_max;    // written, or read from an archive after decompression; Failed beyond
  uint64_t entries_max;  // made or told
  uint32_t ratio_max;    // Unpack, Sanitise: decompressed bytes for each byte of the archive, after
                         // the first 16 MiB; 0: any
  uint32_t layers;       // how many in/N there are
  uint32_t a_layers;     // a.in/N
  uint32_t b_layers;     // b.in/N
  uint32_t prefix_size;  // Diff and Merge: only below this path, "workspace/src"; behind the Job
  uint32_t reserved;
};

enum class AnswerKind : uint32_t {
  Progress = 1,  // LayerProgress
  Entry,         // LayerEntry, the path
  Done,          // LayerDone
  Failed,        // LayerFailed, a text
};

struct JobHeader {
  uint32_t version;
  uint32_t kind;  // JobKind or AnswerKind
  uint32_t size;
};

struct LayerProgress {
  uint64_t bytes_in;
  uint64_t bytes_out;
  uint64_t entries;
};

enum class EntryKind : uint32_t {
  Added = 1,
  Modified,
  Removed,
  TypeChanged,  // a file became a folder, or the like
  Mode,         // only its mode or owner
  Conflict,     // Merge: changed on both sides, not alike; nothing is written then
};

struct LayerEntry {
  EntryKind kind;
  uint32_t mode;  // of b, or of a where it is removed; with the type's bits
  uint64_t size;
  uint64_t offset;  // Sanitise: of a file's bytes, or a link's target, in what was written. Each
                    // path is told once, as it is at the end, a folder before what is in it
  uint64_t path_size;
};

struct LayerDone {
  uint64_t bytes_in;   // read of the archive, or of files
  uint64_t bytes_out;  // written
  uint64_t entries;    // made or told
  uint64_t conflicts;  // Merge; Sanitise: entries that were left out
  uint8_t digest[32];  // Unpack: SHA-256 of the plain archive. Pack: of what was written
};

enum class LayerError : uint32_t {
  BadInput = 1,  // the archive or the job is not what it must be
  TooLarge,      // beyond a limit of the job
  NoSpace,       // the layer's own limit, or the disk
  Io,
};

struct LayerFailed {
  LayerError error;
  int32_t sys_errno;
};

static_assert(sizeof(Job) == 48 && sizeof(JobHeader) == 12 && sizeof(LayerDone) == 64);

}  // namespace caisson::wire
