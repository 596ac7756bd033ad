// Convolution as matrix products (Chellapilla, Puri, Simard: "High performance convolutional neural
// networks for document processing", 2006).
//
// im2col writes the input that each output pixel sees as one column. With `patch` = channels *
// kernel height * kernel width and `pixels` = output height * width:
//   out     [outputs, pixels] = weight [outputs, patch] columns [patch, pixels]
//   d weight                 += d out columns^T
//   d columns                 = weight^T d out, which col2im adds up in d x
// Small images are worked on in groups, side by side in one wider product. Where channels and
// outputs come in parts (the groups of the caller), each part is a convolution of its own.
#include "core/cpu/cpu_backend.h"
#include "core/cpu/loop.h"
#include "core/cpu/product.h"
#include "core/cpu/scratch.h"
#include "core/formulas.h"

namespace capstan {
namespace {

using cpu::Matrix;
using cpu::Scratch;

struct Geometry {
  int64_t images, height, width;
  int64_t channels, parts, outputs;  // channels and outputs of one part
  int64_t out_height, out_width;
  Window2d window;
  int64_t pixels, patch;
  int64_t group;  // images in one product

  Geometry(const Tensor& x, const Tensor& weight, const Tensor& out, const Window2d& w)
      : images(x.size(0)),
        height(x.size(2)),
        width(x.size(3)),
        channels(weight.size(1)),
        parts(channels ? x.size(1) / channels : 1),
        outputs(out.size(1) / parts),
        out_height(out.size(2)),
        out_width(out.size(3)),
        window(w),
        pixels(out_height * out_width),
        patch(channels * w.kernel[0] * w.kernel[1]),
        group(std::max<int64_t>(1, 512 / std::max<int64_t>(1, pixels))) {}

  // Elements of one part of an image and of its result, and of all parts.
  int64_t part_size() const { return channels * height * width; }
  int64_t image_size() const { return parts * part_size(); }
  int64_t result_size() const { return parts * outputs * pixels; }
  int64_t filter_size() const { return outputs * patch; }
  /// Groups that a thread takes at once, for at least a few million operations.
  int64_t grain() const {
    return std::max<int64_t>(
        1, (1 << 21) / std::max<int64_t>(1, parts * outputs * patch * pixels * group));
  }
  int64_t groups() const { return (images + group - 1) / group; }

  /// Calls f(channel, tap's y, tap's x, row in columns) for each row of `columns`.
  template <class F>
  void for_each_tap(const F& f) const {
    int64_t row = 0;
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t i = 0; i < window.kernel[0]; ++i) {
        for (int64_t j = 0; j < window.kernel[1]; ++j) {
          f(c, i * window.dilation[0], j * window.dilation[1], row++);
        }
      }
    }
  }

  /// Calls f(first image, images, part) for each product of the groups `begin` to `end`.
  template <class F>
  void for_each_product(int64_t begin, int64_t end, const F& f) const {
    for (int64_t first = begin * group; first < std::min(end * group, images); first += group) {
      for (int64_t part = 0; part < parts; ++part) f(first, std::min(group, images - first), part);
    }
  }

  /// One part of the weight [all outputs, patch].
  template <class T>
  Matrix<T> filters(const T* weight, int64_t part) const {
    return Matrix<T>::dense(weight + part * filter_size(), outputs, patch);
  }

  /// The output positions [begin, end) along `axis` that see input, not padding, through `tap`.
  std::pair<int64_t, int64_t> valid(int axis, int64_t tap) const {
    const int64_t size = axis == 0 ? height : width, out = axis == 0 ? out_height : out_width;
    const int64_t stride = window.stride[axis], shift = window.padding[axis] - tap;
    const int64_t begin = shift > 0 ? (shift + stride - 1) / stride : 0;
    const int64_t end = size + shift > 0 ? (size + shift - 1) / stride + 1 : 0;
    return {std::min(begin, out), std::clamp(end, std::min(begin, out), out)};
  }
};

