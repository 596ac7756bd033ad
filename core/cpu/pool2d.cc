// Maximum pooling, which remembers the winners, and its gradient, which goes to them.
#include <limits>

#include "core/cpu/cpu_backend.h"
#include "core/cpu/loop.h"

namespace capstan {
namespace {

/// Puts `rival` in the place of `value` if it is greater, or the first NaN. Written without `&&`,
/// whose branches nobody could foretell and which would keep the compiler from using vectors.
template <class T>
void contend(T rival, int32_t rival_place, T& value, int32_t& place) {
  int32_t wins = rival <= value ? 0 : 1;
  wins = value == value ? wins : 0;
  value = wins ? rival : value;
  place = wins ? rival_place : place;
}

/// One plane with the window of nearly every network: 2 by 2, stride 2, no padding.
template <class T>
void pool_pairs(const T* plane, int64_t width, int64_t out_height, int64_t out_width, T* best,
                int32_t* chosen) {
  const auto below = static_cast<int32_t>(width);
  for (int64_t y = 0; y < out_height; ++y) {
    const T* const __restrict upper = plane + 2 * y * width;
    const T* const __restrict lower = upper + width;
    T* const __restrict values = best + y * out_width;
    int32_t* const __restrict places = chosen + y * out_width;
    const auto corner = static_cast<int32_t>(2 * y * width);
    for (int64_t x = 0; x < out_width; ++x) {
      T value = upper[2 * x];
      int32_t place = 0;
      const T rivals[] = {upper[2 * x + 1], lower[2 * x], lower[2 * x + 1]};
      contend(rivals[0], 1, value, place);
      contend(rivals[1], below, value, place);
      contend(rivals[2], below + 1, value, place);
      values[x] = value;
      places[x] = corner + 2 * static_cast<int32_t>(x) + place;
    }
  }
}

template <class T>
void pool_window(const T* plane, int64_t height, int64_t width, const Window2d& w,
                 int64_t out_height, int64_t out_width, T* best, int32_t* chosen) {
  for (int64_t y = 0; y < out_height; ++y) {
    const int64_t first_y = y * w.stride[0] - w.padding[0];
    const int64_t top = std::max<int64_t>(first_y, 0);
    const int64_t bottom = std::min(first_y + w.kernel[0], height);
    for (int64_t x = 0; x < out_width; ++x) {
      const int64_t first_x = x * w.stride[1] - w.padding[1];
      const int64_t left = std::max<int64_t>(first_x, 0);
      const int64_t right = std::min(first_x + w.kernel[1], width);
      auto place = static_cast<int32_t>(top * width + left);
      T value = plane[place];
      for (int64_t i = top; i < bottom; ++i) {
        for (int64_t j = left; j < right; ++j) {
          contend(plane[i * width + j], static_cast<int32_t>(i * width + j), value, place);
        }
      }
      best[y * out_width + x] = value;
      chosen[y * out_width + x] = place;
    }
  }
}

}  // namespace

void CpuBackend::max_pool2d(const Tensor& x, const Window2d& w, const Tensor& out,
                            const Tensor& chosen) {
  const int64_t height = x.size(2), width = x.size(3);
  const int64_t out_height = out.size(2), out_width = out.size(3), size = out_height * out_width;
  const bool pairs = w.kernel[0] == 2 && w.kernel[1] == 2 && w.stride[0] == 2 && w.stride[1] == 2 &&
                     w.padding[0] == 0 && w.padding[1] == 0;
  visit_floating(x.dtype(), "max_pool2d", [&]<class T>() {
    const T* const planes = x.data<T>();
    T* const best = out.mutable_data<T>();
    int32_t* const places = chosen.mutable_data<int32_t>();
    const int64_t grain = std::max<int64_t>(1, cpu::kGrain / std::max<int64_t>(1, height * width));
    parallel_for(x.size(0) * x.size(1), grain, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const T* const plane = planes + p * height * width;
        if (pairs) {
          pool_pairs(plane, width, out_height, out_width, best + p * size, places + p * size);
        } else {
          pool_window(plane, height, width, w, out_height, out_width, best + p * size,
                      places + p * size);
        }
      }
    });
  });
}

void CpuBackend::max_pool2d_grad(const Tensor& grad, const Tensor& chosen, const Tensor& x_grad) {
  const int64_t plane = x_grad.size(2) * x_grad.size(3), size = grad.size(2) * grad.size(3);
  visit_floating(grad.dtype(), "max_pool2d", [&]<class T>() {
    const T* const from = grad.data<T>();
    const int32_t* const places = chosen.data<int32_t>();
    T* const to = x_grad.mutable_data<T>();
    const int64_t grain = std::max<int64_t>(1, cpu::kGrain / std::max<int64_t>(1, plane));
    parallel_for(x_grad.size(0) * x_grad.size(1), grain, [&](int64_t begin, int64_t end) {
      std::fill(to + begin * plane, to + end * plane, T{0});
      for (int64_t p = begin; p < end; ++p) {
        for (int64_t i = p * size; i < (p + 1) * size; ++i) to[p * plane + places[i]] += from[i];
      }
    });
  });
}

}  // namespace capstan
