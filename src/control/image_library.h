// control/image_library.h — which images each tenant has. Pure: records in memory.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "control/file_records.h"
#include "image/reference.h"

namespace caisson::control {

class ImageLibrary {
 public:
  void put(ImageRecord record);
  // By the reference that it was got by; or, for one that names a digest, by repository and
  // content.
  [[nodiscard]] const ImageRecord* find(std::string_view tenant,
                                        const image::Reference& reference) const;
  bool remove(std::string_view tenant, const std::string& reference);
  [[nodiscard]] std::vector<ImageView> list(std::string_view tenant) const;
  [[nodiscard]] std::size_t count(std::string_view tenant) const;
  [[nodiscard]] bool empty() const noexcept { return records_.empty(); }

  // What must stay because some image refers to it.
  [[nodiscard]] std::set<std::string> layers() const;
  [[nodiscard]] std::set<std::string> blobs() const;
  // Marks those that need a layer which is not `there`.
  void mark_broken(const std::set<std::string>& there);
  [[nodiscard]] std::vector<const ImageRecord*> broken() const;

 private:
  std::map<std::pair<std::string, std::string>, ImageRecord, std::less<>> records_;
};

// The name of an unpacked layer in the launcher's store. A diff_id is what an image says of itself,
// and anybody can say that of another's layer: only with the blob, whose bytes we hashed, is it a
// reason not to unpack again. Only SHA-256 is told by the unpacker.
[[nodiscard]] Result<std::string> layer_name(const image::Digest& blob,
                                             const image::Digest& diff_id);

}  // namespace caisson::control
