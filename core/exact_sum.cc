#include "core/exact_sum.h"

#include <limits>

namespace capstan {

void ExactSum::carry() {
  for (int i = 0; i + 1 < kDigits; ++i) {
    digits_[i + 1] += digits_[i] >> 32;  // rounds down, so what stays is not negative
    digits_[i] &= 0xffffffff;
  }
  uncarried_ = 0;
}

ExactSum::Digits ExactSum::digits() const {
  ExactSum copy = *this;
  copy.carry();
  return copy.digits_;
}

void ExactSum::add(const Digits& digits) {
  carry();
  for (size_t i = 0; i < digits.size(); ++i) digits_[i] += digits[i];
  carry();
}

double ExactSum::value() const {
  Digits digits = this->digits();
  if (digits[kDigits] > 0) return std::numeric_limits<double>::quiet_NaN();
  const bool negative = digits[kDigits - 1] < 0;
  if (negative) {
    ExactSum opposite;
    for (int i = 0; i < kDigits; ++i) opposite.digits_[i] = -digits[i];
    digits = opposite.digits();
  }
  int top = kDigits - 1;
  while (top > 0 && digits[top] == 0) --top;
  // Three digits hold more than a mantissa; whether anything follows decides ties.
  unsigned __int128 leading = 0;
  for (int i = top; i > top - 3; --i) {
    leading = leading << 32 | static_cast<uint64_t>(i >= 0 ? digits[i] : 0);
  }
  bool rest = false;
  for (int i = 0; i <= top - 3; ++i) rest |= digits[i] != 0;
  const double value = std::ldexp(static_cast<double>(leading | rest), 32 * (top - 2) - 1074);
  return negative ? -value : value;
}

}  // namespace capstan
