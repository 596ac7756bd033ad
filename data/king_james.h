// Defines king_james(), the text of the King James Bible as Debian's package bible-kjv-text brings
// it: 4.4 MB of English, a verse a line, for language models.
//
//   Ge1:1 In the beginning God created the heaven and the earth.
//
// The file, whose numbers have 4 bytes, the highest first:
//
//   byte 0       "EC02" and "Compressed Data File", then zeros
//   byte 0x54    bytes of a window of the text; number n of windows
//   byte 0x5c    n + 1 offsets: where the windows' codes begin, and where the last ones end
//   after these  1f 9d 90, the header of compress(1); the codes (data/lzw.h), window by window
#pragma once

#include <string>
#include <string_view>

namespace capstan::data {

/// Where Debian's package bible-kjv-text puts the file.
inline constexpr const char* kKingJamesFile = "/usr/lib/bible.data";

/// Whether a file that begins so is of this format.
bool is_king_james(std::string_view bytes);

/// Throws IoError, naming the file, if it is missing, damaged or something else.
std::string king_james(const std::string& path = kKingJamesFile);

}  // namespace capstan::data
