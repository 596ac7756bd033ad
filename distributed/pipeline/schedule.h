// Defines Schedule, what every stage of a pipeline does and in which order, and the functions that
// make one: gpipe(), one_f_one_b(), interleaved(), zb_h1(), forward_only().
//
// A model that does not fit on one device is cut into chunks of layers, one after another, and the
// chunks are dealt out to the stages: chunk c lives on stage c mod `stages`. A batch is cut into
// microbatches, so that stage 1 can work on the first one while stage 0 works on the second. In
// which order a stage takes its forward and backward passes decides how long it is idle (the
// bubble) and how many microbatches it must keep activations of; the order does not change the
// result. Four microbatches on three stages, forward passes F of one unit of time, backward passes
// B of two:
//
//   gpipe   |F0|F1|F2|F3|.................|B0   |B1   |B2   |B3   |   all forward, then backward
//           ...|F0|F1|F2|F3|........|B0   |B1   |B2   |B3   |......
//           ......|F0|F1|F2|F3|B0   |B1   |B2   |B3   |............
//
//   1f1b    |F0|F1|F2|...........|B0   |F3|B1   |..|B2   |..|B3   |   backward as early as possible
//           ...|F0|F1|.....|B0   |F2|B1   |F3|B2   |..|B3   |......
//           ......|F0|B0   |F1|B1   |F2|B2   |F3|B3   |............
//
// A schedule is data, apart from whatever carries it out: it is a pure function of a few numbers,
// so that every rank knows the lists of all; people read it (to_string()); check() and simulate()
// try it before the first step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace capstan::distributed::pipeline {

/// What a stage does with one microbatch in one chunk.
enum class Kind : uint8_t {
  receive_input,  // waits for the output of the chunk before
  forward,        // computes the chunk's output, and keeps what backward will need
  send_output,    // to the chunk after
  free_output,    // drops the elements of the output: they were sent, the tape needs its node only
  receive_gradient,  // waits for the gradient of the output
  backward,          // computes the gradients of input and weights
  backward_input,    // ... of the input only, for which the stage before is waiting
  backward_weight,   // ... of the weights only, for which nobody is waiting
  send_gradient,     // of the input, to the chunk before
  free_all,          // drops all that is still kept of the microbatch
};

/// Passes take a stage's time; sends and receives move data; what is left drops some.
bool is_pass(Kind kind);
bool is_send(Kind kind);
bool is_receive(Kind kind);

struct Instruction {
  Kind kind;
  int chunk;       // of the whole model, in [0, stages * chunks)
  int microbatch;  // in [0, microbatches)

  bool operator==(const Instruction&) const = default;
};

/// The other end of a transfer: the receive of a send, the send of a receive.
Instruction peer(const Instruction& transfer);

struct Schedule {
  std::string name;
  int stages = 0;                                    // p in the papers
  int chunks = 0;                                    // of each stage, v
  int microbatches = 0;                              // m
  bool training = true;                              // false: forward passes only
  std::vector<std::vector<Instruction>> lists = {};  // of each stage, in the order it runs them

  int stage_of(int chunk) const { return chunk % stages; }
  bool is_first(int chunk) const { return chunk == 0; }
  bool is_last(int chunk) const { return chunk == stages * chunks - 1; }
};

/// Stages times chunks times microbatches, at most.
constexpr double kMostPasses = 1e7;

// All throw ValueError for numbers below 1, and for more than kMostPasses.

/// GPipe (Huang et al. 2019, arXiv:1811.06965): all forward passes, then all backward ones. Keeps
/// all m microbatches; idle for (p - 1) / m of the time it works. (The paper takes microbatches
/// backwards in reverse. Here they are taken in order, as by the others, so that gradients are
/// added up in the same order and have the same bits.)
Schedule gpipe(int stages, int microbatches);

/// One forward, one backward (PipeDream-Flush: Narayanan et al. 2021, arXiv:2006.09503): after as
/// many forward passes as there are stages from here to the end, a backward pass is due before each
/// further one. The same bubble as GPipe; stage s keeps min(p - s, m) microbatches.
Schedule one_f_one_b(int stages, int microbatches);

/// Interleaved 1F1B (Narayanan et al. 2021, arXiv:2104.04473, section 2.2): each stage has v chunks
/// of the model, every p-th one, and so the way to the first work on the last stage is v times
/// shorter. The bubble is (p - 1) / (v m); v times as many messages; up to p v + p - 1 pairs of
/// chunk and microbatch are kept, of one v-th of the size. m must be a multiple of p, and p at
/// least 2.
Schedule interleaved(int stages, int chunks, int microbatches);

/// ZB-H1 (Qi et al. 2023, arXiv:2401.10241, section 2.1): backward is cut in two. The gradient of
/// the input is sent as soon as it can be, the gradient of the weights fills what would have been
/// the bubble. With times F, I, W of forward, input and weight passes, the bubble is
/// (p - 1) (F + I - W) / (m (F + I + W)) for W <= F <= I and m >= p: a third of 1F1B's where they
/// are equal. Weight halves are put off so that every stage keeps as much as the first one does:
/// min(p, m) microbatches.
Schedule zb_h1(int stages, int microbatches);

/// Forward passes only, for evaluation, with the chunks where training has them. Keeps one
/// microbatch. Any m will do.
Schedule forward_only(int stages, int chunks, int microbatches);

/// The names make_schedule() knows: gpipe, 1f1b, interleaved, zb-h1, forward.
const std::vector<std::string>& schedule_names();

/// By name. Throws ValueError for another name, and for several chunks where there is one only.
Schedule make_schedule(const std::string& name, int stages, int chunks, int microbatches);

/// "F3": forward pass of microbatch 3. B: backward, I and W: its halves; rF and sF: receives and
/// sends what F makes, rB and sB what B makes; xF: frees the output, x: frees all. Of several
/// chunks a stage: "F3@5", in chunk 5.
std::string to_string(const Schedule& schedule, const Instruction& instruction);

/// A line a stage: "stage 0: F0 sF0 xF0 F1 ..."; of passes only: "stage 0: F0 F1 ...".
std::string to_string(const Schedule& schedule, bool passes_only = false);

}  // namespace capstan::distributed::pipeline