/// One image [channels, height, width] to `pixels` columns of a matrix whose rows are `pitch`
/// apart.
template <class T>
void im2col(const Geometry& g, const T* image, T* columns, int64_t pitch) {
  const auto [stride_y, stride_x] = g.window.stride;
  g.for_each_tap([&](int64_t c, int64_t i, int64_t j, int64_t row) {
    T* to = columns + row * pitch;
    const auto [top, bottom] = g.valid(0, i);
    const auto [left, right] = g.valid(1, j);
    std::fill_n(to, top * g.out_width, T{0});
    for (int64_t y = top; y < bottom; ++y) {
      const T* const from = image +
                            (c * g.height + y * stride_y + i - g.window.padding[0]) * g.width + j -
                            g.window.padding[1];
      T* const line = to + y * g.out_width;
      std::fill(line, line + left, T{0});
      cpu::map_row(right - left, from + left * stride_x, stride_x, line + left, 1,
                   [](T value) { return value; });
      std::fill(line + right, line + g.out_width, T{0});
    }
    std::fill(to + bottom * g.out_width, to + g.pixels, T{0});
  });
}

/// The reverse: adds the columns to the pixels of the image that they came from.
template <class T>
void col2im(const Geometry& g, const T* columns, int64_t pitch, T* image) {
  const auto [stride_y, stride_x] = g.window.stride;
  g.for_each_tap([&](int64_t c, int64_t i, int64_t j, int64_t row) {
    const T* const from = columns + row * pitch;
    const auto [top, bottom] = g.valid(0, i);
    const auto [left, right] = g.valid(1, j);
    for (int64_t y = top; y < bottom; ++y) {
      T* const to = image + (c * g.height + y * stride_y + i - g.window.padding[0]) * g.width + j -
                    g.window.padding[1] + left * stride_x;
      cpu::map_row(right - left, to, stride_x, from + y * g.out_width + left, 1, to, stride_x,
                   formulas::Add{});
    }
  });
}

/// One part of the results of `count` images to [outputs, count * pixels]: `images` itself, if that
/// is the same, or a copy in `room`.
template <class T>
const T* side_by_side(const Geometry& g, int64_t count, const T* images, T* room) {
  if (count == 1) return images;
  for (int64_t image = 0; image < count; ++image) {
    for (int64_t o = 0; o < g.outputs; ++o) {
      std::copy_n(images + image * g.result_size() + o * g.pixels, g.pixels,
                  room + (o * count + image) * g.pixels);
    }
  }
  return room;
}

/// The reverse, always a copy.
template <class T>
void one_after_another(const Geometry& g, int64_t count, const T* matrix, T* images) {
  for (int64_t image = 0; image < count; ++image) {
    for (int64_t o = 0; o < g.outputs; ++o) {
      std::copy_n(matrix + (o * count + image) * g.pixels, g.pixels,
                  images + image * g.result_size() + o * g.pixels);
    }
  }
}

}  // namespace

void CpuBackend::conv2d(const Tensor& x, const Tensor& weight, const Tensor* bias,
                        const Window2d& window, const Tensor& out) {
  const Geometry g(x, weight, out, window);
  visit_floating(x.dtype(), "conv2d", [&]<class T>() {
    const T* const images = x.data<T>();
    const T* const filters = weight.data<T>();
    const T* const shift = bias ? bias->data<T>() : nullptr;
    T* const results = out.mutable_data<T>();
    parallel_for(g.groups(), g.grain(), [&](int64_t begin, int64_t end) {
      const Scratch<T> columns(g.patch * g.group * g.pixels);
      const Scratch<T> product(g.outputs * g.group * g.pixels);
      g.for_each_product(begin, end, [&](int64_t first, int64_t count, int64_t part) {
        const T* const image = images + first * g.image_size() + part * g.part_size();
        const int64_t pitch = count * g.pixels;
        for (int64_t i = 0; i < count; ++i) {
          im2col(g, image + i * g.image_size(), columns.data() + i * g.pixels, pitch);
        }
        // The bias goes first and the product is added to it: for one image in place.
        T* const result = results + first * g.result_size() + part * g.outputs * g.pixels;
        T* const sum = count == 1 ? result : product.data();
        for (int64_t o = 0; o < g.outputs; ++o) {
          std::fill_n(sum + o * pitch, pitch, shift ? shift[part * g.outputs + o] : T{0});
        }
        cpu::multiply(g.filters(filters, part), Matrix<T>::dense(columns.data(), g.patch, pitch),
                      sum, true);
        if (count > 1) one_after_another(g, count, sum, result);
      });
    });
  });
}

