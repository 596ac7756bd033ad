// Defines read_text(), a whole text in memory.
#pragma once

#include <string>

namespace capstan::data {

/// The bytes of a file: plain, gzip, or in the format of Debian's bible-kjv-text (king_james.h).
/// Throws IoError, naming the file, if it is missing or damaged.
std::string read_text(const std::string& path);

}  // namespace capstan::data
