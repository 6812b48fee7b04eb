// guest/layer/sanitise.h — anybody's archive, read once and written anew as a plain tar that can be
// unpacked anywhere: folders, files and links that stay inside, under names that lead nowhere else,
// in modes that their owner can work with. It is made for init's TarIn, so it stays within what
// that takes, in depth and in what may replace what.
//
// An absolute name or a ".." refuses the archive as a whole; a member that is merely of no use is
// left out and counted. Of one name:
//   a file, then a file       the last one counts; the archive written holds both
//   a folder, then a folder   likewise, its mode and time
//   a file, then a folder     the folder counts
//   a link, then anything     the link stays
//   anything, then a link     the first one stays
//   a folder, then a file     the folder stays
// What lies below a link or a file is left out. Nothing is told until all is written, and then each
// path once, as it is at the end, in the order of their bytes: a folder before what is in it.
#pragma once

#include "guest/layer/archive_stream.h"
#include "guest/layer/layer.h"

namespace caisson::layer {

// Of a member's path: what stays of a path's usual limit when it comes to lie in some folder.
inline constexpr std::size_t kMemberBytesMax = 3072;
inline constexpr std::size_t kMemberDepthMax = 64;  // as TarIn has it
// Steps in the target of a link: each one is looked up.
inline constexpr std::size_t kTargetStepsMax = 256;

// The name of a member as a path below the root, "" for the root itself. Fails where the whole
// archive is to be refused.
[[nodiscard]] Result<std::string> clean_member(const std::string& name);
// The permissions that a member gets.
[[nodiscard]] std::uint32_t tame_mode(std::uint32_t mode, bool folder) noexcept;

// The whole job, from the descriptor to the output, which must be empty.
[[nodiscard]] Result<wire::LayerDone> sanitise_job(const Work& work, Meter& meter);

}  // namespace caisson::layer
