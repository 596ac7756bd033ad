// The rows of operations that change how elements are laid out.
#pragma once

#include "autograd/rearrange.h"
#include "autograd/views.h"
#include "tests/autograd/operation.h"

namespace capstan::testing {

inline std::vector<Operation> view_operations() {
  const auto view = [](auto f) { return [f](const Tensors& x) { return f(x[0]); }; };
  return {
      {"reshape",
       {{"pairs", view([](const Tensor& x) {
           return reshape(x, {-1, 2});
         })}},
       {fails<ShapeError>("[4] cannot hold 6 elements", [] { return reshape(of({6}), {4}); }),
        fails<ShapeError>("[-1, 4] cannot hold 6",
                          [] {
                            return reshape(of({6}), {-1, 4});
                          }),
        fails<ShapeError>("[-1, 0] cannot hold 0",
                          [] {
                            return reshape(of({0}), {-1, 0});
                          }),
        fails<ShapeError>("one may be -1",
                          [] {
                            return reshape(of({6}), {-1, -1});
                          }),
        fails<ShapeError>("must not be negative",
                          [] {
                            return reshape(of({6}), {-2, -3});
                          })}},
      {"flatten",
       {{"all", view([](const Tensor& x) { return flatten(x); })},
        {"tail", view([](const Tensor& x) { return flatten(x, 1); })}},
       {fails<ShapeError>("must not come after the last, got 1 and 0",
                          [] {
                            return flatten(of({2, 3}), 1, 0);
                          }),
        fails<ShapeError>("axis 2 is out of range",
                          [] {
                            return flatten(of({2, 3}), 2);
                          })}},
      {"transpose",
       {{"ends", view([](const Tensor& x) { return transpose(x, 0, -1); })}},
       {fails<ShapeError>("axis 2 is out of range",
                          [] {
                            return transpose(of({2, 3}), 0, 2);
                          }),
        fails<ShapeError>("axis -3 is out of range",
                          [] {
                            return transpose(of({2, 3}), -3, 0);
                          })}},
      {"permute",
       {{"cycle", view([](const Tensor& x) {
           return permute(x, {2, 0, -2});
         })}},
       {fails<ShapeError>("[0, 0] must name each",
                          [] {
                            return permute(of({2, 3}), {0, 0});
                          }),
        fails<ShapeError>("[1] must name each",
                          [] {
                            return permute(of({2, 3}), {1});
                          }),
        fails<ShapeError>("axis 2 is out of range",
                          [] {
                            return permute(of({2, 3}), {0, 2});
                          })}},
      {"slice",
       {{"step", view([](const Tensor& x) { return slice(x, 1, 1, -1, 2); })},
        {"none", view([](const Tensor& x) { return slice(x, -1, 3, 3); })}},
       {fails<ShapeError>("axis 1 is out of range", [] { return slice(of({2}), 1, 0, 1); }),
        fails<ValueError>("step must be at least 1, got 0",
                          [] { return slice(of({2}), 0, 0, 1, 0); })}},
      {"select",
       {{"last", view([](const Tensor& x) { return select(x, -1, -1); })},
        {"first", view([](const Tensor& x) { return select(x, 0, 1); })}},
       {fails<ShapeError>("axis 1 is out of range", [] { return select(of({2}), 1, 0); }),
        fails<ShapeError>("index 2 is out of range", [] { return select(of({2}), 0, 2); }),
        fails<ShapeError>("index -3 is out of range", [] { return select(of({2}), 0, -3); })}},
      {"expand",
       {{"rows", view([](const Tensor& x) {
           return expand(x, {4, 2, 3});
         })},
        {"empty", view([](const Tensor& x) {
           return expand(x, {0, 3});
         })}},
       {fails<ShapeError>("[2] does not expand to [3]", [] { return expand(of({2}), {3}); }),
        fails<ShapeError>("[1, 2] does not expand to [2]",
                          [] {
                            return expand(of({1, 2}), {2});
                          }),
        fails<ShapeError>("[1] does not expand to [-1]", [] { return expand(of({1}), {-1}); })}},
      {"squeeze",
       {{"middle", view([](const Tensor& x) { return squeeze(x, 1); })},
        {"last", view([](const Tensor& x) { return squeeze(x, -1); })}},
       {fails<ShapeError>("axis 0 of [2] must have size 1", [] { return squeeze(of({2}), 0); }),
        fails<ShapeError>("axis 1 is out of range", [] { return squeeze(of({1}), 1); })}},
      {"unsqueeze",
       {{"first", view([](const Tensor& x) { return unsqueeze(x, 0); })},
        {"last", view([](const Tensor& x) { return unsqueeze(x, -1); })}},
       {fails<ShapeError>("axis 2 is out of range", [] { return unsqueeze(of({2}), 2); })}},
      {"view",
       {{"pairs", view([](const Tensor& x) {
           return capstan::view(contiguous(x), {-1, 2});
         })}},
       {fails<ShapeError>("cannot express [6] without a copy",
                          [] {
                            return capstan::view(transpose(of({2, 3}), 0, 1), {6});
                          }),
        fails<ShapeError>("[4] cannot hold 6 elements",
                          [] { return capstan::view(of({6}), {4}); })}},
      {"move_axis",
       {{"back", view([](const Tensor& x) { return move_axis(x, 0, -1); })},
        {"front", view([](const Tensor& x) { return move_axis(x, 2, 0); })}},
       {fails<ShapeError>("axis 2 is out of range",
                          [] {
                            return move_axis(of({2, 3}), 2, 0);
                          }),
        fails<ShapeError>("axis -3 is out of range",
                          [] {
                            return move_axis(of({2, 3}), 0, -3);
                          })}},
      {"flip",
       {{"last", view([](const Tensor& x) { return flip(x, {-1}); })},
        {"both", view([](const Tensor& x) {
           return flip(x, {0, 1});
         })}},
       {fails<ShapeError>("axis 2 is out of range",
                          [] {
                            return flip(of({2, 3}), {2});
                          }),
        fails<ShapeError>("name axis 1 twice",
                          [] {
                            return flip(of({2, 3}), {1, -1});
                          })}},
      {"diagonal",
       {{"last", view([](const Tensor& x) { return diagonal(x); })},
        {"ends", view([](const Tensor& x) { return diagonal(x, 2, 0); })}},
       {fails<ShapeError>("axis -2 is out of range", [] { return diagonal(of({3})); }),
        fails<ShapeError>("two different axes, got 0 and -2",
                          [] {
                            return diagonal(of({3, 3}), 0, -2);
                          })}},
      {"split",
       {{"second", view([](const Tensor& x) { return split(x, 2, 1)[1]; })},
        {"sizes", view([](const Tensor& x) {
           return split(x, {1, 0, 4}, -1)[2];
         })}},
       {fails<ValueError>("at least 1 index, got 0", [] { return split(of({2}), 0)[0]; }),
        fails<ShapeError>("axis 1 is out of range", [] { return split(of({2}), 1, 1)[0]; }),
        fails<ShapeError>("add up to 2, got 2 after 1",
                          [] {
                            return split(of({2}), {1, 2})[0];
                          }),
        fails<ShapeError>("got -1 after 0",
                          [] {
                            return split(of({2}), {-1, 3})[0];
                          }),
        fails<ShapeError>("the 3 indices of axis 0, got 2",
                          [] {
                            return split(of({3}), {1, 1})[0];
                          })}},
      {"chunk",
       {{"last", view([](const Tensor& x) { return chunk(x, 2, -1).back(); })}},
       {fails<ValueError>("at least 1 piece, got 0", [] { return chunk(of({2}), 0)[0]; }),
        fails<ShapeError>("axis -2 is out of range", [] { return chunk(of({2}), 1, -2)[0]; })}},
      {"contiguous", only(contiguous), {}},
      {"clone", only(clone), {}},
  };
}

inline std::vector<Operation> rearrange_operations() {
  const auto one = [](auto f) { return [f](const Tensors& x) { return f(x[0]); }; };
  const auto triangle_row = [](const std::string& name, auto f) {
    return Operation{name,
                     {{"main", [f](const Tensors& x) { return f(x[0], 0); }},
                      {"above", [f](const Tensors& x) { return f(x[0], 1); }},
                      {"below", [f](const Tensors& x) { return f(x[0], -1); }},
                      {"far", [f](const Tensors& x) { return f(x[0], INT64_MIN); }}},
                     {fails<ShapeError>("needs two axes, got [3]", [f] { return f(of({3}), 0); })}};
  };
  return {
      {"cat",
       {{"rows",
         [](const Tensors& x) {
           return cat({x[0], x[1]});
         }},
        {"columns",
         [](const Tensors& x) {
           return cat({x[0], x[1], x[0]}, -1);
         }}},
       {fails<ShapeError>("at least one tensor", [] { return cat({}); }),
        fails<ShapeError>("axis 0 is out of range", [] { return cat({of({})}); }),
        fails<ShapeError>("but for axis 0: number 1 is [2, 4], the first [2, 3]",
                          [] {
                            return cat({of({2, 3}), of({2, 4})});
                          }),
        fails<ShapeError>("number 1 is [3]",
                          [] {
                            return cat({of({2, 3}), of({3})});
                          }),
        fails<DeviceError>("cpu:0 and meta",
                           [] {
                             return cat({of({2}), elsewhere({2})});
                           })}},
      {"stack",
       {{"first",
         [](const Tensors& x) {
           return stack({x[0], x[1]});
         }},
        {"last",
         [](const Tensors& x) {
           return stack({x[0], x[1]}, -1);
         }}},
       {fails<ShapeError>("at least one tensor", [] { return stack({}); }),
        fails<ShapeError>("axis 2 is out of range", [] { return stack({of({2})}, 2); }),
        fails<ShapeError>("one shape, got [2] and [3]",
                          [] {
                            return stack({of({2}), of({3})});
                          })}},
      {"pad",
       {{"zeros", one([](const Tensor& x) {
           return pad(x, {1, 0}, {0, 2});
         })},
        {"ones", one([](const Tensor& x) {
           return pad(x, {0, 1}, {1, 1}, 1);
         })}},
       {fails<ShapeError>("a number for each axis of [2, 3], got [1] and [1, 1]",
                          [] {
                            return pad(of({2, 3}), {1}, {1, 1});
                          }),
        fails<ValueError>("got [0] and [-1]", [] { return pad(of({2}), {0}, {-1}); }),
        fails<ValueError>("adds from 0 to", [] { return pad(of({2}), {INT64_MAX}, {0}); })}},
      {"repeat",
       {{"same", one([](const Tensor& x) {
           return repeat(x, {2, 3});
         })},
        {"more", one([](const Tensor& x) {
           return repeat(x, {2, 1, 2});
         })},
        {"none", one([](const Tensor& x) {
           return repeat(x, {0, 1});
         })}},
       {fails<ShapeError>("a count for each axis of [2, 3], got [2]",
                          [] {
                            return repeat(of({2, 3}), {2});
                          }),
        fails<ValueError>("must not be negative, got [-1]", [] { return repeat(of({2}), {-1}); })}},
      {"roll",
       {{"right", one([](const Tensor& x) { return roll(x, 1, -1); })},
        {"left", one([](const Tensor& x) { return roll(x, -4, 0); })}},
       {fails<ShapeError>("axis 1 is out of range", [] { return roll(of({2}), 1, 1); })}},
      triangle_row("tril", tril),
      triangle_row("triu", triu),
  };
}

}  // namespace capstan::testing
