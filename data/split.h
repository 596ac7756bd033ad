// Defines Split, the two halves that published data sets come in.
#pragma once

namespace capstan::data {

enum class Split { train, test };

}  // namespace capstan::data
