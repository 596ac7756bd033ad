// The checks of every collective, written for any communicator: collectives_test.cc runs them on
// ranks that are threads, collectives_mpi_test.cc under mpirun.
//
// A rank's input is a formula of its rank and the index, so every rank computes the expected result
// from all inputs, the slow way.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <span>
#include <vector>

#include "distributed/comm/communicator.h"
#include "distributed/comm/thread.h"

namespace capstan::distributed::testing {

// The algorithms that every communicator has.
inline std::span<const Algorithm> own_algorithms() {
  static_assert(std::end(kAlgorithms)[-1] == Algorithm::mpi);
  return std::span(kAlgorithms).first(std::size(kAlgorithms) - 1);
}

// Runs fn on ranks that share memory, and on ranks that act as if each had a host of its own (where
// that leaves anything to be shared).
inline void both_ways(int ranks, const std::function<void(Communicator&)>& fn,
                      CommOptions options = {}) {
  for (bool share : {true, false}) {
    CAPTURE(share);
    if (!share && ranks > 1 && options.all_reduce == Algorithm::shared_memory) continue;
    options.share_memory = share;
    run_ranks(ranks, fn, options);
  }
}

inline constexpr Reduce kReduces[] = {Reduce::sum,  Reduce::min,     Reduce::max,   Reduce::product,
                                      Reduce::mean, Reduce::bit_and, Reduce::bit_or};

inline bool has_reduce(Reduce op, Dtype dtype) {
  if (op == Reduce::mean) return is_floating(dtype);
  return (op != Reduce::bit_and && op != Reduce::bit_or) || !is_floating(dtype);
}

// Element i of a rank: small whole numbers, exact in every dtype, also after a sum or product.
inline double input(int rank, int64_t i) {
  return static_cast<double>((i * 7 + rank * 3 + i * rank) % 4);
}

inline double stored(Dtype dtype, double value) {
  if (dtype == Dtype::bfloat16) return BFloat16(static_cast<float>(value));  // for the mean
  if (dtype == Dtype::float16) return Float16(static_cast<float>(value));
  return dtype == Dtype::boolean ? value != 0 : value;
}

inline Tensor filled(Dtype dtype, int64_t count, const std::function<double(int64_t)>& value) {
  std::vector<double> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = value(i);
  const Tensor tensor = empty({count}, {.dtype = dtype});
  copy_elements(from_vector(values, {count}), tensor);
  return tensor;
}

inline Tensor input_of(int rank, Dtype dtype, int64_t count) {
  return filled(dtype, count, [&](int64_t i) { return input(rank, i); });
}

inline double reduced(Reduce op, Dtype dtype, int ranks, int64_t i) {
  double result = stored(dtype, input(0, i));
  for (int r = 1; r < ranks; ++r) {
    const double next = stored(dtype, input(r, i));
    if (op == Reduce::sum || op == Reduce::mean) result = stored(dtype, result + next);
    if (op == Reduce::bit_and) result = static_cast<int>(result) & static_cast<int>(next);
    if (op == Reduce::bit_or) result = static_cast<int>(result) | static_cast<int>(next);
    if (op == Reduce::product) result = result * next;
    if (op == Reduce::min) result = std::min(result, next);
    if (op == Reduce::max) result = std::max(result, next);
  }
  if (op != Reduce::mean) return result;
  const double mean = result * (1.0 / ranks);
  if (dtype == Dtype::float64) return mean;
  return stored(dtype, static_cast<float>(result) * static_cast<float>(1.0 / ranks));
}

inline void check_equal(const Tensor& tensor, const std::function<double(int64_t)>& expected) {
  const std::vector<double> values = tensor.to_vector<double>();
  int64_t i = 0;
  while (i < tensor.numel() && values[i] == expected(i)) ++i;
  CAPTURE(i);
  REQUIRE(i == tensor.numel());
}

inline void check_all_reduce(Communicator& c, Dtype dtype, int64_t count) {
  CAPTURE(to_string(dtype));
  CAPTURE(count);
  CAPTURE(c.size());
  for (Reduce op : kReduces) {
    if (!has_reduce(op, dtype)) continue;
    const Tensor x = input_of(c.rank(), dtype, count);
    const int64_t version = x.version();
    c.all_reduce(x, op, "all_reduce").wait();
    check_equal(x, [&](int64_t i) { return reduced(op, dtype, c.size(), i); });
    CHECK(x.version() > version);
  }
}

// All collectives on tensors of `count` elements (per rank, where there are parts).
inline void check_collectives(Communicator& c, Dtype dtype, int64_t count) {
  const int n = c.size(), rank = c.rank();
  CAPTURE(to_string(dtype));
  CAPTURE(count);
  CAPTURE(n);
  check_all_reduce(c, dtype, count);

  for (Reduce op : kReduces) {
    if (!has_reduce(op, dtype)) continue;
    const auto expected = [&](int64_t i) { return reduced(op, dtype, n, i); };
    const Tensor all = input_of(rank, dtype, count * n), part = empty({count}, {.dtype = dtype});
    c.reduce_scatter(all, part, op, "reduce_scatter").wait();
    check_equal(part, [&](int64_t i) { return expected(rank * count + i); });
    check_equal(all, [&](int64_t i) { return stored(dtype, input(rank, i)); });

    for (int root = 0; root < n; ++root) {
      const Tensor y = input_of(rank, dtype, count);
      c.reduce(y, root, op, "reduce").wait();
      check_equal(
          y, [&](int64_t i) { return rank == root ? expected(i) : stored(dtype, input(rank, i)); });
    }
  }

  const Tensor mine = input_of(rank, dtype, count);
  const auto from_all = [&](int64_t i) { return stored(dtype, input(i / count, i % count)); };
  const Tensor all = full({count * n}, 0, {.dtype = dtype});
  c.all_gather(mine, all, "all_gather").wait();
  check_equal(all, from_all);

  // `mine` may be a view of its place in `all`.
  fill_elements(all, 0);
  const Tensor place = view_of(all, all.layout().sliced(0, rank * count, (rank + 1) * count));
  copy_elements(mine, place);
  c.all_gather(place, all, "all_gather in place").wait();
  check_equal(all, from_all);

  for (int root = 0; root < n; ++root) {
    const Tensor x = input_of(rank, dtype, count);
    c.broadcast(x, root, "broadcast").wait();
    check_equal(x, [&](int64_t i) { return stored(dtype, input(root, i)); });

    const Tensor joined = rank == root ? full({n, count}, 0, {.dtype = dtype}) : Tensor();
    c.gather(mine, joined, root, "gather").wait();
    if (rank == root) check_equal(joined, from_all);

    const Tensor part = empty({count}, {.dtype = dtype});
    c.scatter(joined, part, root, "scatter").wait();
    check_equal(part, [&](int64_t i) { return stored(dtype, input(rank, i)); });
  }

  const Tensor out = input_of(rank, dtype, count * n), in = empty({count * n}, {.dtype = dtype});
  c.all_to_all(out, in, "all_to_all").wait();
  check_equal(in,
              [&](int64_t i) { return stored(dtype, input(i / count, rank * count + i % count)); });

  if (n > 1) {
    const int right = (rank + 1) % n, left = (rank + n - 1) % n;
    const Tensor x = empty({count}, {.dtype = dtype});
    c.send_recv(mine, right, x, left, "send_recv").wait();
    check_equal(x, [&](int64_t i) { return stored(dtype, input(left, i)); });
    if (rank == 0) c.send(mine, 1, "send").wait();
    if (rank == 1) {
      c.recv(x, 0, "send").wait();
      check_equal(x, [&](int64_t i) { return stored(dtype, input(0, i)); });
    }
  }

  // Parts of unequal size: rank r has (r * 2) % 5 * count / 3 elements, some of them none.
  const auto count_of = [&](int r) { return (r * 2) % 5 * (count / 3); };
  const auto value = [&](int r, int64_t i) { return stored(dtype, input(r, i)); };
  Counts counts;
  int64_t before = 0, total = 0;
  for (int r = 0; r < n; ++r) {
    counts.push_back(count_of(r));
    if (r < rank) before += counts.back();
    total += counts.back();
  }
  const auto owner = [&](int64_t i) {
    int r = 0;
    for (; i >= counts[r]; ++r) i -= counts[r];
    return std::pair(r, i);
  };
  const Tensor parts = full({total}, 0, {.dtype = dtype});
  c.all_gather(input_of(rank, dtype, counts[rank]), parts, counts, "uneven").wait();
  check_equal(parts, [&](int64_t i) { return value(owner(i).first, owner(i).second); });

  const Tensor my_part = empty({counts[rank]}, {.dtype = dtype});
  c.reduce_scatter(input_of(rank, dtype, total), my_part, counts, Reduce::sum, "uneven").wait();
  check_equal(my_part, [&](int64_t i) { return reduced(Reduce::sum, dtype, n, before + i); });

  // Rank r sends (r + s) % 3 elements, all of value r + s, to rank s.
  Counts out_counts, in_counts;
  std::vector<double> out_values, in_values;
  for (int r = 0; r < n; ++r) {
    out_counts.push_back((rank + r) % 3 * (count > 0));
    in_counts.push_back((r + rank) % 3 * (count > 0));
    out_values.insert(out_values.end(), out_counts.back(), stored(dtype, rank + r));
    in_values.insert(in_values.end(), in_counts.back(), stored(dtype, r + rank));
  }
  const auto size_of = [](const auto& values) { return static_cast<int64_t>(values.size()); };
  const Tensor sent = filled(dtype, size_of(out_values), [&](int64_t i) { return out_values[i]; });
  const Tensor came = full({size_of(in_values)}, 0, {.dtype = dtype});
  c.all_to_all(sent, out_counts, came, in_counts, "uneven").wait();
  check_equal(came, [&](int64_t i) { return in_values[i]; });
  c.barrier("barrier").wait();
}

// In a group, every rank receives from all others before it sends to any.
inline void check_sends_in_group(Communicator& c) {
  for (int64_t count : {3, 500'000}) {
    std::vector<Tensor> came(c.size());
    const Tensor mine = full({count}, c.rank()), sum = full({count}, 1);
    c.group([&] {
       c.all_reduce(sum);
       for (int r = 0; r < c.size(); ++r) {
         came[r] = full({count}, -1);
         if (r != c.rank()) c.recv(came[r], r);
       }
       for (int r = 0; r < c.size(); ++r) {
         if (r != c.rank()) c.send(mine, r);
       }
     }).wait();
    check_equal(sum, [&](int64_t) { return c.size(); });
    for (int r = 0; r < c.size(); ++r) {
      check_equal(came[r], [&](int64_t) { return r == c.rank() ? -1 : r; });
    }
  }
  check_all_reduce(c, Dtype::float32, 17);
}

// All-reduces of tensors in shared memory: all of one, and a view that begins off any cache line.
// The ranks of these tests run on one host, so no message is sent.
inline void check_shared_memory(Communicator& c, Dtype dtype, int64_t count) {
  CAPTURE(to_string(dtype));
  CAPTURE(count);
  for (Reduce op : kReduces) {
    if (!has_reduce(op, dtype)) continue;
    const auto expected = [&](int64_t i) { return reduced(op, dtype, c.size(), i); };
    const Tensor all = c.shared_zeros({count + 3}, {.dtype = dtype}, "shared");
    check_equal(all, [](int64_t) { return 0; });
    const Tensor x = view_of(all, all.layout().sliced(0, 1, count + 1));
    const int64_t version = x.version(), messages = c.traffic().messages;
    for (const Tensor& tensor : {all, x}) {
      copy_elements(input_of(c.rank(), dtype, tensor.numel()), tensor);
      c.all_reduce(tensor, op, "in shared memory").wait();
      check_equal(tensor, expected);
    }
    CHECK(x.version() > version);
    CHECK(c.traffic().messages == messages);
    check_equal(view_of(all, all.layout().sliced(0, 0, 1)), expected);  // as left by the first
  }
}

// Sums of numbers of very different sizes depend on the order; all ranks must have the same bits.
inline void check_same_bits(Communicator& c, int64_t count) {
  const Tensor ordinary = empty({count}), shared = c.shared_zeros({count});
  for (const Tensor& x : {ordinary, shared}) {
    copy_elements(filled(Dtype::float32, count,
                         [&](int64_t i) {
                           return 1.0 / (1 + (i * 31 + c.rank() * 17) % 1009) *
                                  (i % 2 ? 1e4 : 1e-3);
                         }),
                  x);
    c.all_reduce(x, Reduce::sum, "bits").wait();
    const std::string bits(static_cast<const char*>(x.address()), x.bytes());
    for (const std::string& other : c.all_gather_strings(bits)) REQUIRE(other == bits);
  }
}

// Text of the error that fn throws; empty if it throws none.
/// As errors name a rank: "rank 2 on h3".
inline std::string name_of(const Communicator& c, int rank) {
  return "rank " + std::to_string(rank) + " on " + c.host(rank);
}

inline std::string error_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const SharedError& error) {
    return error.what();
  }
  return "";
}

// Every rank must have the same error, and it must contain `part`. Tells through `other`, since the
// communicator that failed cannot be used any more.
inline void check_shared(Communicator& other, const std::string& text, const std::string& part) {
  CAPTURE(text);
  CHECK(text.find(part) != std::string::npos);
  for (const std::string& theirs : other.all_gather_strings(text)) CHECK(theirs == text);
}

}  // namespace capstan::distributed::testing
