#include "engine/link/file_entry.h"

namespace caisson::engine {

FileEntry entry_of(const wire::EntryView& view) {
  FileEntry entry;
  entry.name = text_of(view.name);
  entry.target = text_of(view.target);
  entry.type = static_cast<wire::EntryType>(view.body.type);
  entry.mode = view.body.mode & 07777U;
  entry.uid = view.body.uid;
  entry.gid = view.body.gid;
  entry.size = view.body.size;
  entry.mtime_ns = view.body.mtime_ns;
  entry.ctime_ns = view.body.ctime_ns;
  entry.inode = view.body.inode;
  entry.links = view.body.links;
  entry.depth = view.body.depth;
  return entry;
}

}  // namespace caisson::engine
