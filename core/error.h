// Defines the exceptions that Capstan throws.
//
// A message reads "[operation] the rule, the values that break it, the way out". Code in .cc files
// throws through raise() (core/raise.h), which formats the message.
#pragma once

#include <stdexcept>

namespace capstan {

/// Base of every exception thrown by Capstan.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Shapes, axes or strides that do not fit an operation.
struct ShapeError : Error {
  using Error::Error;
};

/// A dtype that an operation does not take, or dtypes that differ where they must agree.
struct DtypeError : Error {
  using Error::Error;
};

/// A device that does not exist, was not built in, or differs where devices must agree.
struct DeviceError : Error {
  using Error::Error;
};

/// An argument outside its range, or options that exclude each other.
struct ValueError : Error {
  using Error::Error;
};

/// Misuse of the tape: a missing gradient, a freed graph, a saved value changed in place.
struct GradientError : Error {
  using Error::Error;
};

/// A file that is missing, truncated, damaged or foreign.
struct IoError : Error {
  using Error::Error;
};

/// Ranks that disagree, a rank that failed, or a collective that did not finish.
struct CommError : Error {
  using Error::Error;
};

}  // namespace capstan
