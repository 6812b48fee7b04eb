#include "control/image_library.h"

#include <algorithm>

namespace caisson::control {

void ImageLibrary::put(ImageRecord record) {
  std::pair<std::string, std::string> key{record.tenant, record.view.reference};
  records_[std::move(key)] = std::move(record);
}

const ImageRecord* ImageLibrary::find(std::string_view tenant,
                                      const image::Reference& reference) const {
  const auto exact = records_.find(std::pair{std::string(tenant), reference.str()});
  if (exact != records_.end()) return &exact->second;
  if (!reference.digest()) return nullptr;
  for (const auto& [key, record] : records_) {
    if (key.first != tenant || record.view.digest != reference.digest()->str()) continue;
    const auto other = image::Reference::parse(key.second);
    if (other && other->registry() == reference.registry() &&
        other->repository() == reference.repository())
      return &record;
  }
  return nullptr;
}

bool ImageLibrary::remove(std::string_view tenant, const std::string& reference) {
  return records_.erase(std::pair{std::string(tenant), reference}) > 0;
}

std::vector<ImageView> ImageLibrary::list(std::string_view tenant) const {
  std::vector<ImageView> out;
  for (const auto& [key, record] : records_) {
    if (key.first == tenant) out.push_back(record.view);
  }
  return out;
}

std::size_t ImageLibrary::count(std::string_view tenant) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(records_, [&](const auto& one) { return one.first.first == tenant; }));
}

std::set<std::string> ImageLibrary::layers() const {
  std::set<std::string> out;
  for (const auto& [key, record] : records_) out.insert(record.stack.begin(), record.stack.end());
  return out;
}

std::set<std::string> ImageLibrary::blobs() const {
  std::set<std::string> out;
  for (const auto& [key, record] : records_) out.insert(record.blobs.begin(), record.blobs.end());
  return out;
}

void ImageLibrary::mark_broken(const std::set<std::string>& there) {
  for (auto& [key, record] : records_) {
    record.broken = !std::ranges::all_of(
        record.stack, [&](const std::string& layer) { return there.contains(layer); });
  }
}

std::vector<const ImageRecord*> ImageLibrary::broken() const {
  std::vector<const ImageRecord*> out;
  for (const auto& [key, record] : records_) {
    if (record.broken) out.push_back(&record);
  }
  return out;
}

Result<std::string> layer_name(const image::Digest& blob, const image::Digest& diff_id) {
  if (diff_id.empty() || diff_id.algorithm() != image::Algorithm::Sha256)
    return failure(Errc::Unsupported,
                   "image: a layer is named by sha512; this version unpacks sha256 only");
  if (blob.empty()) return failure(Errc::Internal, "image: a layer without a digest");
  image::Hasher hasher;
  hasher.update(blob.str());
  hasher.update(" ");
  hasher.update(diff_id.str());
  return "sha256-" + std::string(hasher.finish().hex());
}

}  // namespace caisson::control