void CpuBackend::conv2d_input_grad(const Tensor& grad, const Tensor& weight, const Window2d& window,
                                   const Tensor& x_grad) {
  const Geometry g(x_grad, weight, grad, window);
  visit_floating(grad.dtype(), "conv2d", [&]<class T>() {
    const T* const grads = grad.data<T>();
    const T* const filters = weight.data<T>();
    T* const results = x_grad.mutable_data<T>();
    parallel_for(g.groups(), g.grain(), [&](int64_t begin, int64_t end) {
      const Scratch<T> columns(g.patch * g.group * g.pixels);
      const Scratch<T> room(g.outputs * g.group * g.pixels);
      g.for_each_product(begin, end, [&](int64_t first, int64_t count, int64_t part) {
        const T* const grad = grads + first * g.result_size() + part * g.outputs * g.pixels;
        const int64_t pitch = count * g.pixels;
        const T* const slopes = side_by_side(g, count, grad, room.data());
        cpu::multiply(g.filters(filters, part).transposed(),
                      Matrix<T>::dense(slopes, g.outputs, pitch), columns.data());
        T* const image = results + first * g.image_size() + part * g.part_size();
        for (int64_t i = 0; i < count; ++i) {
          std::fill_n(image + i * g.image_size(), g.part_size(), T{0});
          col2im(g, columns.data() + i * g.pixels, pitch, image + i * g.image_size());
        }
      });
    });
  });
}

void CpuBackend::conv2d_weight_grad(const Tensor& grad, const Tensor& x, const Window2d& window,
                                    const Tensor& weight_grad) {
  const Geometry g(x, weight_grad, grad, window);
  visit_floating(grad.dtype(), "conv2d", [&]<class T>() {
    const T* const grads = grad.data<T>();
    const T* const images = x.data<T>();
    T* const result = weight_grad.mutable_data<T>();
    const int64_t size = g.parts * g.filter_size();
    // A sum over images: fixed blocks of groups, then the blocks' sums in order. Fewer blocks where
    // their sums are large.
    const int64_t most = std::clamp<int64_t>((1 << 20) / std::max<int64_t>(1, size), 4, 16);
    const int64_t block = std::max<int64_t>(1, (g.groups() + most - 1) / most);
    const int64_t blocks = (g.groups() + block - 1) / block;
    const Scratch<T> sums(blocks * size);
    parallel_for(g.groups(), block, [&](int64_t begin, int64_t end) {
      const Scratch<T> columns(g.patch * g.group * g.pixels);
      const Scratch<T> room(g.outputs * g.group * g.pixels);
      T* const sum = sums.data() + begin / block * size;
      g.for_each_product(begin, end, [&](int64_t first, int64_t count, int64_t part) {
        const T* const image = images + first * g.image_size() + part * g.part_size();
        const T* const grad = grads + first * g.result_size() + part * g.outputs * g.pixels;
        const int64_t pitch = count * g.pixels;
        for (int64_t i = 0; i < count; ++i) {
          im2col(g, image + i * g.image_size(), columns.data() + i * g.pixels, pitch);
        }
        const T* const slopes = side_by_side(g, count, grad, room.data());
        cpu::multiply(Matrix<T>::dense(slopes, g.outputs, pitch),
                      Matrix<T>::dense(columns.data(), g.patch, pitch).transposed(),
                      sum + part * g.filter_size(), first > begin * g.group);
      });
    });
    parallel_for(size, cpu::kGrain, [&](int64_t begin, int64_t end) {
      std::fill(result + begin, result + end, T{0});
      for (int64_t i = 0; i < blocks; ++i) {
        cpu::map_row(end - begin, result + begin, 1, sums.data() + i * size + begin, 1,
                     result + begin, 1, formulas::Add{});
      }
    });
  });
}

}  // namespace capstan
