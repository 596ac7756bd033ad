// Each operand becomes a Term, a tensor with a letter an axis. Two terms are joined by one batched
// matrix product: letters of both that go on are its batch, letters of both that end here are
// summed, and the letters of one are rows or columns.
#include "autograd/einsum.h"

#include <algorithm>

#include "autograd/autocast.h"
#include "autograd/elementwise.h"
#include "autograd/matmul.h"
#include "autograd/operands.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "core/raise.h"

namespace capstan {

namespace {

struct Term {
  Tensor tensor;
  std::string letters;

  bool has(char letter) const { return letters.find(letter) != std::string::npos; }
  int64_t size(char letter) const { return tensor.shape()[letters.find(letter)]; }
};

/// What the equation says: the letters of each operand and of the result.
struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

constexpr char kFirstEllipsis = '0';  // the axes of "..." get digits as letters, the last one '7'

/// "i...j" with the digits for `count` axes in place of the dots.
std::string replace_ellipsis(const std::string& equation, std::string letters, int count) {
  std::string digits;
  for (int i = 0; i < count; ++i) {
    digits += static_cast<char>(kFirstEllipsis + kMaxRank - count + i);
  }
  if (const size_t dots = letters.find("..."); dots != std::string::npos) {
    letters.replace(dots, 3, digits);
  }
  for (char letter : letters) {
    if (!std::isalpha(static_cast<unsigned char>(letter)) &&
        digits.find(letter) == std::string::npos) {
      raise<ValueError>("[einsum] '{}' may hold letters, ',', '->' and one '...' an operand",
                        equation);
    }
  }
  return letters;
}

Equation parse(std::string text, const std::vector<Tensor>& operands) {
  const std::string equation = text;
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  const bool explicit_result = arrow != std::string::npos;
  std::string left = text.substr(0, arrow);
  Equation parsed;
  int most = 0;  // axes of the longest ellipsis
  for (size_t begin = 0; begin <= left.size();) {
    const size_t end = std::min(left.find(',', begin), left.size());
    const std::string letters = left.substr(begin, end - begin);
    begin = end + 1;
    const size_t number = parsed.operands.size();
    if (number >= operands.size()) {
      raise<ValueError>("[einsum] '{}' names more than the {} operands given", equation,
                        operands.size());
    }
    const bool dots = letters.find("...") != std::string::npos;
    const int named = static_cast<int>(letters.size()) - 3 * dots;
    const int rank = operands[number].rank();
    if (dots ? rank < named : rank != named) {
      raise<ShapeError>("[einsum] '{}' does not name the axes of {}", letters,
                        operands[number].shape());
    }
    most = std::max(most, rank - named);
    parsed.operands.push_back(replace_ellipsis(equation, letters, rank - named));
  }
  if (parsed.operands.size() != operands.size()) {
    raise<ValueError>("[einsum] '{}' names fewer than the {} operands given", equation,
                      operands.size());
  }
  if (explicit_result) {
    parsed.result = replace_ellipsis(equation, text.substr(arrow + 2), most);
  } else {
    std::string all;
    for (const std::string& letters : parsed.operands) all += letters;
    std::sort(all.begin(), all.end());  // digits come first
    for (char letter : all) {
      const bool once = std::count(all.begin(), all.end(), letter) == 1;
      const bool seen = parsed.result.find(letter) != std::string::npos;
      if ((once || letter < 'A') && !seen) parsed.result += letter;
    }
  }
  for (char letter : parsed.result) {
    const auto names = [letter](const std::string& s) {
      return s.find(letter) != std::string::npos;
    };
    if (std::count(parsed.result.begin(), parsed.result.end(), letter) > 1 ||
        std::none_of(parsed.operands.begin(), parsed.operands.end(), names)) {
      raise<ValueError>("[einsum] the result of '{}' must name letters of operands, each once",
                        equation);
    }
  }
  return parsed;
}

/// Takes the diagonal of letters that stand twice.
Term without_repeats(Term term) {
  for (size_t i = 0; i < term.letters.size();) {
    const size_t j = term.letters.find(term.letters[i], i + 1);
    if (j == std::string::npos) {
      ++i;
      continue;
    }
    if (term.tensor.shape()[i] != term.tensor.shape()[j]) {
      raise<ShapeError>("[einsum] letter '{}' stands for sizes {} and {}", term.letters[i],
                        term.tensor.shape()[i], term.tensor.shape()[j]);
    }
    term.tensor = diagonal(term.tensor, i, j);
    const char letter = term.letters[i];
    term.letters.erase(j, 1).erase(i, 1).push_back(letter);
  }
  return term;
}

/// Sums over the letters that are not in `needed`.
Term reduced_to(Term term, const std::string& needed) {
  Dims axes;
  std::string kept;
  for (size_t i = 0; i < term.letters.size(); ++i) {
    if (needed.find(term.letters[i]) == std::string::npos) {
      axes.push_back(i);
    } else {
      kept += term.letters[i];
    }
  }
  if (!axes.empty()) term = {sum(term.tensor, axes), kept};
  return term;
}

/// The axes of `term` in the order of `letters`; those it lacks are added with size 1.
Tensor arranged(const Term& term, const std::string& letters) {
  Dims order;
  for (char letter : letters) {
    if (term.has(letter)) order.push_back(term.letters.find(letter));
  }
  Tensor out = permute(term.tensor, order);
  for (size_t i = 0; i < letters.size(); ++i) {
    if (!term.has(letters[i])) out = unsqueeze(out, i);
  }
  return out;
}

/// The product of two terms, summed over the letters that are not in `needed`.
Term joined(const Term& a, const Term& b, const std::string& needed) {
  std::string batch, summed, rows, columns;
  for (char letter : a.letters) {
    const bool goes_on = needed.find(letter) != std::string::npos;
    if (!b.has(letter)) {
      rows += letter;
    } else if (a.size(letter) != b.size(letter) && a.size(letter) != 1 && b.size(letter) != 1) {
      raise<ShapeError>("[einsum] letter '{}' stands for sizes {} and {}", letter, a.size(letter),
                        b.size(letter));
    } else {
      (goes_on ? batch : summed) += letter;
    }
  }
  for (char letter : b.letters) {
    if (!a.has(letter)) columns += letter;
  }
  // Where one has size 1 for a letter of both, it is repeated to the size of the other.
  const auto sizes = [&](const std::string& letters, const Term& term) {
    Shape shape;
    for (char letter : letters) {
      const int64_t own = term.size(letter);
      const Term& other = &term == &a ? b : a;
      shape.push_back(own == 1 && other.has(letter) ? other.size(letter) : own);
    }
    return shape;
  };
  const auto count = [&](const std::string& letters, const Term& term) {
    return numel(sizes(letters, term));
  };
  const Tensor left =
      reshape(expand(arranged(a, batch + rows + summed), sizes(batch + rows + summed, a)),
              {count(batch, a), count(rows, a), count(summed, a)});
  const Tensor right =
      reshape(expand(arranged(b, batch + summed + columns), sizes(batch + summed + columns, b)),
              {count(batch, b), count(summed, b), count(columns, b)});
  Shape shape;
  for (int64_t size : sizes(batch + rows, a)) shape.push_back(size);
  for (int64_t size : sizes(columns, b)) shape.push_back(size);
  return {reshape(bmm(left, right), shape), batch + rows + columns};
}

}  // namespace

Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands) {
  if (const Autocasting on; on) {
    std::vector<Tensor> narrow;
    for (const Tensor& operand : operands) narrow.push_back(on.narrow(operand));
    return einsum(equation, narrow);
  }
  if (operands.empty()) raise<ValueError>("[einsum] needs at least one operand");
  for (const Tensor& operand : operands) {
    check_floating("einsum", operand.dtype());
    check_alike("einsum", operands[0], operand);
  }
  const Equation parsed = parse(equation, operands);
  // needed[i]: letters that the result or an operand after number i names.
  std::vector<std::string> needed(operands.size(), parsed.result);
  for (size_t i = operands.size() - 1; i > 0; --i) needed[i - 1] = needed[i] + parsed.operands[i];

  Term term = reduced_to(without_repeats({operands[0], parsed.operands[0]}), needed[0]);
  for (size_t i = 1; i < operands.size(); ++i) {
    const Term next = without_repeats({operands[i], parsed.operands[i]});
    term = joined(term, reduced_to(next, needed[i] + term.letters), needed[i]);
    term = reduced_to(term, needed[i]);
  }
  return arranged(term, parsed.result);
}

}  // namespace capstan
