// image/export.h — an image as one tar that others read: an OCI layout and a docker archive at once
// (oci-layout, index.json, manifest.json, blobs/…). The same image gives the same bytes.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "image/image.h"

namespace caisson::image {

using TarSink = std::function<awaitable<Result<void>>(std::span<const std::byte> bytes)>;

// How many bytes export_image() will write: for a Content-Length.
[[nodiscard]] Result<std::uint64_t> export_size(const PulledImage& image);
// Each blob is verified before its first byte is sent. `sink` waits while its peer is slow.
awaitable<Result<void>> export_image(BlobStore& store, PulledImage image, TarSink sink);

}  // namespace caisson::image
