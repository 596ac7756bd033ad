#include "nn/layers.h"

#include "core/raise.h"

namespace capstan::nn {

Dropout::Dropout(double p) : p(p) {
  if (!(p >= 0 && p < 1)) raise<ValueError>("[dropout] p must be in [0, 1), got {}", p);
}

}  // namespace capstan::nn
