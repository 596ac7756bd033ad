#include "distributed/gradient_norm.h"

#include <algorithm>

namespace capstan::distributed {

ExactSum sum_over(const ExactSum& mine, Communicator& communicator, std::string_view tag) {
  if (communicator.size() == 1) return mine;
  ExactSum::Digits digits = mine.digits();
  const Tensor words = from_vector<int64_t>({digits.begin(), digits.end()}, {std::ssize(digits)});
  communicator.all_reduce(words, Reduce::sum, tag).wait();
  std::copy_n(words.data<int64_t>(), digits.size(), digits.begin());
  ExactSum all;
  all.add(digits);
  return all;
}

}  // namespace capstan::distributed
