// Defines Notice, what a rank tells all others when its communicator fails (failure.h says when),
// and WireNotice, the form in which it travels between processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace capstan::distributed {

/// The most bytes of a notice's text, its call, and its folder.
inline constexpr size_t kNoticeText = 2000, kNoticeCall = 255, kNoticeFolder = 255;

/// What a rank tells all others, past all queues, when its communicator fails; see failure.h.
struct Notice {
  enum class Kind : uint8_t {
    failed,    // the communicator is broken
    leaving,   // the rank has nothing left to do; `text` is the error that ended it
    reported,  // the rank has told the user `text`
  };

  Kind kind = Kind::failed;
  int rank = 0;
  int64_t sequence = 0;    // the last collective that the rank had started; 0: none
  bool cause = false;      // the rank failed by itself; otherwise it was told
  bool explains = false;   // the error that other errors may come from
  bool name_rank = false;  // the text does not yet say which rank it is about
  int missing = -1;        // whom the rank waited for in vain; -1: nobody
  bool gone = false;       // that rank's process has ended, or the link to it is cut
  std::string text{};
  std::string call{};     // that collective in words
  std::string records{};  // of a cause: the folder of flight records; empty: none are to be saved
};

/// Of one size, whatever it says; below the size up to which MPI sends without waiting for the
/// receiver, and well below what a socket takes in at once.
struct WireNotice {
  WireNotice() = default;
  explicit WireNotice(const Notice& notice);
  Notice notice() const;

  int64_t sequence;
  int32_t rank, missing;
  Notice::Kind kind;
  bool cause, explains, name_rank, gone;
  char text[kNoticeText + 1];
  char call[kNoticeCall + 1];
  char records[kNoticeFolder + 1];
};

}  // namespace capstan::distributed
