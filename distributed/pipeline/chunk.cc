#include "distributed/pipeline/chunk.h"

#include <algorithm>
#include <functional>
#include <map>

#include "core/raise.h"
#include "nn/materialize.h"

namespace capstan::distributed::pipeline {
namespace {

/// Shows another visitor a module's members, one level down, under full names; but modules that
/// hold something hidden are opened in their turn, and what is hidden is left out.
class Opened : public nn::MemberVisitor {
 public:
  Opened(nn::MemberVisitor& visitor, const std::vector<Tie>& hidden, std::string prefix)
      : visitor_(visitor), hidden_(hidden), prefix_(std::move(prefix)) {}

  void parameter(const std::string& name, nn::Parameter& parameter) override {
    if (!hides(parameter)) visitor_.parameter(prefix_ + name, parameter);
  }
  void buffer(const std::string& name, nn::Buffer& buffer) override {
    visitor_.buffer(prefix_ + name, buffer);
  }
  void module(const std::string& name, nn::Module& module) override {
    const NamedTensors parameters = hidden_.empty() ? NamedTensors() : module.parameters();
    if (std::ranges::any_of(parameters, [&](const auto& entry) { return hides(entry.second); })) {
      Opened inside(visitor_, hidden_, prefix_ + name + ".");
      module.visit_members(inside);
    } else {
      visitor_.module(prefix_ + name, module);
    }
  }

 private:
  bool hides(const Tensor& parameter) const {
    return std::ranges::any_of(hidden_,
                               [&](const Tie& tie) { return tie.parameter.same(parameter); });
  }

  nn::MemberVisitor& visitor_;
  const std::vector<Tie>& hidden_;
  const std::string prefix_;
};

/// The chunks that use something.
using Users = std::set<int>;

template <class Named>
void require_user(const char* kind, const Named& named,
                  const std::map<const TensorBody*, Users>& users) {
  for (const auto& [name, tensor] : named) {
    if (users.contains(&tensor.body())) continue;
    raise<ValueError>("[pipeline] no layer uses the {} '{}': each layer lists its modules", kind,
                      name);
  }
}

}  // namespace

Deal deal(const nn::Chain& chain, const Cut& cut, int stages) {
  std::map<const nn::Module*, std::string> names;
  for (const auto& [name, module] : chain.model().modules()) names.try_emplace(module, name);

  Deal deal;
  std::map<const TensorBody*, Users> users;
  auto layer = chain.layers().begin();
  for (int chunk = 0; chunk < std::ssize(cut); ++chunk) {
    deal.layers.emplace_back(layer, layer + cut[chunk]);
    auto& members = deal.members.emplace_back();
    for (const auto end = layer + cut[chunk]; layer != end; ++layer) {
      for (nn::Module* module : layer->modules) {
        if (!module || std::ranges::find(members, module, &Deal::Member::module) != members.end()) {
          continue;
        }
        if (!names.contains(module)) {
          raise<ValueError>("[pipeline] layer '{}' lists a {} that is not part of the model",
                            layer->name, module->type_name());
        }
        members.push_back({names[module], module});
        for (const auto& [_, tensor] : module->parameters()) users[&tensor.body()].insert(chunk);
        for (const auto& [_, tensor] : module->buffers()) users[&tensor.body()].insert(chunk);
      }
    }
  }

  require_user("parameter", chain.model().parameters(), users);
  require_user("buffer", chain.model().buffers(), users);
  for (const auto& [name, buffer] : chain.model().buffers()) {
    const Users& chunks = users[&buffer.body()];
    if (chunks.size() == 1) continue;
    raise<ValueError>("[pipeline] the buffer '{}' would be on chunks {}, which cannot share it",
                      name, fmt::join(chunks, ", "));
  }
  for (const auto& [name, parameter] : chain.model().parameters()) {
    const Users& chunks = users[&parameter.body()];
    const int owner = *chunks.begin();
    std::set<int> taken;
    for (const int chunk : chunks) {
      if (taken.insert(chunk % stages).second) continue;
      raise<ValueError>(
          "[pipeline] '{}' is used by the chunks {}, two of them on stage {}: cut the model so "
          "that "
          "these layers are in one chunk or on different stages",
          name, fmt::join(chunks, ", "), chunk % stages);
    }
    const auto has_that_name = [&, name = name](const Deal::Member& member) {
      return member.name.empty() || name.starts_with(member.name + ".");
    };
    if (!std::ranges::any_of(deal.members[owner], has_that_name)) {
      raise<ValueError>(
          "[pipeline] the first chunk that uses '{}', number {}, has it under another name: list "
          "the "
          "module that owns it first among the model's members",
          name, owner);
    }
    for (auto borrower = chunks.rbegin(); *borrower != owner; ++borrower) {
      deal.ties.push_back({name, owner, *borrower, parameter});
    }
  }
  return deal;
}

Chunk::Chunk(const Deal& deal, int number)
    : number_(number), layers_(deal.layers[number]), members_(deal.members[number]) {
  for (const Tie& tie : deal.ties) {
    if (tie.owner == number) owned_.push_back(tie);
    if (tie.borrower == number) borrowed_.push_back(tie);
  }
}

std::string Chunk::describe() const {
  const std::string &first = layers_.front().name, &last = layers_.back().name;
  return first == last ? fmt::format("chunk {} ({})", number_, first)
                       : fmt::format("chunk {} ({} to {})", number_, first, last);
}

Tensors Chunk::operator()(const Tensors& inputs, Tensors* first) {
  return call([&] {
    Tensors values = inputs;
    for (size_t i = 0; i < layers_.size(); ++i) {
      values = layers_[i].forward(values);
      if (i == 0 && first) *first = values;
    }
    return values;
  });
}

void Chunk::materialize(const Recipe& recipe) {
  nn::materialize(*this, recipe);
  for (const Tie& tie : borrowed_) {
    nn::become(tie.parameter, empty(tie.parameter.shape(), {tie.parameter.dtype()}));
  }
}

void Chunk::find_owned() {
  for (const auto& [name, parameter] : parameters()) {
    for (Tie& tie : owned_) {
      if (tie.name == name) tie.parameter = parameter;
    }
  }
}

void Chunk::visit_members(nn::MemberVisitor& visitor) {
  Opened opened(visitor, borrowed_, "");
  for (const auto& [name, module] : members_) opened.module(name, *module);
}

void release_others(const Deal& deal, int stage, int stages) {
  std::set<nn::Module*> here, elsewhere;
  for (int chunk = 0; chunk < std::ssize(deal.members); ++chunk) {
    for (const auto& [_, module] : deal.members[chunk]) {
      (chunk % stages == stage ? here : elsewhere).insert(module);
    }
  }
  for (nn::Module* module : elsewhere) {
    if (!here.contains(module)) module->to(Device::meta());
  }
}

}  // namespace capstan::distributed::pipeline
