#include "distributed/pipeline/link.h"

#include <set>

#include "autograd/node.h"

namespace capstan::distributed::pipeline {

void Link::send(const Tensors& tensors, const std::string& tag) {
  if (tensors.empty()) return;
  pair_->group([&] {
    for (const Tensor& tensor : tensors) {
      const Tensor elements = tensor.is_contiguous() ? detach(tensor) : dense_copy(tensor);
      pair_->send(elements, 1 - pair_->rank(), tag);
    }
  });
}

void Link::expect(std::vector<Crossing> tensors, std::string tag) {
  expected_.push_back({std::move(tensors), std::move(tag)});
}

void Link::post_next() {
  posted_.reset();
  if (expected_.empty()) return;
  const auto [tensors, tag] = std::move(expected_.front());
  expected_.pop_front();
  Posted& next = posted_.emplace();
  for (const auto& [shape, dtype, _] : tensors) next.tensors.push_back(empty(shape, {dtype}));
  if (tensors.empty()) return;
  next.work = pair_->group([&] {
    for (const Tensor& tensor : next.tensors) pair_->recv(tensor, 1 - pair_->rank(), tag);
  });
}

Tensors Link::receive() {
  if (!posted_) post_next();
  posted_->work.wait();
  Tensors tensors = std::move(posted_->tensors);
  post_next();
  return tensors;
}

std::vector<std::unique_ptr<Communicator>> connect(Communicator& stages,
                                                   const std::vector<Ends>& pairs) {
  std::vector<std::unique_ptr<Communicator>> links(pairs.size());
  std::set<size_t> left;
  for (size_t i = 0; i < pairs.size(); ++i) left.insert(i);
  while (!left.empty()) {  // a split serves all pairs that have no rank in common
    std::set<int> busy;
    std::vector<size_t> served;
    for (const size_t i : left) {
      if (busy.contains(pairs[i].from) || busy.contains(pairs[i].to)) continue;
      busy.insert({pairs[i].from, pairs[i].to});
      served.push_back(i);
    }
    int color = -1;
    for (const size_t i : served) {
      left.erase(i);
      if (pairs[i].from == stages.rank() || pairs[i].to == stages.rank()) {
        color = static_cast<int>(i);
      }
    }
    auto pair = stages.split(color);
    if (color >= 0) links[color] = std::move(pair);
  }
  return links;
}

}  // namespace capstan::distributed::pipeline
